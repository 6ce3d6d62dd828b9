package runtimes

import (
	"slices"
	"strings"
)

// APIsFor gives the APIs that the runtime speaks with model, its own first. A
// runtime of several APIs speaks only that of the model's vendor where the
// model names one ("openai/gpt-5").
func (d Description) APIsFor(model string) []string {
	all := append([]string{d.API}, d.OtherAPIs...)
	vendor, _, _ := strings.Cut(model, "/")
	api := map[string]string{"anthropic": APIAnthropic, "openai": APIOpenAI, "google": APIGemini}[vendor]
	if len(all) > 1 && slices.Contains(all, api) {
		return []string{api}
	}
	return all
}
