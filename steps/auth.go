package steps

import (
	"errors"
	"fmt"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/workflow"
)

// Direct says whether docker.auth brings the real credential into the box: the
// agent then calls its model's vendor itself, and nothing listens in the box in
// the vendor's place.
func Direct(auth string) bool { return auth == "env" || auth == "mount" }

// CheckAuth says why an agent with this runtime can not have its credential as
// the block asks; the operator has allowed it. Pure.
func CheckAuth(d workflow.Docker, rt runtimes.Description, cfg runtimes.Config) error {
	switch kept := d.Reuse || d.Ephemeral != nil && !*d.Ephemeral; {
	case !Direct(d.Auth):
		return nil
	case d.Network.Mode == "none":
		return authError(d.Auth, "has the agent call its model's vendor itself, which network: none does not let out: use bridge, or an allow-list with the vendor's host")
	case cfg.MaxCostUSD != 0 || cfg.MaxTokens != 0:
		return authError(d.Auth, "goes around the gateway, which is what keeps max-cost-usd and max-tokens: remove them, or use auth: gateway")
	case d.Auth == "mount" && !rt.Has(runtimes.FeatureAuthMount):
		return authError(d.Auth, "is not for runtime "+rt.Name+": "+rt.NoLogin)
	case kept:
		return authError(d.Auth, "brings the credential into a box that is kept, with whatever the agent writes down of it: remove reuse and ephemeral: false, or use auth: gateway")
	}
	if apis := rt.APIsFor(cfg); len(apis) > 1 {
		return authError(d.Auth, fmt.Sprintf("gives one credential, and runtime %s speaks several APIs %q: say which, with the vendor in `model` or with `api`", rt.Name, apis))
	}
	return nil
}

func authError(auth, why string) error { return errors.New("docker.auth: " + auth + " " + why) }

// tellDirect says what does not hold for a step's agent.
func (s *stepRun) tellDirect(auth string) {
	if s.attempt > 1 {
		return
	}
	s.emit(event.Event{Type: event.Notice, Note: &event.Note{Level: "warning",
		Message: "docker.auth: " + auth + ": this agent has the real credential and calls its model's vendor itself: what it spends is not counted, and no budget, list of models or recording holds for it"}})
}
