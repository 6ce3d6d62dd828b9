package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// Bounds; a machine that is busy with other tests is slow.
const (
	runTime   = 6 * time.Minute
	eventTime = time.Minute
)

// machine is a user's account: where the runner keeps its state, and what the
// environment says. Tests do not see each other's.
type machine struct {
	engine engine
	state  string // XDG_STATE_HOME
	env    []string
	as     []string // prefix of the command line, to be somebody else
}

func newMachine(t *testing.T, env ...string) *machine {
	t.Helper()
	e := needEngine(t)
	home := t.TempDir()
	m := &machine{engine: e, state: filepath.Join(home, "state")}
	m.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "NO_COLOR=1",
		"XDG_STATE_HOME=" + m.state, "XDG_CONFIG_HOME=" + filepath.Join(home, "config"),
	}, env...)
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY"} {
		if v := os.Getenv(name); v != "" {
			m.env = append([]string{name + "=" + v}, m.env...)
		}
	}
	t.Cleanup(func() { e.removeBoxes(t, m.state) })
	return m
}

// call runs one command line of herd-runner to its end.
func (m *machine) call(t *testing.T, args ...string) result {
	t.Helper()
	return m.start(t, args...).wait()
}

// run is `run --json` of a workflow that is written into the project first.
func (m *machine) run(t *testing.T, dir, workflow string, args ...string) result {
	t.Helper()
	return m.startRun(t, dir, workflow, args...).wait()
}

func (m *machine) startRun(t *testing.T, dir, workflow string, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "flow.yml")
	write(t, file, workflow)
	return m.start(t, append([]string{"run", "--json", "-C", dir, file}, args...)...)
}

// process is a herd-runner at work.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	args []string
	done chan struct{}

	mu      sync.Mutex
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	events  []event.Event
	changed chan struct{} // closed and renewed with every event
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
	events         []event.Event
}

func (m *machine) start(t *testing.T, args ...string) *process {
	t.Helper()
	argv := append(append([]string{}, m.as...), append([]string{built(t).herd}, args...)...)
	p := &process{t: t, args: args, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}), changed: make(chan struct{})}
	p.cmd.Env = m.env
	p.cmd.Dir = t.TempDir()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C of ours is not for the tests
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = &lockedWriter{&p.mu, &p.stderr}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.read(out)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(p.end)
	return p
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (p *process) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		p.mu.Lock()
		p.stdout.Write(line)
		var e event.Event
		if json.Unmarshal(line, &e) == nil && e.Type != "" {
			p.events = append(p.events, e)
			close(p.changed)
			p.changed = make(chan struct{})
		}
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// end is the clean-up of a test that left early.
func (p *process) end() {
	select {
	case <-p.done:
		return
	default:
	}
	for range 2 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
			return
		case <-time.After(10 * time.Second):
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v: %v\n%s", s, err, p.log())
	}
}

// await gives the first event, past or to come, that match takes.
func (p *process) await(what string, match func(event.Event) bool) event.Event {
	p.t.Helper()
	limit := time.After(eventTime)
	for n := 0; ; {
		p.mu.Lock()
		events, changed := p.events, p.changed
		p.mu.Unlock()
		for ; n < len(events); n++ {
			if match(events[n]) {
				return events[n]
			}
		}
		select {
		case <-changed:
		case <-p.done:
			p.mu.Lock()
			last := len(p.events) == n
			p.mu.Unlock()
			if last {
				p.t.Fatalf("herd-runner ended before %s:\n%s", what, p.log())
			}
		case <-limit:
			p.t.Fatalf("no %s within %v:\n%s", what, eventTime, p.log())
		}
	}
}

// awaitOutput waits for a text that a step prints.
func (p *process) awaitOutput(text string) {
	p.t.Helper()
	var seen strings.Builder
	p.await("output "+text, func(e event.Event) bool {
		if e.Type == event.Output {
			seen.WriteString(e.Text)
		}
		return strings.Contains(seen.String(), text)
	})
}

// awaitText waits for a text on stdout, whatever the format.
func (p *process) awaitText(text string) {
	p.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(runTime)
	for seen := 0; ; {
		p.mu.Lock()
		all := p.stdout.Bytes()
		found := bytes.Contains(all[max(0, seen-len(text)):], []byte(text))
		seen = len(all)
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-tick.C:
		case <-p.done:
			p.t.Fatalf("herd-runner ended without saying %q:\n%s", text, p.log())
		case <-limit:
			p.t.Fatalf("no %q within %v:\n%s", text, runTime, p.log())
		}
	}
}

// peakMemory is the most that the running process had resident, in bytes. (The
// rusage of an ended one would count its parent's memory before the exec.)
func (p *process) peakMemory() int64 {
	p.t.Helper()
	for line := range strings.Lines(read(p.t, fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	p.t.Fatal("/proc says nothing of the process's memory")
	return 0
}

// awaitBox gives the id of the container that a step runs in.
func (p *process) awaitBox(job, step string) string {
	p.t.Helper()
	e := p.await("box of "+job+"/"+step, func(e event.Event) bool {
		return e.Type == event.BoxStarted && e.Job == job && e.Step == step
	})
	return e.Box.ID
}

func (p *process) wait() result {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(runTime):
		p.t.Fatalf("herd-runner %q did not end within %v:\n%s", p.args, runTime, p.log())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return result{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String(), p.events}
}

func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return tail(p.stdout.String()) + tail(p.stderr.String())
}

func tail(text string) string {
	const most = 20_000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// runID is the id of the run that the events tell of.
func (r result) runID(t *testing.T) string {
	t.Helper()
	for _, e := range r.events {
		if e.Type == event.RunStarted {
			return e.Run.ID
		}
	}
	t.Fatalf("no run was started:\n%s%s", tail(r.stdout), r.stderr)
	return ""
}

// step is how a step ended.
func (r result) step(t *testing.T, job, step string) event.Outcome {
	t.Helper()
	for _, e := range r.events {
		if e.Type == event.StepFinished && e.Job == job && e.Step == step {
			return *e.Outcome
		}
	}
	t.Fatalf("step %s/%s did not end:\n%s%s", job, step, tail(r.stdout), r.stderr)
	return event.Outcome{}
}

// output is what a step wrote to both streams.
func (r result) output(job, step string) string {
	var b strings.Builder
	for _, e := range r.events {
		if e.Type == event.Output && e.Job == job && e.Step == step {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// toolResults are the results that an agent step's tools gave.
func (r result) toolResults(job, step string) string {
	var b strings.Builder
	for _, e := range r.events {
		if e.Type == event.Agent && e.Job == job && e.Step == step && e.Message.Kind == event.MessageToolResult {
			b.WriteString(e.Message.Text + "\n")
		}
	}
	return b.String()
}

func (r result) wantCode(t *testing.T, want int) result {
	t.Helper()
	if r.code != want {
		t.Fatalf("exit %d, want %d:\n%s%s", r.code, want, tail(r.stdout), r.stderr)
	}
	return r
}

// wantNothingLeft looks for what a run must not leave on the machine.
func (m *machine) wantNothingLeft(t *testing.T, dir string) {
	t.Helper()
	for _, c := range m.engine.boxes(t, m.state) {
		t.Errorf("container %s is left (%s), labels %v", c.ID[:12], c.Status, c.Labels)
	}
	leases, err := filepath.Glob(filepath.Join(m.state, "herd-runner", "leases", "*"))
	if err != nil || len(leases) > 0 {
		t.Errorf("leases are left: %v (%v)", leases, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("a mount of %s is left:\n%s", dir, mounts)
	}
	for _, pattern := range []string{"boxes", "temp", "git", "workspace"} {
		left, err := filepath.Glob(filepath.Join(dir, ".herd/runs/*", pattern))
		if err != nil || len(left) > 0 {
			t.Errorf("directories of boxes are left: %v (%v)", left, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".herd/workspaces")); err != nil || len(left) > 0 {
		t.Errorf("workspaces are left: %v (%v)", left, err)
	}
	if pids := processesNaming(t, dir); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
}

// processesNaming are the processes of this machine with text in their command
// line, boxes' included.
func processesNaming(t *testing.T, text string) map[int]string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(text)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}
