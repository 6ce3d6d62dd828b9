package egress

import (
	"net/netip"
	"testing"
)

// TestList is THREATS 6: entries match whole labels, and one host has one form.
func TestList(t *testing.T) {
	for _, tc := range []struct {
		allow []string
		yes   []string
		no    []string
	}{
		{nil, nil, []string{"example.com:443", "127.0.0.1:80"}},
		{
			[]string{"example.com"},
			[]string{"example.com:443", "example.com:80", "EXAMPLE.com:443", "example.com.:443"},
			[]string{"example.com:22", "example.com:8443", "www.example.com:443", "evilexample.com:443", "example.com.evil.net:443", "xn--example-9ya.com:443"},
		},
		{
			[]string{"*.example.com"},
			[]string{"a.example.com:443", "a.b.example.com:80"},
			[]string{"example.com:443", "evilexample.com:443", "a.example.com:8080", "a.example.com.evil.net:443"},
		},
		{[]string{"db.example:5432"}, []string{"db.example:5432"}, []string{"db.example:443", "db.example:80"}},
		{[]string{"*.example.com:22"}, []string{"git.example.com:22"}, []string{"git.example.com:443"}},
		{[]string{"xn--bcher-kva.example"}, []string{"xn--bcher-kva.example:443"}, nil},
		{[]string{"192.0.2.7"}, []string{"192.0.2.7:443", "[::ffff:192.0.2.7]:443"}, []string{"192.0.2.8:443", "192.0.2.7:22"}},
		{[]string{"[2001:db8::7]:8443"}, []string{"[2001:DB8:0::7]:8443"}, []string{"[2001:db8::7]:443"}},
		{[]string{"2001:db8::7"}, []string{"[2001:db8::7]:443"}, []string{"[2001:db8::8]:443"}},
	} {
		list, err := ParseList(tc.allow)
		if err != nil {
			t.Errorf("%q: %v", tc.allow, err)
			continue
		}
		for want, hosts := range map[bool][]string{true: tc.yes, false: tc.no} {
			for _, host := range hosts {
				target, err := parseTarget(host, 0)
				if err != nil {
					t.Errorf("%s: %v", host, err)
				}
				if entry, ok := list.match(target); ok != want {
					t.Errorf("%q and %s: got %v by %q", tc.allow, host, ok, entry)
				}
			}
		}
	}
}

// TestTargetsThatAreNone is THREATS 5 and 6: what others would read as an
// address, and names with what does not belong into them, are refused unread.
func TestTargetsThatAreNone(t *testing.T) {
	for _, text := range []string{
		"2130706433:80", "0x7f000001:80", "0x7f.1:80", "0177.0.0.1:80", "127.1:80", "1.2.3:80", "1.2.3.4.5:80", "256.1.1.1:80", "999999999999999999999:80", "a.0x:80",
		"[fe80::1%eth0]:80", "example.com%00:443", "example.com\x00:443", "exam\nple.com:443", "example.com\r\n:443", "bücher.example:443", "a b.example:443",
		"user@example.com:443", "example.com/x:443", "example.com", "example.com:", "example.com:0", "example.com:65536", "example.com:+443", "example.com:https", ":443",
		".example.com:443", "a..example.com:443", "-a.example.com:443", "example.com..:443", "[example.com:443", "*.example.com:443",
	} {
		if got, err := parseTarget(text, 0); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestListRefuses(t *testing.T) {
	for _, text := range []string{"", "*", "*.", "a.*.com", "*.10.0.0.1", "https://example.com", "example.com/x", "example.com:0", "127.1", "a b", "[::1", "::1:443:1:2:3:4:5:6:7"} {
		if _, err := ParseList([]string{text}); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestPublic is THREATS 7.
func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "172.15.0.1": true, "172.32.0.1": true, "100.63.0.1": true, "100.128.0.1": true, "2606:4700::1111": true, "2a00:1450::1": true,
		"64:ff9b::808:808": true, "2002:808:808::1": true, "::ffff:8.8.8.8": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.0.0.1": false, "127.0.0.1": false, "127.9.9.9": false, "169.254.169.254": false, "172.17.0.1": false, "192.168.1.1": false,
		"100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false, "198.18.0.1": false, "192.0.2.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false,
		"168.63.129.16": false,
		"::":            false, "::1": false, "fe80::1": false, "fc00::1": false, "fd00:ec2::254": false, "ff02::1": false, "2001:db8::1": false, "2001::1": false, "::8.8.8.8": false, "100::1": false,
		"::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::808:808": false, "2002:7f00:1::1": false, "2002:a9fe:a9fe::1": false,
		"fe80::1%eth0": false,
	} {
		if got := Public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Public(%s) = %v", addr, got)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}
