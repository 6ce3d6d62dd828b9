package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// oneScreen is how many lines an error may have.
const oneScreen = 24

// TestRefusedBeforeAnythingStarts: what can be known beforehand is said
// beforehand, on one screen and with a next action, and nothing is left.
// THREATS 10.
func TestRefusedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	const agent = "on: workflow_dispatch\njobs: {a: {steps: [{id: ask, prompt: Say hello, runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}}]}}\n"
	const script = "on: workflow_dispatch\njobs: {a: {steps: [{run: touch ran.txt}]}}\n"
	for _, test := range []struct {
		name, workflow string
		args, env      []string
		code           int
		want           []string
	}{
		{"an image of ours that was not built",
			"on: workflow_dispatch\njobs: {a: {steps: [{run: touch ran.txt, docker: herd-runner/not-there}]}}\n",
			nil, nil, 3, []string{`"herd-runner/not-there"`, "herd-runner image build"}},
		{"an image that may not be pulled",
			"on: workflow_dispatch\njobs: {a: {steps: [{run: touch ran.txt}, {run: 'true', docker: {image: 'nobody/has:this', pull: never}}]}}\n",
			nil, nil, 3, []string{`"nobody/has:this"`, "image pull nobody/has:this"}},
		{"no engine at a socket", script, nil, []string{"DOCKER_HOST=unix:///nowhere/docker.sock"}, 3, []string{"/nowhere/docker.sock", "hint:", "DOCKER_HOST"}},
		{"no engine at an address", script, nil, []string{"DOCKER_HOST=tcp://127.0.0.1:1"}, 3, []string{"127.0.0.1:1", "hint:"}},
		{"an address that is none", script, nil, []string{"DOCKER_HOST=nonsense"}, 3, []string{"nonsense", "hint:"}},
		{"no credential", agent, nil, nil, 2, []string{"ANTHROPIC_API_KEY", "--replay"}},
		{"a credential that breaks out of its header", agent, nil, []string{"ANTHROPIC_API_KEY=sk-ant\nX-Evil: 1"}, 2, []string{"ANTHROPIC_API_KEY", "set it again"}},
		{"no cassette", agent, []string{"--replay", "nowhere"}, nil, 2, []string{"nowhere", "--record"}},
		{"a cassette that is a file", agent, []string{"--replay", "a.txt"}, nil, 2, []string{"a.txt", "--record"}},
		{"a cassette with half a recording", agent, []string{"--replay", "broken"}, nil, 2, []string{"main-001.json", "--record"}},
		{"a cassette of another workflow", agent, []string{"--replay", "other"}, nil, 2, []string{`"ask"`, "--record"}},
		{"a prompt file that is not there",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n      - prompt-file: missing.md\n        runtime: sdk\n",
			nil, []string{"ANTHROPIC_API_KEY=k"}, 2, []string{"missing.md", "flow.yml:6:"}},
		{"a secret nobody gave",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        env: {T: \"${{ secrets.TOKEN }}\"}\n",
			nil, nil, 2, []string{"TOKEN", "flow.yml:6:", "--secret"}},
		{"a volume outside the project",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        docker: {volumes: [\"/etc:/host-etc\"]}\n",
			nil, nil, 2, []string{"flow.yml:6:", "--allow volume:/etc:rw"}},
		{"root and the machine's network",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        docker: {user: \"0:0\", network: host}\n",
			nil, nil, 2, []string{"flow.yml:6:", "--allow root"}},
		{"a link to a place outside",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        docker: {volumes: [\"./link:/data\"]}\n",
			nil, nil, 2, []string{"flow.yml:6:", "--allow volume:/etc:rw"}},
		{"a way up and out",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        docker: {volumes: [\"../../../../../../../../etc:/data:ro\"]}\n",
			nil, nil, 2, []string{"flow.yml:6:", "--allow volume:/etc:ro"}},
		{"a privileged box",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        docker: {privileged: true}\n",
			nil, nil, 2, []string{"flow.yml:6:", "privileged"}},
		{"a host configuration",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        docker: {host-config: {CapAdd: [SYS_ADMIN]}}\n",
			nil, nil, 2, []string{"flow.yml:6:", "--allow host-config"}},
		{"the bare host",
			"on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - run: touch ran.txt\n        docker: false\n",
			nil, nil, 2, []string{"flow.yml:6:", "--allow host"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, test.env...)
			dir := newProject(t, map[string]string{
				"a.txt":                                "a\n",
				"broken/a/ask/attempt-1/lane.json":     `{"format": 1, "job": "a", "step": "ask", "attempt": 1, "exchanges": 1}`,
				"broken/a/ask/attempt-1/main-001.json": `{"agent": "main", "request": {`,
				"other/b/tell/attempt-1/lane.json":     `{"format": 1, "job": "b", "step": "tell", "attempt": 1, "exchanges": 0}`,
			})
			if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			r := m.run(t, dir, test.workflow, test.args...).wantCode(t, test.code)
			if r.stdout != "" {
				t.Errorf("something was started:\n%s", r.stdout)
			}
			for _, want := range test.want {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("no %q in:\n%s", want, r.stderr)
				}
			}
			if n := strings.Count(r.stderr, "\n"); n > oneScreen || n == 0 {
				t.Errorf("an error of %d lines:\n%s", n, r.stderr)
			}
			for _, name := range []string{".herd", "ran.txt"} {
				if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
					t.Errorf("%s was left (%v)", name, err)
				}
			}
			m.wantNothingLeft(t, dir)
		})
	}
}

const twoAgents = `
on: workflow_dispatch
defaults:
  workspace: ro
  docker: {network: none}
  runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
jobs:
  left: {steps: [{id: ask, prompt: What is left of the road}]}
  right: {steps: [{id: ask, prompt: What is right of the road}]}
  claude:
    needs: [left, right]
    steps:
      - id: sum
        prompt: "Sum up: ${{ join(needs.*.result) }}"
        runtime: {type: cli, engine: claude, model: sonnet}
`

const twoAgentsModel = `
scenarios:
  - name: left
    prompt: What is left
    turns:
      - calls: [{name: bash, input: {command: cat left.txt}}]
        usage: {input: 100, output: 10}
      - text: A field.
        usage: {input: 200, output: 10}
  - name: right
    prompt: What is right
    turns:
      - calls: [{name: bash, input: {command: cat right.txt}}]
        usage: {input: 100, output: 10}
      - text: A wood.
        usage: {input: 200, output: 10}
  - name: sum
    prompt: Sum up
    turns:
      - text: A field and a wood.
        usage: {input: 300, output: 10}
`

// TestReplay records a workflow and replays it with no key, no network and no
// model: the same, also with parallel steps the other way round; but not with
// another prompt.
func TestReplay(t *testing.T) {
	t.Parallel()
	model := newModel(t, twoAgentsModel)
	files := map[string]string{"left.txt": "grass\n", "right.txt": "trees\n"}
	cassettes := filepath.Join(t.TempDir(), "cassettes")
	recorder := newMachine(t, model.asked("sk-ant-test")...)
	// One agent at a time, in the order of the file.
	recorder.run(t, newRepository(t, files), twoAgents, "--record", cassettes, "--max-agents", "1").wantCode(t, 0)
	asked := len(model.requests())

	m := newMachine(t)
	replay := func(t *testing.T, workflow string) result {
		t.Helper()
		dir := newRepository(t, files)
		r := m.run(t, dir, workflow, "--replay", cassettes)
		m.wantNothingLeft(t, dir)
		return r
	}
	swapped := strings.Replace(strings.Replace(strings.Replace(twoAgents,
		"  left: {steps: [{id: ask, prompt: What is left of the road}]}\n", "", 1),
		"  claude:\n", "  left: {steps: [{id: ask, prompt: What is left of the road}]}\n  claude:\n", 1),
		"[left, right]", "[right, left]", 1)
	for name, workflow := range map[string]string{"the same": twoAgents, "swapped": swapped} {
		t.Run(name, func(t *testing.T) {
			r := replay(t, workflow).wantCode(t, 0)
			for job, want := range map[string]string{"left": "A field.", "right": "A wood."} {
				if got := r.step(t, job, "ask").Outputs["result"]; got != want {
					t.Errorf("%s: %q, want %q", job, got, want)
				}
			}
			if got := r.step(t, "claude", "sum"); got.Outputs["result"] != "A field and a wood." || got.Usage == nil || got.Usage.InputTokens != 300 {
				t.Errorf("claude: %+v", got)
			}
		})
	}
	for _, changed := range []struct{ name, from, to, job, step string }{
		{"sdk", "What is left of the road", "What is left of the ROAD now", "left", "ask"},
		{"claude", "Sum up:", "Sum it all up:", "claude", "sum"},
	} {
		t.Run("a changed prompt, "+changed.name, func(t *testing.T) {
			r := replay(t, strings.Replace(twoAgents, changed.from, changed.to, 1))
			out := r.step(t, changed.job, changed.step)
			if out.Outcome != "failure" || out.Cause != event.CauseInfrastructure || r.code != 3 {
				t.Errorf("exit %d, %+v, want failure by infrastructure", r.code, out)
			}
			for _, want := range []string{`job "` + changed.job + `", step "` + changed.step + `"`, "--record", "-  " + changed.from, "+  " + changed.to} {
				if !strings.Contains(out.Message, want) {
					t.Errorf("no %q in the message:\n%s", want, out.Message)
				}
			}
			if !strings.Contains(out.Hint, "--record") {
				t.Errorf("hint: %q", out.Hint)
			}
			if changed.job == "left" {
				if got := r.step(t, "right", "ask"); got.Outcome != "success" {
					t.Errorf("the step beside it: %+v", got)
				}
			}
		})
	}
	if n := len(model.requests()); n != asked {
		t.Errorf("replays asked the model %d times", n-asked)
	}
}

// TestWorkspaceThatCannotBeWritten is refused in words; only root can set this
// up, and is then somebody else.
func TestWorkspaceThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if os.Getuid() != 0 {
		t.Log("the tests do not run as root: there is nobody else whose project it could be")
		return
	}
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Fatalf("%v; install util-linux", err)
	}
	m.become(t)
	dir := newProject(t, map[string]string{"a.txt": "a\n"})
	chownTree(t, dir, 0)
	openTo(t, dir, m.state)
	for _, docker := range []string{"{}", "false"} {
		file := writeFlow(t, dir, "on: workflow_dispatch\njobs: {a: {steps: [{run: touch ran.txt, docker: "+docker+"}]}}\n")
		for _, flag := range []string{"--json", "--dry-run"} {
			r := m.call(t, "run", "-C", dir, flag, "--allow", "host", file)
			r.wantCode(t, 3)
			if !strings.Contains(r.stderr, dir) || strings.Count(r.stderr, "\n") > oneScreen {
				t.Errorf("the error with %s:\n%s", flag, r.stderr)
			}
		}
	}
	m.wantNothingLeft(t, dir)
}

func writeFlow(t *testing.T, dir, workflow string) string {
	t.Helper()
	file := filepath.Join(dir, "flow.yml")
	write(t, file, workflow)
	return file
}
