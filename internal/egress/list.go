package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// List is what a box may reach. The empty List is nothing.
type List []entry

// entry is one host pattern: "github.com", "*.npmjs.org", "db.example:5432",
// "192.0.2.7", "[2001:db8::7]:8443".
type entry struct {
	text   string
	name   string     // without "*."
	within bool       // "*.": names below it, at any depth, not the name itself
	addr   netip.Addr // of an address
	port   int        // 0: 443 and 80
}

// ParseList reads the entries of `docker.network.allow`.
func ParseList(texts []string) (List, error) {
	list := make(List, 0, len(texts))
	for _, text := range texts {
		e, err := parseEntry(text)
		if err != nil {
			return nil, fmt.Errorf("allow %q: %w", text, err)
		}
		list = append(list, e)
	}
	return list, nil
}

func parseEntry(text string) (entry, error) {
	e := entry{text: text}
	host, port := text, ""
	if _, err := netip.ParseAddr(text); err != nil && strings.LastIndexByte(text, ':') > strings.LastIndexByte(text, ']') {
		if host, port, err = net.SplitHostPort(text); err != nil {
			return e, err
		}
		if e.port, err = parsePort(port); err != nil {
			return e, err
		}
	}
	if rest, ok := strings.CutPrefix(host, "*."); ok {
		e.within, host = true, rest
	}
	var err error
	e.name, e.addr, err = parseHost(strings.Trim(host, "[]"))
	if e.within && e.addr.IsValid() {
		return e, errors.New("an address has no names below it")
	}
	return e, err
}

// match gives the entry that allows t, as it was written.
func (l List) match(t target) (string, bool) {
	for _, e := range l {
		switch {
		case e.port == 0 && t.port != 443 && t.port != 80, e.port != 0 && e.port != t.port:
		case t.addr.IsValid() && e.addr == t.addr,
			!t.addr.IsValid() && !e.addr.IsValid() && !e.within && e.name == t.name,
			!t.addr.IsValid() && e.within && strings.HasSuffix(t.name, "."+e.name):
			return e.text, true
		}
	}
	return "", false
}

// PrivateByName gives the host of an entry that is private whatever a resolver
// says: an address that is not of the internet, or a name of this machine.
func PrivateByName(text string) (host string, ok bool) {
	e, err := parseEntry(text)
	switch {
	case err != nil:
		return "", false
	case e.addr.IsValid():
		return target{name: e.name, addr: e.addr}.host(), !Public(e.addr)
	}
	return e.name, e.name == "localhost" || strings.HasSuffix(e.name, ".localhost")
}

// target is where a request wants to go.
type target struct {
	name string     // lower case, no dot at its end; of an address its one form
	addr netip.Addr // valid: it is an address
	port int
}

// host is as it stands in a list, in the port's place nothing.
func (t target) host() string {
	if t.addr.Is6() {
		return "[" + t.name + "]"
	}
	return t.name
}

// String is host:port.
func (t target) String() string { return t.host() + ":" + strconv.Itoa(t.port) }

// entry is what would have to stand in the list.
func (t target) entry() string {
	if t.port == 443 || t.port == 80 {
		return t.host()
	}
	return t.String()
}

// parseTarget reads "host" or "host:port". defaultPort 0 means that the port
// must be there.
func parseTarget(text string, defaultPort int) (target, error) {
	host, port := text, ""
	if defaultPort == 0 || strings.LastIndexByte(text, ':') > strings.LastIndexByte(text, ']') {
		var err error
		if host, port, err = net.SplitHostPort(text); err != nil {
			return target{}, err
		}
	}
	t := target{port: defaultPort}
	var err error
	if port != "" || defaultPort == 0 {
		if t.port, err = parsePort(port); err != nil {
			return target{}, err
		}
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	t.name, t.addr, err = parseHost(host)
	return t, err
}

func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || s[0] == '+' {
		return 0, fmt.Errorf("%.20q is no port", s)
	}
	return int(n), nil
}

// parseHost reads a name or an address and gives its one form. What others would
// take for an address ("0x7f.1", "2130706433", "127.1") is neither.
func parseHost(s string) (string, netip.Addr, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return "", netip.Addr{}, fmt.Errorf("%.100q: an address with a zone is of this machine only", s)
		}
		addr = addr.Unmap()
		return addr.String(), addr, nil
	}
	name := strings.TrimSuffix(strings.ToLower(s), ".")
	if name == "" || len(name) > 253 {
		return "", netip.Addr{}, fmt.Errorf("%.100q is no host name", s)
	}
	last := ""
	for last = range strings.SplitSeq(name, ".") {
		if !isLabel(last) {
			return "", netip.Addr{}, fmt.Errorf("%.100q is no host name", s)
		}
	}
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", netip.Addr{}, fmt.Errorf("%.100q is neither a host name nor an address in its usual form", s)
	}
	return name, netip.Addr{}, nil
}

func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
