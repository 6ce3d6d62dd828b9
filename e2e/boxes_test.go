package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// listedBox is a line of `box ls --json`.
type listedBox struct{ ID, State, Run, Job, Step, Session string }

func (m *machine) boxList(t *testing.T) []listedBox {
	t.Helper()
	var list []listedBox
	for line := range strings.Lines(m.call(t, "box", "ls", "--json").wantCode(t, 0).stdout) {
		var b listedBox
		if err := json.Unmarshal([]byte(line), &b); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, b)
	}
	return list
}

// DOCKER-09: kept boxes can be listed, entered and removed, and nothing else is.
func TestKeptBoxes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newRepository(t, map[string]string{"a.txt": "a\n"})
	const workflow = `
on: workflow_dispatch
defaults: {docker: {network: none, memory: 128m}}
jobs:
  web:
    steps:
      - id: keep
        run: echo "$GITHUB_RUN_ID" >"$HOME/mark"; (setsid sleep 4242 &)
        docker: {ephemeral: false, max-containers: 2}
  web-ui:
    steps:
      - id: keep
        run: echo other
        docker: {ephemeral: false, max-containers: 1}
      - {id: gone, run: echo gone}
`
	file := filepath.Join(t.TempDir(), "flow.yml")
	write(t, file, workflow)
	var runs []string
	for range 3 {
		runs = append(runs, m.call(t, "run", "--json", "-C", dir, file).wantCode(t, 0).runID(t))
	}
	boxes := m.boxList(t)
	var web []listedBox
	for _, b := range boxes {
		if b.State != "kept" {
			t.Errorf("%+v", b)
		}
		if b.Job == "web" {
			web = append(web, b)
		}
	}
	if len(boxes) != 3 || len(web) != 2 || web[0].Run != runs[2] || web[1].Run != runs[1] {
		t.Fatalf("kept: %+v", boxes)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".herd/docker-sessions/*/web*/keep/*")); len(left) != 3 {
		t.Errorf("sessions: %v", left)
	}

	// Entered, it has what the step left, and nothing that ran.
	r := m.call(t, "box", "exec", web[1].ID[:12], "--", "sh", "-c", `cat "$HOME/mark"; pgrep -c sleep; id -u; exit 7`).wantCode(t, 7)
	if got := strings.Fields(r.stdout); len(got) != 3 || got[0] != runs[1] || got[1] != "0" || got[2] == "0" {
		t.Errorf("got %q", r.stdout)
	}
	if r := m.call(t, "box", "exec", web[1].ID[:12], "--", "no-such-program"); r.code != 126 && r.code != 127 {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	for _, c := range m.engine.boxes(t, m.state) {
		if c.State != "exited" {
			t.Errorf("%s is %s", c.ID, c.State)
		}
	}

	for _, wrong := range [][]string{{"box", "rm"}, {"box", "rm", "nope"}, {"box", "exec", "nope", "ls"}, {"box", "exec", web[0].ID}, {"clean", "--runs", "old"}} {
		if r := m.call(t, wrong...); r.code != 2 || r.stderr == "" {
			t.Errorf("%v: exit %d, %s", wrong, r.code, r.stderr)
		}
	}
	m.call(t, "box", "rm", web[0].ID[:12]).wantCode(t, 0)
	if _, err := os.Stat(web[0].Session); !os.IsNotExist(err) {
		t.Errorf("its session is there: %v", err)
	}
	if r := m.call(t, "clean", "-C", dir, "--boxes", "--runs", "0s", "--dry-run").wantCode(t, 0); !strings.Contains(r.stdout, "5 things would be removed") {
		t.Errorf("got %s", r.stdout)
	}
	if n := len(m.boxList(t)); n != 2 {
		t.Errorf("%d boxes after a dry run", n)
	}
	if r := m.call(t, "clean", "-C", dir, "--boxes", "--runs", "0s").wantCode(t, 0); !strings.Contains(r.stdout, "5 things removed") {
		t.Errorf("got %s", r.stdout)
	}
	if n := len(m.boxList(t)); n != 0 {
		t.Errorf("%d boxes after clean", n)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, ".herd/docker-sessions")); len(entries) > 0 {
		t.Errorf("left: %v", entries)
	}
	m.wantNothingLeft(t, dir)
}

// With a terminal on both sides the command has one too: with its size, its keys
// one by one, and its exit code; and the person's own is as it was afterwards.
func TestBoxExecWithATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Fatalf("%v; install bsdutils (or util-linux)", err)
	}
	m := newMachine(t)
	dir := newProject(t, nil)
	m.run(t, dir, "on: workflow_dispatch\njobs: {a: {steps: [{id: s, run: 'echo kept >$HOME/mark', docker: {network: none, memory: 128m, ephemeral: false}}]}}\n").wantCode(t, 0)
	box := m.boxList(t)[0].ID[:12]
	const inside = `test -t 0 && test -t 1 && test -t 2 && echo "a terminal, $TERM"; cat "$HOME/mark"
for i in $(seq 100); do test "$(stty size)" = "33 101" && break; sleep 0.1; done; echo "size $(stty size)"
stty -icanon -echo min 1; echo ready; key=$(dd bs=1 count=1 2>/dev/null); echo "key $key"; exit 5`
	ctx, cancel := context.WithTimeout(t.Context(), eventTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "script", "-qec", "stty rows 33 cols 101; before=$(stty -g); "+built(t).herd+" box exec "+box+" -- sh -c \"$INSIDE\"; code=$?; test \"$before\" = \"$(stty -g)\" && echo as before; exit $code", "/dev/null")
	cmd.Env = append(slices.Clone(m.env), "INSIDE="+inside, "TERM=xterm-test", "SHELL=/bin/sh")
	keys, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said := &awaited{text: "ready", found: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-said.found:
	case <-ctx.Done():
		t.Fatalf("the command does not begin:\n%s", said.all())
	}
	if _, err := io.WriteString(keys, "q"); err != nil { // no line end: nobody waits for one
		t.Fatal(err)
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 5 {
		t.Errorf("%v, want exit code 5", err)
	}
	for _, want := range []string{"a terminal, xterm-test", "kept", "size 33 101", "key q", "as before"} {
		if !strings.Contains(said.all(), want) {
			t.Errorf("no %q in:\n%s", want, said.all())
		}
	}
	m.call(t, "box", "rm", "--all").wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}

// awaited closes found once text was written to it.
type awaited struct {
	text  string
	found chan struct{}

	mu  sync.Mutex
	buf strings.Builder
}

func (a *awaited) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := strings.Contains(a.buf.String(), a.text)
	a.buf.Write(p)
	if !before && strings.Contains(a.buf.String(), a.text) {
		close(a.found)
	}
	return len(p), nil
}

func (a *awaited) all() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.String()
}

// A reused box has its HOME and files from run to run, also after its runner was
// killed; two runs at once do not share it (THREATS 14).
func TestReusedBoxFromRunToRun(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newRepository(t, map[string]string{"a.txt": "a\n"})
	const workflow = `
on: {workflow_dispatch: {inputs: {then: {default: "true"}}}}
defaults: {docker: {network: none, memory: 128m, reuse: true}}
jobs:
  a:
    steps:
      - id: count
        run: echo x >>"$HOME/count"; test ! -e /tmp/mark; touch /tmp/mark; echo "n=$(wc -l <"$HOME/count")"; ${{ inputs.then }}
`
	file := filepath.Join(t.TempDir(), "flow.yml")
	write(t, file, workflow)
	count := func(want string, args ...string) result {
		t.Helper()
		r := m.call(t, append([]string{"run", "--json", "-C", dir, file}, args...)...).wantCode(t, 0)
		if got := r.output("a", "count"); got != want+"\n" {
			t.Errorf("got %q, want %q", got, want)
		}
		return r
	}
	count("n=1")
	count("n=2")
	long := m.start(t, "run", "--json", "-C", dir, file, "-i", "then=sleep 300")
	long.awaitOutput("n=3")
	if r := count("n=1"); !strings.Contains(r.stdout, "in use by another run") {
		t.Errorf("it does not say why it has a box of its own: %s", r.stdout)
	}
	if err := syscall.Kill(long.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-long.done
	count("n=4")
	if boxes := m.boxList(t); len(boxes) != 1 || boxes[0].State != "reused" {
		t.Errorf("got %+v", boxes)
	}
	m.call(t, "box", "rm", "--all").wantCode(t, 0)
}

// A run is cancelled from another terminal as with Ctrl-C, the second time too.
// THREATS 12.
func TestCancelFromElsewhere(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newRepository(t, map[string]string{"a.txt": "a\n"})
	p := m.startRun(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none, memory: 128m}}
jobs:
  a:
    steps:
      - {id: stubborn, run: "trap '' INT TERM; echo begun; while :; do sleep 0.1; done"}
      - {id: after, if: cancelled(), run: echo cleaned}
`)
	p.awaitOutput("begun")
	m.call(t, "cancel", "-C", dir).wantCode(t, 0)
	p.awaitText("cancelling")
	m.call(t, "cancel", "-C", dir, "latest").wantCode(t, 0)
	r := p.wait().wantCode(t, 130)
	if out := r.step(t, "a", "stubborn"); out.Outcome != "cancelled" || out.DurationMS > 9000 {
		t.Errorf("got %+v", out)
	}
	if r := m.call(t, "cancel", "-C", dir); r.code != 2 || !strings.Contains(r.stderr, "is over: cancelled") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	if r := m.call(t, "cancel", "-C", dir, "nope"); r.code != 2 {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	m.wantNothingLeft(t, dir)
}

// FUTURE-03: while a step is at work, the box of the next one is started; no box
// of a step that a condition may pass over; and what is not used goes.
func TestBoxesAhead(t *testing.T) {
	t.Parallel()
	model := newModel(t, "scenarios: [{name: hello, prompt: Say hello, turns: [{text: hello}]}]\n")
	for name, tc := range map[string]struct {
		then, network string
		code          int
	}{"used": {"true", "none", 0}, "with an allow-list": {"true", "{allow: [a.example]}", 0}, "not reached": {"exit 3", "none", 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, model.asked("sk-ant-test")...)
			dir := newProject(t, nil)
			p := m.startRun(t, dir, `
on: workflow_dispatch
defaults:
  docker: {network: `+tc.network+`, memory: 128m}
  runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
jobs:
  first:
    steps:
      - {id: work, run: "echo begun; while [ ! -e $HOME/go ]; do sleep 0.1; done; `+tc.then+`"}
  next:
    needs: first
    steps:
      - {id: agent, prompt: Say hello}
      - {id: maybe, if: failure(), run: echo}
      - {id: fresh, run: echo fresh}
`)
			p.awaitOutput("begun")
			work := p.awaitBox("first", "work")
			var early string
			for limit := time.Now().Add(eventTime); early == ""; time.Sleep(50 * time.Millisecond) {
				for _, b := range m.boxList(t) {
					switch b.Job + "/" + b.Step {
					case "first/work":
					case "next/agent":
						early = b.ID
					default:
						t.Errorf("there is a box of %s/%s", b.Job, b.Step)
					}
				}
				if time.Now().After(limit) {
					t.Fatalf("no box is started ahead:\n%s", p.log())
				}
			}
			m.call(t, "box", "exec", work, "sh", "-c", `touch "$HOME/go"`).wantCode(t, 0)
			r := p.wait().wantCode(t, tc.code)
			boxes := map[string]string{}
			for _, e := range r.events {
				if e.Type == event.BoxStarted {
					boxes[e.Job+"/"+e.Step] = e.Box.ID
				}
			}
			if tc.code == 0 && (boxes["next/agent"] != early || boxes["next/fresh"] == "" || boxes["next/fresh"] == early) {
				t.Errorf("boxes %v, early was %s", boxes, early)
			}
			if tc.code != 0 && len(boxes) != 1 {
				t.Errorf("boxes %v", boxes)
			}
			m.wantNothingLeft(t, dir)
		})
	}
	r := newMachine(t).call(t, "run", "--prewarm", "many", "flow.yml")
	if r.code != 2 || !strings.Contains(r.stderr, "auto, or a number") {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
}

// The example of docs/boxes.md.
func TestExampleBoxes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	project := newRepository(t, map[string]string{"a.txt": "a\n"})
	example, err := filepath.Abs("../examples/workflows/boxes.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "2"} {
		r := m.call(t, "run", "--json", "-C", project, example).wantCode(t, 0)
		if got := r.output("again", "step-1"); got != "this box has seen "+want+" runs\n" {
			t.Errorf("got %q", got)
		}
	}
	if n := len(m.boxList(t)); n != 3 {
		t.Errorf("%d boxes, want two to look into and the reused one", n)
	}
	m.call(t, "box", "rm", "--all").wantCode(t, 0)
}
