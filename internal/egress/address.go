package egress

import "net/netip"

// notPublic are blocks that no request may reach without the operator's word:
// IANA's special-purpose registries, and what clouds serve metadata from.
var notPublic = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/3",
	"168.63.129.16/32", // Azure's own services; https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
	"2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
)

// What is global in IPv6, and the blocks that carry an IPv4 address.
var (
	global = netip.MustParsePrefix("2000::/3")
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// Public says whether addr is one of the internet: not this machine, not its
// network, not a cloud's metadata service.
func Public(addr netip.Addr) bool {
	addr = addr.Unmap()
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(addr) {
			return false
		}
	}
	if addr.Is4() {
		return true
	}
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return Public(netip.AddrFrom4([4]byte(b[12:])))
	case sixTo4.Contains(addr):
		return Public(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return global.Contains(addr)
}
