package opencode

import (
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// vendor is whose model is asked, and how.
type vendor struct {
	provider string // the CLI's name for it, and what the model's name begins with
	api      string
	key      string // the variable in which the configuration finds the key
	path     string // that the provider's base URL ends in
}

// vendors are those of whose models the CLI knows the API, the default first.
func vendors() []vendor {
	return []vendor{
		{"openai", runtimes.APIOpenAI, "OPENAI_API_KEY", "/v1"}, // Responses
		{"anthropic", runtimes.APIAnthropic, "ANTHROPIC_API_KEY", "/v1"},
		{"google", runtimes.APIGemini, "GOOGLE_GENERATIVE_AI_API_KEY", "/v1beta"},
	}
}

// compatible is the provider of base-url: what speaks "the OpenAI API" elsewhere
// means Chat Completions.
const compatible = "herd"

// choose gives the vendor of the task's model, and the model in its words.
func choose(task runtimes.Task) (v vendor, model string) {
	model = task.Config.Model
	if model == "" {
		model = DefaultModel
	}
	v = vendors()[0]
	if task.Config.BaseURL != "" {
		v.provider = compatible
		return v, model // which may have slashes of its own
	}
	for _, named := range vendors() {
		if rest, ok := strings.CutPrefix(model, named.provider+"/"); ok {
			return named, rest
		}
	}
	return v, model
}
