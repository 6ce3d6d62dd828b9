package gateway

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// scrubber takes the gateway's own secrets out of what is recorded, in the
// forms a program may have put them. Safe for concurrent use.
type scrubber struct {
	then func(string) string

	mu       sync.Mutex
	known    []string
	replacer *strings.Replacer
}

func newScrubber(then func(string) string) *scrubber {
	return &scrubber{then: then, replacer: strings.NewReplacer()}
}

// know adds a secret; logins change while a session lasts.
func (c *scrubber) know(secret string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(secret) < 6 || slices.Contains(c.known, secret) {
		return
	}
	c.known = append(c.known, secret)
	var pairs []string
	for _, s := range c.known {
		for _, form := range secretForms(s) {
			pairs = append(pairs, form, "***")
		}
	}
	c.replacer = strings.NewReplacer(pairs...)
}

func (c *scrubber) clean(s string) string {
	c.mu.Lock()
	r := c.replacer
	c.mu.Unlock()
	return c.then(r.Replace(s))
}

// secretForms are the spellings of s that are looked for: as it is, escaped,
// reversed, in hex, and in base64 at each of the three offsets.
func secretForms(s string) []string {
	reversed := []byte(s)
	slices.Reverse(reversed)
	forms := []string{s, url.QueryEscape(s), string(reversed), hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s)))}
	for _, text := range []string{s, string(reversed)} {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for offset := range 3 {
				// Characters at the edges also depend on the neighbours.
				b := enc.EncodeToString(append(make([]byte, offset), text...))
				b = b[[]int{0, 2, 3}[offset]:]
				if (len(text)+offset)%3 != 0 {
					b = b[:len(b)-1]
				}
				forms = append(forms, b)
			}
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}
