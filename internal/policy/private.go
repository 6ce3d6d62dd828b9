package policy

import (
	"net/netip"
	"strings"

	"github.com/herd-runner/herd-runner/internal/egress"
)

// PrivateHost says whether boxes with an allow-list may reach host, a name or an
// address as it stands in such a list, at an address that is not of the
// internet, and if not, the words that would allow it.
func (p *Policy) PrivateHost(host string) (words string, ok bool) {
	if _, ok := p.Allows(privatePrefix + host); ok {
		return "", true
	}
	return p.Words(privatePrefix + host), false
}

// widerRules are the rules each of which allows what rule does: itself, and for
// a host what it is below.
func widerRules(rule string) []string {
	rules := []string{rule}
	host, ok := strings.CutPrefix(rule, privatePrefix)
	if !ok {
		return rules
	}
	host = strings.TrimPrefix(host, "*.")
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return rules
	}
	for {
		_, parent, ok := strings.Cut(host, ".")
		if !ok {
			return rules
		}
		rules = append(rules, privatePrefix+"*."+parent)
		host = parent
	}
}

// privateEntries are the hosts of an allow-list that are private by what they
// say, without a look at where they are: addresses, and this machine's own name.
func privateEntries(allow []string) []string {
	var hosts []string
	for _, entry := range allow {
		if host, ok := egress.PrivateByName(entry); ok {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
