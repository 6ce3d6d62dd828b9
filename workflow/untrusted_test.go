package workflow

import (
	"strings"
	"testing"
)

// SEMANTICS 32: an expression in `run:` is put in before the shell sees it, so
// text of strangers and agents there gets a warning that shows the way round.
func TestSemantics32UntrustedTextInScripts(t *testing.T) {
	for text, want := range map[string]bool{
		"github.event.issue.title":         true,
		"github.event['issue']['body']":    true,
		"github.event.commits[0].message":  true,
		"github.head_ref":                  true,
		"steps.agent.outputs.result":       true,
		"github.event.issue.number":        false,
		"github.sha":                       false,
		"steps.script.outputs.x":           false,
		"'github.event.issue.title'":       false,
		"format('{0}', github.head_ref)":   true,
		"toJSON(github.event.issue.title)": true,
	} {
		src := "on: push\njobs:\n  a:\n    steps:\n      - {id: agent, prompt: p, workspace: ro}\n      - {id: script, run: a}\n      - run: echo \"${{ " + text + " }}\"\n        env: {T: \"${{ " + text + " }}\"}\n"
		_, _, ps := Validate("w.yml", []byte(src))
		got := false
		for _, p := range ps {
			if p.Line != 7 || p.Severity != SeverityWarning || !strings.Contains(p.Hint, "env") {
				t.Errorf("%s: %+v", text, p)
			}
			got = true
		}
		if got != want {
			t.Errorf("%s: warned %v, want %v", text, got, want)
		}
	}
}
