package runtimes

import (
	"slices"
	"strings"
)

// APIs are all that the runtime can speak, its own first.
func (d Description) APIs() []string { return append([]string{d.API}, d.OtherAPIs...) }

// APIsFor gives the APIs that the runtime speaks with cfg: those that cfg names;
// that of the model's vendor, where the model names one ("anthropic/claude-…") and
// the runtime speaks it; else its own. What is at a base URL speaks the runtime's
// own, whatever its models are called.
func (d Description) APIsFor(cfg Config) []string {
	if len(cfg.APIs) > 0 {
		return cfg.APIs
	}
	vendor, _, _ := strings.Cut(cfg.Model, "/")
	api := map[string]string{"anthropic": APIAnthropic, "openai": APIOpenAI, "google": APIGemini}[vendor]
	if cfg.BaseURL == "" && slices.Contains(d.APIs(), api) {
		return []string{api}
	}
	return []string{d.API}
}
