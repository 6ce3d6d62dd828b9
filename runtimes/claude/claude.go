// Package claude drives the Claude Code CLI headless (`claude -p`, found on
// the box's PATH). It sits between the executor, which runs Command's process
// in a box, and the event stream, which gets the Decoder's messages. It knows
// nothing of containers, processes or the network.
//
// Measured with versions 2.1.197 and 2.1.329 of @anthropic-ai/claude-code.
package claude

import (
	"path"

	"github.com/herd-runner/herd-runner/runtimes"
)

// Runtime is the Claude Code runtime: type "cli", engine "claude". Stateless.
type Runtime struct{}

// New returns the runtime.
func New() Runtime { return Runtime{} }

// Describe says what Claude Code can do.
func (Runtime) Describe() runtimes.Description {
	return runtimes.Description{
		Name:   "claude",
		Type:   runtimes.TypeCLI,
		Engine: "claude",
		API:    "anthropic",
		Features: []runtimes.Feature{
			runtimes.FeatureOutputSchema,
			runtimes.FeatureResume,
			runtimes.FeatureFork,
			runtimes.FeatureMCP,
			runtimes.FeatureMaxTurns,
			runtimes.FeatureMaxCost,
			runtimes.FeatureTools,
			runtimes.FeatureSystemPrompt,
			runtimes.FeaturePermission,
			runtimes.FeatureFallback,
			runtimes.FeatureAuthMount,
		},
		SessionState: []string{path.Join(ConfigDir(""), "projects")},
	}
}

// ConfigDir is the CLAUDE_CONFIG_DIR of an agent whose HOME is home. It is not
// ~/.claude, so that an agent on the bare host neither reads nor overwrites
// the person's own settings. Sessions are in ConfigDir/projects/*/ID.jsonl.
func ConfigDir(home string) string { return path.Join(home, ".herd-claude") }
