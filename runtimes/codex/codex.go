// Package codex drives OpenAI's Codex CLI headless (`codex exec --json`, found
// on the box's PATH). It sits between the executor, which runs Command's
// process in a box, and the event stream, which gets the Decoder's messages. It
// knows nothing of containers, processes or the network.
//
// Measured with version 0.169.0 of @openai/codex.
package codex

import (
	"path"

	"github.com/herd-runner/herd-runner/runtimes"
)

// Runtime is the Codex runtime: type "cli", engine "codex". Stateless.
type Runtime struct{}

// New returns the runtime.
func New() Runtime { return Runtime{} }

// Describe says what Codex can do. It has no limit of turns and no choice of
// tools.
func (Runtime) Describe() runtimes.Description {
	return runtimes.Description{
		Name:   "codex",
		Type:   runtimes.TypeCLI,
		Engine: "codex",
		API:    runtimes.APIOpenAI,
		Features: []runtimes.Feature{
			runtimes.FeatureOutputSchema,
			runtimes.FeatureResume,
			runtimes.FeatureFork,
			runtimes.FeatureMCP,
			runtimes.FeatureMaxCost,
			runtimes.FeatureSystemPrompt,
			runtimes.FeaturePermission,
		},
		SessionState:  []string{path.Join(Home(""), "sessions")},
		NoLogin:       "its login is renewed by codex itself, with a token that never enters a box: set OPENAI_API_KEY and use auth: env",
		NamesSessions: true,
	}
}

// Home is the CODEX_HOME of an agent whose HOME is home. It is not ~/.codex, so
// that an agent on the bare host neither reads nor overwrites the person's own
// settings. Sessions are in Home/sessions/YEAR/MONTH/DAY/rollout-*-ID.jsonl.
func Home(home string) string { return path.Join(home, ".herd-codex") }
