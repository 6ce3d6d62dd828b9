package runtimes

import (
	"slices"
	"strings"
)

// APIsFor gives the APIs that the runtime speaks with cfg, its own first: those
// that cfg names, else all. A runtime of several APIs speaks only that of the
// model's vendor where the model names one ("openai/gpt-5").
func (d Description) APIsFor(cfg Config) []string {
	if len(cfg.APIs) > 0 {
		return cfg.APIs
	}
	all := append([]string{d.API}, d.OtherAPIs...)
	vendor, _, _ := strings.Cut(cfg.Model, "/")
	api := map[string]string{"anthropic": APIAnthropic, "openai": APIOpenAI, "google": APIGemini}[vendor]
	if len(all) > 1 && slices.Contains(all, api) {
		return []string{api}
	}
	return all
}
