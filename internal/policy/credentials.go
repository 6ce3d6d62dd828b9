package policy

import (
	"fmt"
	"slices"
)

// Credential is a program that prints the credential of an API.
type Credential struct {
	Command []string `yaml:"command"` // no shell
	Kind    string   `yaml:"kind"`    // "api-key" (also where it is empty) or "oauth", a login's token
	// Minutes is how long what it printed is used; nil: 5.
	Minutes *float64 `yaml:"minutes"`
}

func checkCredentials(of map[string]Credential) error {
	for api, c := range of {
		switch {
		case !slices.Contains([]string{"anthropic", "openai", "gemini"}, api):
			return fmt.Errorf("credentials: %q: expected anthropic, openai or gemini", api)
		case len(c.Command) == 0 || c.Command[0] == "":
			return fmt.Errorf("credentials.%s: it needs command: [PROGRAM, ARGUMENT…]", api)
		case !slices.Contains([]string{"", "api-key", "oauth"}, c.Kind):
			return fmt.Errorf("credentials.%s.kind: %q: expected api-key or oauth", api, c.Kind)
		case c.Minutes != nil && !(*c.Minutes >= 0 && *c.Minutes <= 24*60):
			return fmt.Errorf("credentials.%s.minutes: %v: expected 0 to 1440", api, *c.Minutes)
		}
	}
	return nil
}

// Credentials are the programs that print credentials, by API.
func (p *Policy) Credentials() map[string]Credential { return p.credentials }
