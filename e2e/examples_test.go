package e2e

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/workflow"
)

// example is a file of examples/workflows.
type example struct {
	name    string // "matrix.yml"
	src     []byte
	command string // the one its comment says it is run with
}

var exampleCommand = regexp.MustCompile(`(?m)^#     (.*herd-runner run .*)$`)

func readExamples(t *testing.T) []example {
	t.Helper()
	files, err := filepath.Glob("../examples/workflows/*.yml")
	if err != nil || len(files) < 6 {
		t.Fatalf("found %d examples (%v), want at least 6", len(files), err)
	}
	examples := make([]example, len(files))
	for i, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples[i] = example{name: filepath.Base(file), src: src}
		if m := exampleCommand.FindSubmatch(src); m != nil {
			examples[i].command = string(m[1])
		}
	}
	return examples
}

func TestExamplesAreValidAndSayHowTheyRun(t *testing.T) {
	for _, x := range readExamples(t) {
		if _, plan, problems := workflow.Load(x.name, x.src, os.DirFS("..").(fs.ReadFileFS).ReadFile); len(problems) > 0 || plan == nil {
			t.Errorf("%s: %v", x.name, problems)
		}
		if !strings.HasPrefix(string(x.src), "# ") {
			t.Errorf("%s: does not begin with a comment that says what it shows", x.name)
		}
		if !strings.Contains(x.command, "examples/workflows/"+x.name) {
			t.Errorf("%s: its comment has no line `#     herd-runner run … examples/workflows/%s`", x.name, x.name)
		}
	}
}

// TestExamplesOnTheHost runs the command in the comment of every example that
// needs no box, word for word, with a scripted model in place of the real one.
func TestExamplesOnTheHost(t *testing.T) {
	want := map[string][]string{
		"budgets.yml":    {"A toy of one file.", "$0.988 and 16 requests are left"},
		"hello-host.yml": {"Hello World, this is job greet", "Goodbye"},
		"matrix.yml": {"leg 0 of 3: { \"size\": \"small\", \"color\": \"red\", \"note\": \"the favourite\" }",
			"leg 2 of 3:", "working on alpha", "working on beta", "working on gamma"},
		"outputs.yml":   {"apples", "outcome failure, conclusion success", "picking up the pieces", "try: success, experiment: success"},
		"sdk-agent.yml": {"read README.md", "A toy of one file."},
		"uses.yml":      {"Hello World (from greet)", "the action said Hello World", "Ada is here!", "the leg that ended last said "},
	}
	model := newModel(t, `
scenarios:
  - name: explain
    prompt: say in two sentences what it is
    turns:
      - calls: [{name: read, input: {path: README.md}}]
        usage: {input: 800, output: 40}
      - text: A toy of one file.
        usage: {input: 900, output: 20}
`)
	for _, x := range readExamples(t) {
		if !strings.Contains(x.command, "--allow host") {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			if len(want[x.name]) == 0 {
				t.Fatalf("say here what %s prints", x.name)
			}
			project := t.TempDir()
			write(t, filepath.Join(project, "README.md"), "# Toy\n")
			out := runExample(t, x, project, t.TempDir(), model.url)
			for _, line := range want[x.name] {
				if !strings.Contains(out, line) {
					t.Errorf("the output lacks %q:\n%s", line, out)
				}
			}
			if strings.Contains(out, "not reached") || strings.Contains(out, "a step failed") {
				t.Errorf("a step ran whose condition does not hold:\n%s", out)
			}
		})
	}
}

// TestExampleReview lets the findings of one agent become the legs of another,
// in boxes and with the real CLI; only the model is scripted.
func TestExampleReview(t *testing.T) {
	e := needEngine(t)
	model := newModel(t, `
scenarios:
  - name: review
    prompt: with an eye on error handling
    turns:
      - calls: [{name: read, input: {path: a.txt}}]
        usage: {input: 800, output: 40}
      - calls:
          - name: structured_output
            input: {findings: [{file: a.txt, problem: It says teh.}, {file: b.txt, problem: It says adn.}]}
        usage: {input: 900, output: 60}
      - text: Two findings.
        usage: {input: 950, output: 5}
  - name: fix a
    prompt: 'In a\.txt: It says teh'
    turns:
      - calls: [{name: Read, input: {file_path: /workspace/a.txt}}]
        usage: {input: 900, output: 30}
      - calls: [{name: Edit, input: {file_path: /workspace/a.txt, old_string: teh, new_string: the}}]
        usage: {input: 900, output: 30}
      - text: Fixed.
        usage: {input: 900, output: 10}
  - name: fix b
    prompt: 'In b\.txt: It says adn'
    turns:
      - calls: [{name: Read, input: {file_path: /workspace/b.txt}}]
        usage: {input: 900, output: 30}
      - calls: [{name: Edit, input: {file_path: /workspace/b.txt, old_string: adn, new_string: and}}]
        usage: {input: 900, output: 30}
      - text: Fixed.
        usage: {input: 900, output: 10}
`)
	project := newRepository(t, map[string]string{"a.txt": "teh end\n", "b.txt": "you adn me\n"})
	for _, x := range readExamples(t) {
		if x.name != "review.yml" {
			continue
		}
		state := t.TempDir()
		t.Cleanup(func() { e.removeBoxes(t, filepath.Join(state, "state")) })
		out := runExample(t, x, project, state, model.url)
		for name, want := range map[string]string{"a.txt": "the end\n", "b.txt": "you and me\n"} {
			if got := read(t, filepath.Join(project, name)); got != want {
				t.Errorf("%s is %q, want %q:\n%s", name, got, want, out)
			}
		}
		if !strings.Contains(out, "2 files changed") {
			t.Errorf("the last step does not see both changes:\n%s", out)
		}
		return
	}
	t.Fatal("there is no examples/workflows/review.yml")
}

// runExample runs the example's own command in project, which gets a copy of
// it; home is where the runner keeps its state.
func runExample(t *testing.T, x example, project, home, model string) string {
	t.Helper()
	if err := os.CopyFS(filepath.Join(project, "examples"), os.DirFS("../examples")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(x.command, "…", "test-key"))
	cmd.Dir = project
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(built(t).herd)+":"+os.Getenv("PATH"), "NO_COLOR=1", "GITHUB_ACTIONS=",
		"ANTHROPIC_BASE_URL="+model, "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_STATE_HOME="+filepath.Join(home, "state"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", x.command, err, out)
	}
	return string(out)
}
