package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrices(t *testing.T) {
	p, err := DefaultPrices()
	if err != nil {
		t.Fatal(err)
	}
	const million = int64(1_000_000)
	for _, tc := range []struct {
		model string
		used  tokens
		want  float64
		known bool
	}{
		{"claude-sonnet-5", tokens{input: million, output: million}, 12, true},
		{"claude-opus-4-1-20250805", tokens{output: million}, 75, true},
		{"claude-opus-4-20250514", tokens{output: million}, 75, true},
		{"claude-opus-4-8", tokens{output: million}, 25, true},
		{"claude-haiku-4-5@20251001", tokens{cacheRead: million}, 0.1, true},
		{"claude-sonnet-4-5", tokens{cacheWrite: 2 * million, cacheWrite1h: million}, 3.75 + 6, true},
		{"claude-haiku-5-5", tokens{input: 100_000}, 0.01, true},
		{"claude-haiku-5-5", tokens{input: 1, cacheRead: 100_000}, (0.5 + 0.05*100_000) / 1e6, true},
		{"gpt-5.1-codex-mini", tokens{input: million, cacheRead: million}, 0.275, true},
		{"gpt-5-2025-08-07", tokens{output: million}, 10, true},
		{"gpt-5-pro", tokens{cacheRead: million}, 15, true}, // no rate for cached input
		{"gpt-5.6", tokens{cacheWrite: 100_000}, 0.625, true},
		{"gemini-2.5-pro", tokens{input: 300_000, output: 1000}, 0.75 + 0.015, true},
		{"gemini-3-flash-preview", tokens{input: million}, 0.5, true},
		{"gemini-2.5-flash-preview-09-2025", tokens{input: million}, 0.3, true},
		// A sibling's price is no price.
		{"claude-opus-6", tokens{input: 1}, 0, false},
		{"gpt-5-enormous", tokens{input: 1}, 0, false},
		{"gpt-9", tokens{}, 0, true},
	} {
		got, known := p.cost(tc.model, tc.used)
		if got-tc.want > 1e-9 || tc.want-got > 1e-9 || known != tc.known {
			t.Errorf("%s %+v: %v %v, want %v", tc.model, tc.used, got, known, tc.want)
		}
	}
}

// A list of one's own overrides entries of the built-in table and adds others.
func TestPricesOfOnesOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.json")
	if p, err := LoadPrices(path); err != nil || !p.Known("gpt-5") {
		t.Fatalf("without a file: %v", err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"date": "2026-12-01", "source": "our contract", "models": [
		{"model": "claude-sonnet-5", "input": 1, "output": 5},
		{"model": "our-own", "input": 0, "output": 0}]}`)
	p, err := LoadPrices(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, known := p.cost("claude-sonnet-5", tokens{input: 1e6, cacheRead: 1e6}); got != 2 || !known {
		t.Errorf("overridden: %v %v", got, known)
	}
	if got, known := p.cost("our-own", tokens{input: 1e6}); got != 0 || !known {
		t.Errorf("added: %v %v", got, known)
	}
	if !p.Known("gpt-5") {
		t.Error("the built-in table is gone")
	}
	for text, want := range map[string]string{
		"":                                  "expected {",
		"{}":                                `date ""`,
		`{"date":"2026-12-01","models":[]}`: "lists no models",
		`{"date":"2026-12-01","models":[{"model":"","input":1}]}`:                                   "entry 1 names no model",
		`{"date":"2026-12-01","models":[{"model":"a","input":-1}]}`:                                 "a price of -1",
		`{"date":"2026-12-01","models":[{"model":"a","inputs":1}]}`:                                 `unknown field "inputs"`,
		"{\"date\":\"2026-12-01\",\n\"models\":[{\"model\":1}]}":                                    "prices.json:2",
		`{"date":"2026-12-01","models":[{"model":"a","input":1,"long":{"input":2}}]}`:               "long.above",
		`{"date":"2026-12-01","models":[{"model":"a","input":1,"cache_read":99999999}]}`:            "a price of",
		`{"date":"2026-12-01","models":[{"model":"a","long":{"above":1,"cache_write_1h":-0.001}}]}`: "a price of",
	} {
		write(text)
		if _, err := LoadPrices(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
