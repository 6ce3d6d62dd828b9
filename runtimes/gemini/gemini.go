// Package gemini drives the Gemini CLI headless (`gemini` with the prompt on
// stdin, found on the box's PATH). It sits between the executor, which runs
// Command's process in a box, and the event stream, which gets the Decoder's
// messages. It knows nothing of containers, processes or the network.
//
// Measured with version 0.61.0 of @google/gemini-cli.
package gemini

import (
	"path"

	"github.com/herd-runner/herd-runner/runtimes"
)

// Runtime is the Gemini CLI runtime: type "cli", engine "gemini". Stateless.
type Runtime struct{}

// New returns the runtime.
func New() Runtime { return Runtime{} }

// Describe says what the Gemini CLI can do. It has no flag for a schema of its
// answer, none to fork a session and none for a second model.
func (Runtime) Describe() runtimes.Description {
	return runtimes.Description{
		Name:   "gemini",
		Type:   runtimes.TypeCLI,
		Engine: "gemini",
		API:    runtimes.APIGemini,
		Features: []runtimes.Feature{
			runtimes.FeatureResume,
			runtimes.FeatureMCP,
			runtimes.FeatureMaxTurns,
			runtimes.FeatureMaxCost,
			runtimes.FeatureTools,
			runtimes.FeatureSystemPrompt,
			runtimes.FeaturePermission,
		},
		SessionState: []string{path.Join(ConfigHome(""), ".gemini/tmp/*/chats"), path.Join(ConfigHome(""), ".gemini/tmp/*/.project_root")},
		NoLogin:      "its login lives for an hour and is renewed with a token that never enters a box: set GEMINI_API_KEY and use auth: env",
	}
}

// ConfigHome is the GEMINI_CLI_HOME of an agent whose HOME is home; settings
// and sessions are in its .gemini. It is not HOME itself, so that an agent on
// the bare host neither reads nor overwrites the person's own settings.
func ConfigHome(home string) string { return path.Join(home, ".herd-gemini") }
