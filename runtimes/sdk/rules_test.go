package sdk

import (
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"Bash":                 "bash",
		" bash ( git * ) ":     "bash(git *)",
		"Bash(npm run test:*)": "bash(npm run test *)",
		"Bash(*)":              "bash",
		"LS":                   "list",
		"MultiEdit(src/**)":    "edit(src/**)",
		"mcp__github":          "mcp__github__*",
		"mcp__github__get_*":   "mcp__github__get_*",
		"mcp__*":               "mcp__*",
		"Launch":               `!unknown tool "Launch": there are bash`,
		"bash(":                "!expected a tool",
		"bash()":               "!expected a tool",
		"bash(a) b":            "!expected a tool",
		"":                     "!unknown tool",
		"mcp__github(x)":       "!no patterns in brackets",
	} {
		rule, err := ParseRule(text)
		if wrong, fails := strings.CutPrefix(want, "!"); fails {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%q: %v, want %q", text, err, wrong)
			}
		} else if err != nil || rule.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, rule, err, want)
		}
	}
}
