package gateway

import "github.com/herd-runner/herd-runner/internal/event"

// basis says how what the credential is used for is paid. A login costs nothing
// by request; a token of one's own goes to who knows where.
func (c Credential) basis() string {
	if c.Kind == OAuth && c.Origin != "ANTHROPIC_AUTH_TOKEN" {
		return event.BasisSubscription
	}
	return event.BasisAPI
}
