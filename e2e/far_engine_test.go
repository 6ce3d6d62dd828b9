package e2e

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"

	"github.com/herd-runner/herd-runner/internal/event"
)

// farMachine is one whose engine is reached over the network and has other files
// than it: the machine's are in a mount namespace of its own.
type farMachine struct {
	*machine
	// project is as the runner sees it, seen as the test does.
	project, seen string
}

func newFarMachine(t *testing.T, env ...string) *farMachine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a mount namespace can be made by root alone")
	}
	return newMachine(t, env...).far(t)
}

// far puts the engine of m behind a network and the files of m where it does not
// see them.
func (m *machine) far(t *testing.T) *farMachine {
	t.Helper()
	m.env = append(m.env, "DOCKER_HOST="+forwarded(t, strings.TrimPrefix(m.engine.DaemonHost(), "unix://")))
	dir := t.TempDir()
	files := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", `mount -t tmpfs none "$FAR" && echo ready && exec sleep infinity`)
	files.Env = append(os.Environ(), "FAR="+dir)
	files.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := files.StdoutPipe()
	if err == nil {
		err = files.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = files.Process.Kill()
		_ = files.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("no files of its own: %q, %v", line, err)
	}
	pid := fmt.Sprint(files.Process.Pid)
	m.as = []string{"nsenter", "-t", pid, "-m"}
	far := &farMachine{machine: m, project: filepath.Join(dir, "project"), seen: filepath.Join("/proc", pid, "root", dir, "project")}
	if err := os.Mkdir(far.seen, 0o755); err != nil {
		t.Fatal(err)
	}
	return far
}

// forwarded is the address of a port of this machine behind which the engine is.
func forwarded(t *testing.T, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				up, err := net.Dial("unix", socket)
				if err != nil {
					return
				}
				defer up.Close()
				go func() {
					_, _ = io.Copy(up, c)
					_ = up.(*net.UnixConn).CloseWrite()
				}()
				_, _ = io.Copy(c, up)
			}()
		}
	}()
	return "tcp://" + l.Addr().String()
}

// repository fills the project.
func (m *farMachine) repository(t *testing.T, files map[string]string) {
	t.Helper()
	for name, content := range files {
		write(t, filepath.Join(m.seen, name), content)
	}
	m.git(t, "init", "-q", "-b", "main")
	m.git(t, "add", "-A")
	m.git(t, "commit", "-q", "-m", "first")
}

// git runs git in the project, where it is to be found.
func (m *farMachine) git(t *testing.T, args ...string) string {
	t.Helper()
	argv := append(append([]string{}, m.as...), "git", "-C", m.project, "-c", "safe.directory=*", "-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")
	cmd := exec.CommandContext(t.Context(), argv[0], append(argv[1:], args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// wantNothingFar looks for what a run must not leave on the engine.
func (m *farMachine) wantNothingFar(t *testing.T) {
	t.Helper()
	for _, c := range m.engine.boxes(t, m.state) {
		t.Errorf("container %s is left (%s), labels %v", c.ID[:12], c.Status, c.Labels)
	}
	if left := m.volumes(t); len(left) > 0 {
		t.Errorf("volumes %q are left", left)
	}
}

func (m *farMachine) volumes(t *testing.T) []string {
	t.Helper()
	host := strings.TrimSpace(read(t, filepath.Join(m.state, "herd-runner", "host-id")))
	got, err := m.engine.VolumeList(t.Context(), volume.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "herd-runner.role=copies"), filters.Arg("label", "herd-runner.host="+host))})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, v := range got.Volumes {
		names = append(names, v.Name)
	}
	return names
}

// TestFarEngine (THREATS 15, 16): a run on an engine with other files than this
// machine is as one on any other; the project is carried there and back.
func TestFarEngine(t *testing.T) {
	t.Parallel()
	for _, owner := range []int{ordinaryUser, 0} {
		t.Run(fmt.Sprintf("project of uid %d", owner), func(t *testing.T) {
			model := newModel(t, "")
			m := newFarMachine(t, model.openAI("cmd="+b64("cat made.txt; echo agent >agent.txt; rm b.txt")+",text="+b64("Done."), "sk-test")...)
			m.repository(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n", "theirs.txt": "theirs\n", "old.txt": "old\n", "run.sh": "#!/bin/sh\necho ran\n"})
			if err := os.Chmod(filepath.Join(m.seen, "run.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("a.txt", filepath.Join(m.seen, "link")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(m.seen, "mine.txt"), "mine\n")
			chownTree(t, m.seen, owner)
			config := read(t, filepath.Join(m.seen, ".git/config"))
			p := m.startFar(t, `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  script:
    outputs: {answer: "${{ steps.make.outputs.answer }}"}
    steps:
      - id: make
        run: |
          ./run.sh; readlink link; git log --format=%s -1; git status --short; ls -A .herd; id -u; stat -c %a run.sh
          echo made >made.txt; mkdir -p d/e; echo deep >d/e/f; chmod 750 d; ln -s made.txt new-link; rm old.txt
          echo answer=42 >>"$GITHUB_OUTPUT"
      - id: hash
        env: {HASH: "${{ hashFiles('made.txt') }}"}
        run: echo $HASH
      - {id: here, docker: false, run: cat made.txt >here.txt; rm d/e/f}
      - {id: there, run: cat here.txt; ls -A d/e; echo x >>run.sh}
  agent:
    needs: script
    steps:
      - {id: edit, prompt: Edit, runtime: {type: sdk, engine: openai, model: gpt-5.2}}
  look:
    needs: [agent, script]
    workspace: ro
    steps:
      - id: ro
        run: cat agent.txt; touch x 2>&1 || true; echo ${{ needs.script.outputs.answer }}
  fix:
    needs: look
    strategy: {matrix: {name: [a, c]}}
    workspace: isolated
    steps:
      - run: cat mine.txt; echo ${{ matrix.name }} fixed >${{ matrix.name }}.txt; git add -A; git commit -qm "fix ${{ matrix.name }}"
      - run: echo loose >loose-${{ matrix.name }}.txt
  join:
    needs: fix
    workspace: {mode: isolated, merge: fix}
    steps: [{id: all, run: cat a.txt c.txt loose-a.txt loose-c.txt}]
  scratch:
    needs: look
    workspace: copy
    steps: [{run: rm -rf a.txt d}]
  evil:
    needs: look
    steps:
      - id: evil
        run: |
          mkfifo pipe; ln -s /etc/passwd up; ln -s d door; echo x >door/through; mkdir -p nested/.git/hooks; echo x >nested/.git/hooks/pre-commit
          ln -f a.txt hard; printf n >"$(printf 'new\nline')"; chmod 4755 run.sh; mkdir -- -rf; echo dash >-rf/-x
          mv .git .was 2>/dev/null || echo kept; echo evil >>/herd/git/config
          echo changed >theirs.txt; echo begun; sleep 3
`, "--allow", "host")
			p.awaitOutput("begun")
			write(t, filepath.Join(m.seen, "theirs.txt"), "the person's\n")
			r := p.wait().wantCode(t, 0)
			sum := sha256.Sum256([]byte("made\n"))
			both := sha256.Sum256(sum[:])
			for at, want := range map[string]string{
				"script/make":  "ran\na.txt\nfirst\n M run.sh\n?? link\n?? mine.txt\n1000\n755\n",
				"script/hash":  hex.EncodeToString(both[:]) + "\n",
				"script/there": "made\n",
				"look/ro":      "agent\ntouch: cannot touch 'x': Read-only file system\n42\n",
				"join/all":     "a fixed\nc fixed\nloose\nloose\n",
				"evil/evil":    "kept\nbegun\n",
			} {
				job, step, _ := strings.Cut(at, "/")
				if got := r.output(job, step); got != want {
					t.Errorf("%s said %q, want %q", at, got, want)
				}
			}
			if got := r.toolResults("agent", "edit"); !strings.Contains(got, "made") {
				t.Errorf("the agent's tool gave %q", got)
			}
			for name, want := range map[string]string{
				"made.txt": "made\n", "agent.txt": "agent\n", "here.txt": "made\n", "theirs.txt": "the person's\n", "a.txt": "one\n",
				"run.sh": "#!/bin/sh\necho ran\nx\n", "d/through": "x\n", "hard": "one\n", "-rf/-x": "dash\n", "link": "one\n", "new-link": "made\n",
			} {
				if got, err := os.ReadFile(filepath.Join(m.seen, name)); err != nil || string(got) != want {
					t.Errorf("%s is %q (%v), want %q", name, got, err, want)
				}
			}
			for _, gone := range []string{"old.txt", "b.txt", "d/e/f", "pipe", "up", "nested/.git", "x", ".was", ".git/hooks/pre-commit"} {
				if _, err := os.Lstat(filepath.Join(m.seen, gone)); err == nil {
					t.Errorf("%s is there", gone)
				}
			}
			if st, err := os.Stat(filepath.Join(m.seen, "run.sh")); err != nil || st.Mode() != 0o755 {
				t.Errorf("run.sh: %v, %v", st.Mode(), err)
			}
			if got := read(t, filepath.Join(m.seen, ".git/config")); got != config {
				t.Errorf(".git/config was changed: %s", got)
			}
			notices := r.notices()
			for _, want := range []string{"has other files than this machine", `"theirs.txt" was not brought back: it was changed in the project during the run`, `"pipe": it is neither`, `"up" was not brought back`} {
				if !strings.Contains(notices, want) {
					t.Errorf("no notice says %s:\n%s", want, notices)
				}
			}
			for _, leg := range []string{"a", "c"} {
				log := m.git(t, "log", "--format=%s", "main.."+r.branch(t, "fix ("+leg+")"))
				if !strings.Contains(log, "fix "+leg+"\n") || !strings.Contains(log, "Work of fix ("+leg+")\n") {
					t.Errorf("the branch of %s has %q\n%s", leg, log, notices)
				}
			}
			m.wantNothingFar(t)
		})
	}
}

func (m *farMachine) startFar(t *testing.T, workflow string, args ...string) *process {
	t.Helper()
	file := filepath.Join(t.TempDir(), "flow.yml")
	write(t, file, workflow)
	return m.start(t, append([]string{"run", "--json", "-C", m.project, file}, args...)...)
}

// notices are all of a run, a line each.
func (r result) notices() string {
	var b strings.Builder
	for _, e := range r.events {
		if e.Type == event.Notice && e.Note != nil {
			b.WriteString(e.Note.Message + "\n")
		}
	}
	return b.String()
}

// branch is the one that the work of a leg is on.
func (r result) branch(t *testing.T, leg string) string {
	t.Helper()
	for line := range strings.Lines(r.notices()) {
		if rest, ok := strings.CutPrefix(line, leg+": "); ok {
			if _, branch, ok := strings.Cut(rest, "on branch "); ok {
				return strings.TrimSpace(branch)
			}
		}
	}
	t.Fatalf("no branch of %s:\n%s", leg, r.notices())
	return ""
}

// TestFarEngineAfterAKill (THREATS 13): a killed runner's copies go with the next
// start, and the project is as it was.
func TestFarEngineAfterAKill(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.repository(t, map[string]string{"a.txt": "one\n"})
	chownTree(t, m.seen, ordinaryUser)
	p := m.startFar(t, "on: workflow_dispatch\njobs: {a: {steps: [{run: echo two >a.txt; echo begun; sleep 600}]}}\n")
	p.awaitOutput("begun")
	if left := m.volumes(t); len(left) != 1 {
		t.Errorf("the run has the volumes %q", left)
	}
	p.signal(syscall.SIGKILL)
	p.wait()
	if got := read(t, filepath.Join(m.seen, "a.txt")); got != "one\n" {
		t.Errorf("a.txt is %q", got)
	}
	r := m.startFar(t, "on: workflow_dispatch\njobs: {a: {steps: [{run: cat a.txt}]}}\n").wait().wantCode(t, 0)
	if got := r.output("a", "step-1"); got != "one\n" {
		t.Errorf("the next run sees %q", got)
	}
	m.wantNothingFar(t)
}

// TestFarEngineRefuses: what can not be on an engine with other files is refused
// before the run, with words.
func TestFarEngineRefuses(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	m.repository(t, map[string]string{"a.txt": "one\n"})
	chownTree(t, m.seen, ordinaryUser)
	for docker, want := range map[string]string{
		"{volumes: [\"/srv:/srv:ro\"]}": "/srv is not there",
		"{reuse: true}":                 "a box that is kept",
		"{ephemeral: false}":            "a box that is kept",
	} {
		r := m.startFar(t, "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true', docker: "+docker+"}]}}\n", "--allow", "volume:/srv:ro").wait().wantCode(t, 3)
		if !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "has other files than this machine") {
			t.Errorf("%s: %s", docker, r.stderr)
		}
	}
	huge := filepath.Join(m.seen, "huge")
	write(t, huge, "")
	if err := os.Truncate(huge, 5<<30); err != nil {
		t.Fatal(err)
	}
	r := m.startFar(t, "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true'}]}}\n").wait().wantCode(t, 3)
	if !strings.Contains(r.stderr, "more than 4096 MiB of files") {
		t.Errorf("said %s", r.stderr)
	}
	m.wantNothingFar(t)
}

// TestFarEngineThatDies: the run fails and says why, and the project gets what the
// steps before had done.
func TestFarEngineThatDies(t *testing.T) {
	t.Parallel()
	e := newOwnEngine(t, busyboxImage)
	m := e.machine().far(t)
	m.repository(t, map[string]string{"a.txt": "one\n"})
	chownTree(t, m.seen, ordinaryUser)
	p := m.startFar(t, `
on: workflow_dispatch
defaults: {docker: {image: "`+busyboxImage+`", network: none}}
jobs:
  a:
    steps:
      - run: echo two >a.txt; echo new >b.txt
      - run: echo three >a.txt; echo begun; sleep 600
`)
	p.awaitOutput("begun")
	e.Kill()
	r := p.wait().wantCode(t, 3)
	if out := r.step(t, "a", "step-2"); out.Cause != event.CauseInfrastructure || !strings.Contains(out.Message, "is gone") {
		t.Errorf("the second step: %+v", out)
	}
	if a, b := read(t, filepath.Join(m.seen, "a.txt")), read(t, filepath.Join(m.seen, "b.txt")); a != "two\n" || b != "new\n" {
		t.Errorf("the project has %q and %q", a, b)
	}
	e.Start()
	m.startFar(t, "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true', docker: {image: \""+busyboxImage+"\", network: none}}]}}\n").wait().wantCode(t, 0)
	m.wantNothingFar(t)
}

// TestFarEngineIsVerified: boxes that work on copies are as closed as others, as
// far as this machine can tell of another's.
func TestFarEngineIsVerified(t *testing.T) {
	t.Parallel()
	m := newFarMachine(t)
	chownTree(t, m.seen, ordinaryUser)
	m.env = append(m.env, "TMPDIR="+filepath.Dir(m.project))
	r := m.call(t, "verify-sandbox", "-C", m.project).wantCode(t, 3)
	if !strings.Contains(r.stdout, " 0 holes, 5 open by configuration, 1 unchecked") || !strings.Contains(r.stdout, "whose namespaces are not known here") {
		t.Errorf("it found:\n%s", r.stdout)
	}
	m.wantNothingFar(t)
}
