package runtimes_test

import (
	"slices"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes"
)

func TestAPIsForAModel(t *testing.T) {
	one := runtimes.Description{API: runtimes.APIAnthropic}
	some := runtimes.Description{API: runtimes.APIOpenAI, OtherAPIs: []string{runtimes.APIAnthropic}}
	for _, tt := range []struct {
		d     runtimes.Description
		model string
		want  []string
	}{
		{one, "", []string{"anthropic"}},
		{one, "openai/gpt-5", []string{"anthropic"}},
		{some, "", []string{"openai"}},
		{some, "openai/gpt-5", []string{"openai"}},
		{some, "anthropic/claude-sonnet-5", []string{"anthropic"}},
		{some, "google/gemini-3", []string{"openai"}},
		{some, "fake/model", []string{"openai"}},
	} {
		if got := tt.d.APIsFor(runtimes.Config{Model: tt.model}); !slices.Equal(got, tt.want) {
			t.Errorf("%+v, %q: %v, want %v", tt.d, tt.model, got, tt.want)
		}
	}
	at := runtimes.Config{Model: "anthropic/claude-sonnet-5", BaseURL: "http://localhost:11434/v1"}
	if got := some.APIsFor(at); !slices.Equal(got, []string{"openai"}) {
		t.Errorf("at a base URL: %v", got)
	}
}
