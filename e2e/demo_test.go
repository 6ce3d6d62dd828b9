package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestDemo runs `make demo`'s workflow twice, each time on a fresh copy.
func TestDemo(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	root := built(t).root
	dir := filepath.Join(t.TempDir(), "demo")
	for n := range 2 {
		t.Run(fmt.Sprintf("run %d", n+1), func(t *testing.T) {
			command(t, root, "scripts/demo-repo.sh", dir)
			if _, err := goTest(t, dir); err == nil {
				t.Fatal("the demo's tests pass before the agents have worked on it")
			}
			r := m.call(t, "run", "--json", "-C", dir, filepath.Join(root, "examples/workflows/demo.yml"),
				"--replay", filepath.Join(root, "examples/cassettes/demo")).wantCode(t, 0)

			steps := map[string]int{}
			for _, e := range r.events {
				if e.Type != event.StepFinished {
					continue
				}
				if e.Outcome.Conclusion != "success" {
					t.Errorf("%s/%s: %+v", e.Job, e.Step, *e.Outcome)
				}
				steps[e.StepInfo.Kind]++
				u := e.Outcome.Usage
				if e.StepInfo.Kind == "agent" && (u == nil || u.InputTokens == 0 || u.OutputTokens == 0 || u.CostUSD <= 0 || !u.CostKnown) {
					t.Errorf("%s/%s: usage %+v, want tokens and cost", e.Job, e.Step, u)
				}
			}
			if steps["agent"] < 4 || steps["run"] < 2 {
				t.Errorf("steps by kind: %v, want at least 4 agents and 2 runs", steps)
			}
			last := r.events[len(r.events)-1]
			if last.Type != event.RunFinished || last.Outcome.Usage == nil || last.Outcome.Usage.CostUSD <= 0 {
				t.Errorf("the last event is %+v, want the run's end with its cost", last)
			}
			if out, err := goTest(t, dir); err != nil {
				t.Errorf("the demo's tests fail after the agents have worked on it: %v\n%s", err, out)
			}
			if log := git(t, dir, "diff", "--stat"); !strings.Contains(log, "calendar/merge.go") || !strings.Contains(log, "CHANGELOG.md") {
				t.Errorf("the agents changed:\n%s", log)
			}
			m.wantNothingLeft(t, dir)
		})
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, name), args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func goTest(t *testing.T, dir string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestBoxesAreHardened looks at boxes from outside while real agents sit in
// them, waiting for their model.
// THREATS 9.
func TestBoxesAreHardened(t *testing.T) {
	t.Parallel()
	model := newModel(t, `
scenarios:
  - name: work
    prompt: Look around
    turns:
      - calls: [{name: "Bash|bash", input: {command: id, description: look}}]
      - text: Done.
`)
	waits := []*hold{model.hold(afterTool, fromClaude), model.hold(afterTool, fromSDK)}
	m := newMachine(t, model.asked("sk-ant-api03-"+strings.Repeat("r3alKey", 8))...)
	dir := newRepository(t, map[string]string{"README.md": "# Toy\n"})
	p := m.startRun(t, dir, `
on: workflow_dispatch
defaults:
  workspace: ro
jobs:
  claude:
    steps:
      - id: look
        prompt: Look around
        runtime: {type: cli, engine: claude, model: sonnet}
        docker: {network: none, memory: 1g, cpus: 1.5, pids-limit: 200, tmpfs: ["/scratch:size=8m"]}
  sdk:
    steps:
      - id: look
        prompt: Look around
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
`)
	boxes := map[string]string{"claude": p.awaitBox("claude", "look"), "sdk": p.awaitBox("sdk", "look")}
	for _, wait := range waits {
		wait.wait(t, p)
	}
	run := p.await("run", func(e event.Event) bool { return e.Type == event.RunStarted }).Run.ID
	for job, id := range boxes {
		c, _ := m.engine.inspect(t, id)
		wantHard(t, job, c)
		for label, want := range map[string]string{"herd-runner": "1", "herd-runner.role": "box", "herd-runner.run": run, "herd-runner.job": job, "herd-runner.step": "look"} {
			if got := c.Config.Labels[label]; got != want {
				t.Errorf("%s: label %s is %q, want %q", job, label, got, want)
			}
		}
		status := m.engine.exec(t, id, "cat /proc/1/status", "")
		for _, want := range []string{"Seccomp:\t2\n", "NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "CapPrm:\t0000000000000000\n"} {
			if !strings.Contains(status, want) {
				t.Errorf("%s: process 1 has no %q:\n%s", job, want, status)
			}
		}
	}
	c, _ := m.engine.inspect(t, boxes["claude"])
	if h := c.HostConfig; h.Memory != 1<<30 || *h.PidsLimit != 200 || h.NanoCPUs != 1.5e9 || h.NetworkMode.IsBridge() || h.NetworkMode.IsHost() {
		t.Errorf("claude's limits: memory %d, pids %d, cpus %d, network %s", h.Memory, *h.PidsLimit, h.NanoCPUs, h.NetworkMode)
	}
	for _, wait := range waits {
		wait.release()
	}
	p.wait().wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}

// wantHard asserts THREATS 9 on what the engine says.
func wantHard(t *testing.T, job string, c container.InspectResponse) {
	t.Helper()
	for _, line := range softened(c) {
		t.Errorf("%s: not so: %s; host config %+v", job, line, *c.HostConfig)
	}
	if want := fmt.Sprintf("%d:%d", userID(), userID()); c.Config.User != want {
		t.Errorf("%s: its user is %s, want the project's owner %s", job, c.Config.User, want)
	}
}

// softened are the lines of hardening that a box does not have.
func softened(c container.InspectResponse) []string {
	h := c.HostConfig
	uid, gid, _ := strings.Cut(c.Config.User, ":")
	lines := []struct {
		what string
		so   bool
	}{
		{"user is not root", uid != "" && uid != "0" && gid != "" && gid != "0"},
		{"no capabilities", len(h.CapDrop) == 1 && h.CapDrop[0] == "ALL" && len(h.CapAdd) == 0},
		{"no new privileges", slices.Contains(h.SecurityOpt, "no-new-privileges:true")},
		{"seccomp confined", !strings.Contains(strings.Join(h.SecurityOpt, " "), "unconfined")},
		{"read-only root", h.ReadonlyRootfs},
		{"memory is bounded, swap too", h.Memory > 0 && h.MemorySwap == h.Memory},
		{"processes are bounded", h.PidsLimit != nil && *h.PidsLimit > 0},
		{"not privileged", !h.Privileged},
		{"own pid namespace", h.PidMode == ""},
		{"own ipc namespace", h.IpcMode == "private"},
		{"own uts namespace", h.UTSMode == ""},
		{"own user namespace", h.UsernsMode != "host"},
		{"own network", !h.NetworkMode.IsHost()},
		{"no devices", len(h.Devices) == 0 && len(h.DeviceRequests) == 0 && len(h.DeviceCgroupRules) == 0},
		{"nothing published", len(h.PortBindings) == 0},
		{"no log", h.LogConfig.Type == "none"},
		{"no restart", h.RestartPolicy.Name == "" || h.RestartPolicy.Name == "no"},
		{"no links, no other's volumes", len(h.Links) == 0 && len(h.VolumesFrom) == 0},
		{"/proc and /sys are masked", len(h.MaskedPaths) > 0 && len(h.ReadonlyPaths) > 0},
		{"/tmp and /run in memory", len(h.Tmpfs) >= 2},
	}
	var missing []string
	for _, line := range lines {
		if !line.so {
			missing = append(missing, line.what)
		}
	}
	for target, options := range h.Tmpfs {
		for _, want := range []string{"nosuid", "nodev", "size="} {
			if !strings.Contains(options, want) {
				missing = append(missing, "tmpfs "+target+" has "+want)
			}
		}
	}
	for _, mount := range c.Mounts {
		if strings.Contains(mount.Source, "docker.sock") || mount.Source == "/" {
			missing = append(missing, mount.Source+" is not mounted")
		}
	}
	slices.Sort(missing)
	return missing
}

func userID() int {
	if id := os.Getuid(); id != 0 {
		return id
	}
	return ordinaryUser
}
