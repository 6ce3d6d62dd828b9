package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestConfigurations replays the documented configurations (DOCS-03, DOCS-04,
// DOCS-05; engines.yml, DOCS-06, has a test of its own) from the cassettes of the
// examples: no key, no model. With -update they are recorded from a scripted one.
func TestConfigurations(t *testing.T) {
	t.Parallel()
	needEngine(t)
	for _, c := range []struct {
		name   string
		models func(m *model) []string // the environment that a recording needs
		args   []string
		says   []string // parts of what its last step prints
		last   string   // job/step
		agents int
		file   string // what README.md is in the end
	}{
		{name: "cost-optimised", last: "mend/step-2", agents: 2, says: []string{"README.md | 2 +-", "dollars are left"}, file: "# Toy\n\nThe end.\n",
			models: func(m *model) []string { return m.asked("sk-ant-test") }},
		{name: "sdk-agent", args: []string{"--allow", "host"}, last: "explain/step-2", agents: 1, says: []string{"A toy of one file."},
			models: func(m *model) []string { return m.asked("sk-ant-test") }},
		{name: "sdk-sealed", last: "review/step-2", agents: 1, says: []string{"The verdict is good."},
			models: func(m *model) []string {
				return m.openAI("tool=structured_output,input="+b64(`{"verdict":"good","reasons":["It is short."]}`), "sk-test")
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := built(t).root
			workflow, cassette := filepath.Join(root, "examples/workflows", c.name+".yml"), filepath.Join(root, "examples/cassettes", c.name)
			project := func() string { return newRepository(t, map[string]string{"README.md": "# Toy\n\nTeh end.\n"}) }
			if *update {
				recorded := filepath.Join(t.TempDir(), "cassette")
				m := newMachine(t, c.models(newModel(t, configurationModels))...)
				m.call(t, append([]string{"run", "-C", project(), workflow, "--record", recorded}, c.args...)...).wantCode(t, 0)
				if err := errors.Join(os.RemoveAll(cassette), os.CopyFS(cassette, os.DirFS(recorded))); err != nil {
					t.Fatal(err)
				}
			}
			m, dir := newMachine(t), project()
			r := m.call(t, append([]string{"run", "--json", "-C", dir, workflow, "--replay", cassette}, c.args...)...).wantCode(t, 0)
			job, step, _ := strings.Cut(c.last, "/")
			for _, want := range c.says {
				if got := r.output(job, step); !strings.Contains(got, want) {
					t.Errorf("the last step printed %q, want %q", got, want)
				}
			}
			agents := 0
			for _, e := range r.events {
				if e.Type == event.StepFinished && e.Outcome.Usage != nil && e.Outcome.Usage.Requests > 0 {
					agents++
				}
			}
			if agents != c.agents {
				t.Errorf("%d agents worked, want %d", agents, c.agents)
			}
			if got := read(t, filepath.Join(dir, "README.md")); c.file != "" && got != c.file {
				t.Errorf("README.md is %q", got)
			}
			m.call(t, "cassette", "check", cassette).wantCode(t, 0)
			m.wantNothingLeft(t, dir)
		})
	}
}

// configurationModels are the models of the recordings.
const configurationModels = `
scenarios:
  - name: triage
    prompt: Look for spelling mistakes in README.md
    turns:
      - calls: [{name: Read, input: {file_path: /workspace/README.md}}]
        usage: {input: 2400, output: 60}
      - calls: [{name: StructuredOutput, input: {worth: true, task: "In README.md, write The for Teh."}}]
        usage: {input: 2600, output: 40}
      - text: There is one.
        usage: {input: 2700, output: 5}
  - name: mend
    prompt: In README.md, write The for Teh
    turns:
      - calls: [{name: Read, input: {file_path: /workspace/README.md}}]
        usage: {input: 2400, output: 60}
      - calls: [{name: Edit, input: {file_path: /workspace/README.md, old_string: Teh, new_string: The}}]
        usage: {input: 2600, output: 60}
      - text: Mended.
        usage: {input: 2700, output: 5}
  - name: explain
    prompt: say in two sentences what it is
    turns:
      - calls: [{name: read, input: {path: README.md}}]
        usage: {input: 800, output: 40}
      - text: A toy of one file.
        usage: {input: 900, output: 20}
`
