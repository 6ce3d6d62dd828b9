package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// action is action.yml as far as a runner of composite actions reads it.
type action struct {
	Inputs map[string]struct {
		Required bool    `yaml:"required"`
		Default  *string `yaml:"default"`
	} `yaml:"inputs"`
	Outputs map[string]struct {
		Value string `yaml:"value"`
	} `yaml:"outputs"`
	Runs struct {
		Using string `yaml:"using"`
		Steps []struct {
			ID    string            `yaml:"id"`
			Shell string            `yaml:"shell"`
			Env   map[string]string `yaml:"env"`
			Run   string            `yaml:"run"`
		} `yaml:"steps"`
	} `yaml:"runs"`
}

// actionRun is how a run of the action ended.
type actionRun struct {
	code    int
	outputs map[string]string
	summary string
	log     string
	temp    string // RUNNER_TEMP
}

func readAction(t *testing.T, root string) action {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, "action.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(src, &a); err != nil {
		t.Fatal(err)
	}
	if a.Runs.Using != "composite" || len(a.Runs.Steps) == 0 {
		t.Fatalf("action.yml: using %q with %d steps, want a composite action", a.Runs.Using, len(a.Runs.Steps))
	}
	return a
}

var actionExpression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)

// runAction runs the composite action's steps as GitHub's runner does: inputs
// with their defaults, env by expression, GITHUB_* files per step, `shell: bash`
// as `bash --noprofile --norc -e -o pipefail FILE`.
func runAction(t *testing.T, workspace string, with map[string]string) actionRun {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	a := readAction(t, root)
	values := map[string]string{}
	for name, in := range a.Inputs {
		given, ok := with[name]
		switch {
		case ok:
			values["inputs."+name] = given
		case in.Default != nil:
			values["inputs."+name] = *in.Default
		case in.Required:
			t.Fatalf("input %q is required", name)
		}
	}
	for name := range with {
		if _, ok := a.Inputs[name]; !ok {
			t.Fatalf("action.yml has no input %q", name)
		}
	}
	expand := func(text string) string {
		return actionExpression.ReplaceAllStringFunc(text, func(m string) string {
			name := actionExpression.FindStringSubmatch(m)[1]
			if v, ok := values[name]; ok {
				return v
			}
			if strings.HasPrefix(name, "steps.") {
				return "" // an output that was not set
			}
			t.Fatalf("action.yml uses %s, which this test does not know", m)
			return ""
		})
	}

	r := actionRun{outputs: map[string]string{}, temp: t.TempDir()}
	var log bytes.Buffer
	for i, step := range a.Runs.Steps {
		if strings.Contains(step.Run, "${{") {
			t.Fatalf("step %q pastes an expression into its shell: %s", step.ID, step.Run)
		}
		if step.Shell != "bash" {
			t.Fatalf("step %q: shell is %q, want bash", step.ID, step.Shell)
		}
		dir := t.TempDir()
		files := map[string]string{}
		for _, f := range []string{"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
			files[f] = filepath.Join(dir, f)
			writeActionFile(t, files[f], "")
		}
		script := filepath.Join(dir, "script.sh")
		writeActionFile(t, script, step.Run)

		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		cmd := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", script)
		cmd.Dir = workspace
		cmd.Env = append(os.Environ(), "GITHUB_ACTIONS=true", "CI=true", "GITHUB_ACTION_PATH="+root,
			"GITHUB_WORKSPACE="+workspace, "RUNNER_TEMP="+r.temp)
		for name, file := range files {
			cmd.Env = append(cmd.Env, name+"="+file)
		}
		for name, value := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+expand(value))
		}
		cmd.Stdout, cmd.Stderr = &log, &log
		err := cmd.Run()
		cancel()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatalf("step %d: %v", i, err)
		}
		for _, line := range strings.Split(readActionFile(t, files["GITHUB_OUTPUT"]), "\n") {
			if name, value, ok := strings.Cut(line, "="); ok {
				values[fmt.Sprintf("steps.%s.outputs.%s", step.ID, name)] = value
			}
		}
		r.summary += readActionFile(t, files["GITHUB_STEP_SUMMARY"])
		if r.code = cmd.ProcessState.ExitCode(); r.code != 0 {
			break
		}
	}
	for name, out := range a.Outputs {
		r.outputs[name] = expand(out.Value)
	}
	r.log = log.String()
	return r
}

func writeActionFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readActionFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

const actionWorkflow = `
name: greet
on:
  workflow_dispatch:
    inputs:
      who: {type: string, required: true}
defaults: {docker: false}
jobs:
  hello:
    steps:
      - name: Greet
        env: {WHO: "${{ inputs.who }}", TOKEN: "${{ secrets.TOKEN }}"}
        run: |
          echo "hello $WHO"
          echo "the token is $TOKEN, ${#TOKEN} long" | tee -a "$GITHUB_STEP_SUMMARY"
          env > env.txt
`

func TestActionRunsAWorkflow(t *testing.T) {
	workspace := t.TempDir()
	writeActionFile(t, filepath.Join(workspace, "project/flows/greet.yml"), actionWorkflow)
	const secret = "correct-horse-battery"
	// No binary is given: the action builds one.
	r := runAction(t, workspace, map[string]string{
		"workflow":          "flows/greet.yml",
		"working-directory": "project",
		"inputs":            "who=world $(touch pwned) `touch pwned` 'x'",
		"secrets":           "TOKEN=" + secret,
		"allow":             "host",
		"args":              "--max-parallel\n2",
		"agent-image":       "false",
	})
	if r.code != 0 {
		t.Fatalf("exit %d:\n%s", r.code, r.log)
	}
	if r.outputs["conclusion"] != "success" || r.outputs["cost-usd"] != "0" {
		t.Errorf("outputs %q, want success at no cost", r.outputs)
	}
	project := filepath.Join(workspace, "project")
	if _, err := os.Stat(filepath.Join(project, ".herd/runs", r.outputs["run-id"], "journal.jsonl")); err != nil || r.outputs["run-id"] == "" {
		t.Errorf("run-id %q has no journal: %v", r.outputs["run-id"], err)
	}
	if want := "hello world $(touch pwned) `touch pwned` 'x'"; !strings.Contains(r.log, want) {
		t.Errorf("the log lacks %q:\n%s", want, r.log)
	}
	if left, _ := filepath.Glob(filepath.Join(workspace, "*/pwned")); left != nil {
		t.Errorf("an input was run as code: %v", left)
	}
	if strings.Contains(r.log+r.summary, secret) || !strings.Contains(r.log, "21 long") {
		t.Errorf("the secret is shown, or did not arrive:\n%s\n%s", r.log, r.summary)
	}
	if !strings.Contains(r.summary, "greet") || !strings.Contains(r.summary, "Greet") {
		t.Errorf("the step summary does not tell of the run:\n%s", r.summary)
	}
	if env := readActionFile(t, filepath.Join(project, "env.txt")); strings.Contains(env, "HERD_SECRETS") {
		t.Errorf("a step sees what the action was given:\n%s", env)
	}
	if left, _ := filepath.Glob(filepath.Join(r.temp, "herd-runner-run.*")); left != nil {
		t.Errorf("files with secrets are left: %v", left)
	}
}

func TestActionHandsOnFailure(t *testing.T) {
	binary := buildForAction(t)
	for _, test := range []struct {
		name, workflow string
		with           map[string]string
		code           int
		conclusion     string
		log            string
	}{
		{
			name:     "a step fails",
			workflow: "on: push\ndefaults: {docker: false}\njobs: {a: {steps: [{run: 'exit 7'}]}}\n",
			with:     map[string]string{"allow": "host"}, code: 1, conclusion: "failure", log: "7",
		},
		{
			name:     "a problem in the file",
			workflow: "on: push\njobs: {a: {steps: [{rum: 'exit 7'}]}}\n",
			with:     map[string]string{"allow": "host"}, code: 2, conclusion: "failure", log: "rum",
		},
		{
			name:     "the policy refuses",
			workflow: "on: push\ndefaults: {docker: false}\njobs: {a: {steps: [{run: 'true'}]}}\n",
			code:     2, conclusion: "failure", log: "--allow host",
		},
		{
			name: "no such binary", with: map[string]string{"binary": "nowhere"},
			code: 2, log: "which is no executable file",
		},
		{
			name: "a word that is neither true nor false", with: map[string]string{"agent-image": "maybe"},
			code: 2, log: "expected 'true' or 'false'",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			workspace := t.TempDir()
			writeActionFile(t, filepath.Join(workspace, "flow.yml"), test.workflow)
			with := map[string]string{"workflow": "flow.yml", "binary": binary, "agent-image": "false"}
			for name, value := range test.with {
				with[name] = value
			}
			r := runAction(t, workspace, with)
			if r.code != test.code || r.outputs["conclusion"] != test.conclusion || !strings.Contains(r.log, test.log) {
				t.Errorf("exit %d, conclusion %q, want %d, %q and %q in the log:\n%s",
					r.code, r.outputs["conclusion"], test.code, test.conclusion, test.log, r.log)
			}
		})
	}
}

// buildForAction builds the binary that the action is given.
func buildForAction(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "herd-runner")
	// As `make build` and the action build it, so that the build cache is shared.
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, "../cmd/herd-runner")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}
