// Package opencode drives the OpenCode CLI headless (`opencode run`, found on
// the box's PATH). It sits between the executor, which runs Command's process
// in a box, and the event stream, which gets the Decoder's messages. It knows
// nothing of containers, processes or the network.
//
// Measured with version 1.18.33 of opencode-ai.
package opencode

import (
	"path"

	"github.com/herd-runner/herd-runner/runtimes"
)

// Runtime is the OpenCode runtime: type "cli", engine "opencode". Stateless.
type Runtime struct{}

// New returns the runtime.
func New() Runtime { return Runtime{} }

// Describe says what OpenCode can do. Its headless command has no structured
// output, and its limit of steps only asks the model to stop.
func (Runtime) Describe() runtimes.Description {
	return runtimes.Description{
		Name:   "opencode",
		Type:   runtimes.TypeCLI,
		Engine: "opencode",
		API:    runtimes.APIOpenAI,
		// Of a model such as "anthropic/claude-sonnet-5".
		OtherAPIs: []string{runtimes.APIAnthropic, runtimes.APIGemini},
		Features: []runtimes.Feature{
			runtimes.FeatureResume,
			runtimes.FeatureFork,
			runtimes.FeatureMCP,
			runtimes.FeatureMaxCost,
			runtimes.FeatureTools,
			runtimes.FeatureSystemPrompt,
			runtimes.FeaturePermission,
		},
		NoLogin:       "its logins are of many vendors, and the runner knows none of their files: set the key of the vendor and use auth: env",
		Sessions:      "ses_[0-9A-Za-z]{10,60}",
		NamesSessions: true,
		SessionState:  []string{path.Join(stateDir(""), "share/opencode/opencode.db*")},
	}
}

// DefaultModel is asked where the workflow names none.
const DefaultModel = "gpt-5.6-sol"

// stateDir is where sessions (a database) and logs of an agent whose HOME is
// home are. It is not ~/.local/share/opencode, so that an agent on the bare
// host neither reads nor overwrites the person's own.
func stateDir(home string) string { return path.Join(home, ".herd-opencode") }
