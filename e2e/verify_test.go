package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/verify"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

func (r result) findings(t *testing.T) []verify.Finding {
	t.Helper()
	var list []verify.Finding
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		t.Fatalf("%v: %s %s", err, r.stdout, r.stderr)
	}
	return list
}

// TestVerifySandbox: the boxes that people get hold what they promise (THREATS 1,
// 2, 4 to 12, 14 to 18).
func TestVerifySandbox(t *testing.T) {
	t.Parallel()
	m := newMachine(t, "ANTHROPIC_API_KEY=sk-ant-api03-real-key-of-this-test")
	dir := newProject(t, map[string]string{"flow.yml": `
on: workflow_dispatch
jobs:
  a:
    steps:
      - {run: "true", docker: {network: none}}
      - {prompt: x, docker: {network: none}, workspace: ro}
      - {prompt: x, docker: {network: {allow: [example.com]}}}
      - {prompt: y, docker: {network: {allow: [example.com]}}}
      - {prompt: x}
      - {prompt: x, docker: {network: none}, workspace: isolated}
      - {prompt: x, docker: {network: none}, workspace: copy}
`})
	r := m.call(t, "verify-sandbox", "--json", "-C", dir, "flow.yml").wantCode(t, 0)
	held, boxes := map[string]int{}, map[string]bool{}
	for _, f := range r.findings(t) {
		boxes[f.Box] = true
		switch {
		case f.Verdict == verify.Held:
			held[f.Attack]++
		case f.Verdict == verify.Open && f.By == "network: bridge" && strings.Contains(f.Box, ":10:"):
		default:
			t.Errorf("%+v", f)
		}
	}
	if len(boxes) != 6 {
		t.Errorf("the boxes are %v, want 6: two steps ask for the same", boxes)
	}
	for _, a := range verify.Attacks() {
		if held[a.Name] == 0 {
			t.Errorf("%s was tried on no box", a.Name)
		}
	}
	m.wantNothingLeft(t, dir)
}

// What the operator has opened is said so; what cannot be known is no success.
func TestVerifySandboxThatIsOpen(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, map[string]string{
		"open.yml":   "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true', docker: {network: host, user: '0:0'}}, {run: 'true', docker: false}]}}\n",
		"later.yml":  "on: workflow_dispatch\njobs: {a: {strategy: {matrix: {n: [none]}}, steps: [{run: 'true', docker: {network: '${{ matrix.n }}'}}]}}\n",
		"image.yml":  "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true', docker: herd-runner/no-such}]}}\n",
		"broken.yml": "on: workflow_dispatch\njobs: {a: {steps: [{run: 'true', docker: {memory: lots}}]}}\n",
	})
	refused := m.call(t, "verify-sandbox", "-C", dir, "open.yml").wantCode(t, 2)
	for _, rule := range []string{"network-host", "root", "host"} {
		if !strings.Contains(refused.stderr, "--allow "+rule) {
			t.Errorf("the refusal does not name %s: %s", rule, refused.stderr)
		}
	}
	allow := []string{"--allow", "network-host", "--allow", "root", "--allow", "host"}
	open := map[string]string{}
	for _, f := range m.call(t, append([]string{"verify-sandbox", "--json", "-C", dir, "open.yml"}, allow...)...).wantCode(t, 0).findings(t) {
		if f.Verdict == verify.Open {
			open[f.Attack] = f.By
		} else if f.Verdict != verify.Held {
			t.Errorf("%+v", f)
		}
	}
	for attack, by := range map[string]string{"box": "policy: host", "host-loopback": "policy: network-host", "user": "policy: root", "other-boxes": "policy: network-host"} {
		if open[attack] != by {
			t.Errorf("%s is open by %q, want %q", attack, open[attack], by)
		}
	}
	strict := m.call(t, append([]string{"verify-sandbox", "--strict", "-C", dir, "open.yml"}, allow...)...).wantCode(t, 1)
	if !strings.Contains(strict.stdout, "(open by policy: root)") {
		t.Errorf("got %s", strict.stdout)
	}
	if r := m.call(t, "verify-sandbox", "-C", dir, "later.yml").wantCode(t, 3); !strings.Contains(r.stdout, "depends on the run") {
		t.Errorf("got %s", r.stdout)
	}
	if r := m.call(t, "verify-sandbox", "-C", dir, "image.yml").wantCode(t, 3); !strings.Contains(r.stderr, "herd-runner/no-such") {
		t.Errorf("got %s", r.stderr)
	}
	m.call(t, "verify-sandbox", "-C", dir, "broken.yml").wantCode(t, 2)
	m.call(t, "verify-sandbox", "-C", dir, "none.yml").wantCode(t, 2)
	m.wantNothingLeft(t, dir)
}

// canary stands for a real credential.
const canary = "sk-ant-api03-canary-of-the-weak-box"

// weak starts boxes that are weaker than they are asked to be.
type weak struct {
	sandbox.Backend
	spoil func(*sandbox.Spec)
}

func (w weak) Start(ctx context.Context, s sandbox.Spec) (sandbox.Box, error) {
	w.spoil(&s)
	box, err := w.Backend.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	return careless{box}, nil
}

// careless does not end what it is told to end, hands output over in one piece,
// and takes whatever a step left.
type careless struct{ sandbox.Box }

func (c careless) Exec(ctx context.Context, p sandbox.Process) (sandbox.Exit, error) {
	switch p.Argv[len(p.Argv)-1] {
	case "detached":
		ctx = context.WithoutCancel(ctx)
	case "endless-line":
		whole, out := &strings.Builder{}, p.Stdout
		p.Stdout = whole
		defer func() { _, _ = io.WriteString(out, whole.String()) }()
	}
	exit, err := c.Box.Exec(ctx, p)
	if len(p.Collect) > 0 && err == nil {
		exit.Collected = map[string][]byte{p.Collect[0].Path: make([]byte, 1<<20)}
	}
	return exit, err
}

// yes is an HTTP server that serves everything.
func yes(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	}
}

// TestVerifySeesHoles: each attack works on a box that is weak enough, and is
// then told as a hole. A check that cannot fail shows nothing.
// THREATS 9.
func TestVerifySeesHoles(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	backend, err := docker.Open(t.Context(), docker.Options{Runner: built(t).herd, StateDir: filepath.Join(m.state, "herd-runner"), Host: os.Getenv("DOCKER_HOST")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := backend.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	// Those that no box here could let through: internal/verify shows them.
	holes := map[string]bool{"processes": true}
	for name, target := range map[string]struct {
		target verify.Target
		spoil  func(p *verify.Project, s *sandbox.Spec)
	}{
		"open wide": {
			target: verify.Target{Workspace: verify.ReadOnly, Spec: sandbox.Spec{Network: sandbox.Network{Mode: "none"}, Gateway: yes}},
			spoil:  openWide,
		},
		"bridge instead of none": {
			target: verify.Target{Spec: sandbox.Spec{Network: sandbox.Network{Mode: "none"}}},
			spoil:  func(_ *verify.Project, s *sandbox.Spec) { s.Network.Mode = "bridge" },
		},
		"open proxy": {
			target: verify.Target{Spec: sandbox.Spec{Network: sandbox.Network{Mode: "allow"}, Egress: yes}},
			spoil:  func(*verify.Project, *sandbox.Spec) {},
		},
	} {
		for _, f := range attackWeak(t, backend, name, target.target, target.spoil) {
			if f.Verdict == verify.Hole {
				holes[f.Attack] = true
			}
		}
	}
	for _, a := range verify.Attacks() {
		if !holes[a.Name] {
			t.Errorf("%s is not seen to work on any weak box", a.Name)
		}
	}
	if n := len(m.engine.boxes(t, m.state)); n > 0 {
		t.Errorf("%d containers are left", n)
	}
}

// manyCapabilities are not all: an engine in a virtual machine may lack one.
const manyCapabilities = `"SYS_ADMIN", "SYS_PTRACE", "SYS_CHROOT", "SYS_MODULE", "SYS_BOOT", "SYS_NICE", "NET_ADMIN", "NET_RAW", "MKNOD", "CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID"`

// openWide takes everything away that a box has.
func openWide(p *verify.Project, s *sandbox.Spec) {
	s.AllowRoot, s.User, s.WritableRoot = true, "0:0", true
	s.Network.Mode = "host"
	s.Env = map[string]string{"MODEL_KEY": canary}
	s.HostConfig = json.RawMessage(`{"CapAdd": [` + manyCapabilities + `], "Devices": [{"PathOnHost": "/dev/kmsg", "PathInContainer": "/dev/kmsg", "CgroupPermissions": "r"}], "SecurityOpt": ["seccomp=unconfined"], "Memory": 0, "MemorySwap": 0, "PidsLimit": null, "Tmpfs": {"/tmp": "rw,exec"}}`)
	beside := filepath.Join(filepath.Dir(p.Dir), "beside")
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m sandbox.Mount) bool {
		return strings.HasPrefix(m.Target, workspace.BoxDir) || strings.HasPrefix(m.Target, "/herd/git") || m.Target == workspace.BoxTemp
	})
	s.Mounts = append(s.Mounts,
		sandbox.Mount{Source: p.Dir, Target: workspace.BoxDir},
		sandbox.Mount{Source: beside, Target: beside},
		sandbox.Mount{Source: filepath.Join(filepath.Dir(p.Dir), "temp"), Target: workspace.BoxTemp},
		sandbox.Mount{Source: "/var/run/docker.sock", Target: "/var/run/docker.sock"})
}

func attackWeak(t *testing.T, backend sandbox.Backend, name string, target verify.Target, spoil func(*verify.Project, *sandbox.Spec)) []verify.Finding {
	t.Helper()
	dir := t.TempDir()
	uid := os.Getuid()
	if uid == 0 {
		uid = 1000
	}
	project, err := verify.NewProject(dir, uid, uid)
	if err != nil {
		t.Fatal(err)
	}
	giveToUser(t, dir)
	write(t, filepath.Join(dir, "temp", "credentials.json"), fmt.Sprintf("{%q: %q}", "key", canary))
	run := filepath.Join(project.Dir, ".herd", "runs", "weak")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.Open(workspace.Options{Project: project.Dir, RunDir: run, Boxes: true})
	if err != nil {
		t.Fatal(err)
	}
	target.Name, target.Spec.Image = name, agentImage
	list, err := verify.Run(t.Context(), verify.Options{
		Backend: weak{backend, func(s *sandbox.Spec) { spoil(project, s) }}, Project: project, Keys: []string{canary},
		Layout: func(_ context.Context, t verify.Target) (sandbox.Layout, error) {
			return ws.Box(cmp.Or(t.Workspace, "shared"), "weak", "")
		},
		Finish: func() error { // follows links
			return os.WriteFile(filepath.Join(project.Dir, "herd-verify-file-link"), []byte("overwritten"), 0o644)
		},
		Clean: func(s string) string { return s }, Local: true, Forwarded: func() int { return 0 },
	}, []verify.Target{target})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return list
}
