package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/internal/enginetest"
)

// TestPodman (FUTURE-06): a workflow with an agent, recorded and then replayed,
// in podman's boxes, and nothing is left of it.
func TestPodman(t *testing.T) {
	t.Parallel()
	needEngine(t)
	address := enginetest.Podman(t).Address()
	api, err := client.NewClientWithOpts(client.WithHost(address), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	if err := enginetest.ImportBusybox(api); err != nil {
		t.Fatal(err)
	}
	podman := engine{api}

	model := newModel(t, "")
	m := newMachine(t, append(model.openAI("cmd="+b64("cat a.txt; id -u")+",text="+b64("It says one."), "sk-test"), "DOCKER_HOST="+address)...)
	dir, cassettes := newProject(t, map[string]string{"a.txt": "one\n"}), t.TempDir()
	flow := `
on: workflow_dispatch
defaults: {docker: {image: "` + enginetest.Busybox + `"}}
jobs:
  look:
    steps:
      - {run: 'id -u; ip -o -4 addr show eth0', shell: sh}
      - {id: ask, prompt: Say what is in a.txt, docker: {network: none}, runtime: {type: sdk, engine: openai, model: gpt-5.2}}
      - {run: 'echo "the answer: $ANSWER"', shell: sh, env: {ANSWER: "${{ steps.ask.outputs.result }}"}}
`
	write(t, filepath.Join(dir, "flow.yml"), flow)
	for _, how := range []string{"--record", "--replay"} {
		if how == "--replay" {
			m.env = append(m.env, "OPENAI_API_KEY=")
		}
		r := m.run(t, dir, flow, how, cassettes).wantCode(t, 0)
		if out := r.step(t, "look", "ask"); out.Outcome != "success" || out.Outputs["result"] != "It says one." {
			t.Errorf("%s: %+v", how, out)
		}
		if got := r.toolResults("look", "ask"); !strings.Contains(got, "one") {
			t.Errorf("%s: its tool gave %q", how, got)
		}
		if got := r.output("look", "step-1"); !strings.Contains(got, "inet 10.") {
			t.Errorf("%s: printed %q", how, got)
		}
		if got := r.output("look", "step-3"); !strings.Contains(got, "the answer: It says one.") {
			t.Errorf("%s: printed %q", how, got)
		}
	}
	// Every attack on such boxes, of agents and others.
	if r := m.call(t, "verify-sandbox", "-C", dir, "flow.yml"); r.code != 0 {
		t.Errorf("verify-sandbox: exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if left := podman.boxes(t, m.state); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	if networks, err := api.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", "herd-runner"))}); err != nil || len(networks) > 0 {
		t.Errorf("left: %+v, %v", networks, err)
	}
	t.Run("choice", func(t *testing.T) { chooseSandbox(t, address, dir) })
	if r := m.call(t, "doctor", "-C", dir); !strings.Contains(r.stdout, "podman 4") {
		t.Errorf("doctor says\n%s", r.stdout)
	}
}

// chooseSandbox: --sandbox (FR-010) among a Docker engine and a podman, of which
// the run says which it has taken.
func chooseSandbox(t *testing.T, podman, dir string) {
	runtimeDir := t.TempDir()
	if err := os.Mkdir(filepath.Join(runtimeDir, "podman"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(strings.TrimPrefix(podman, "unix://"), filepath.Join(runtimeDir, "podman/podman.sock")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "where.yml"), `
on: workflow_dispatch
defaults: {docker: {image: "`+enginetest.Busybox+`", network: none}}
jobs: {a: {steps: [{run: 'grep -q " /var/tmp " /proc/mounts && echo in podman || echo in docker', shell: sh}]}}
`)
	noDocker := []string{"unshare", "-m", "sh", "-c", `mount --bind /dev/null /run/docker.sock && exec "$0" "$@"`}
	for name, tc := range map[string]struct {
		as, env, flags []string
		code           int
		in             string // which the step finds itself in
		said           []string
		quiet          bool
	}{
		"docker without a word":   {in: "docker", quiet: true},
		"docker":                  {flags: []string{"--sandbox", "docker"}, in: "docker", quiet: true},
		"podman":                  {flags: []string{"--sandbox", "podman"}, in: "podman", quiet: true},
		"auto takes docker first": {flags: []string{"--sandbox", "auto"}, in: "docker", said: []string{"boxes run in docker ", " at unix:///var/run/docker.sock"}},
		"auto without docker":     {as: noDocker, flags: []string{"--sandbox", "auto"}, in: "podman", said: []string{"boxes run in podman 4", "podman/podman.sock"}},
		"nothing is asked":        {as: noDocker, in: "podman", said: []string{"boxes run in podman 4"}},
		"docker does not answer":  {as: noDocker, flags: []string{"--sandbox", "docker"}, code: 3, said: []string{"no answer at unix:///var/run/docker.sock"}},
		"the other answers":       {env: []string{"DOCKER_HOST=" + podman}, flags: []string{"--sandbox", "docker"}, code: 3, said: []string{"podman answers at " + podman + ", not docker"}},
		"DOCKER_HOST has a say":   {env: []string{"DOCKER_HOST=" + podman}, flags: []string{"--sandbox", "auto"}, in: "podman", said: []string{"boxes run in podman 4", podman}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, append([]string{"DOCKER_HOST=", "XDG_RUNTIME_DIR=" + runtimeDir}, tc.env...)...)
			m.as = tc.as
			r := m.call(t, append([]string{"run", "-C", dir, "where.yml"}, tc.flags...)...).wantCode(t, tc.code)
			all := r.stdout + r.stderr
			if tc.in != "" && !strings.Contains(all, "in "+tc.in+"\n") {
				t.Errorf("it did not run in %s:\n%s", tc.in, all)
			}
			for _, want := range tc.said {
				if !strings.Contains(all, want) {
					t.Errorf("no %q in\n%s", want, all)
				}
			}
			if tc.quiet && strings.Contains(all, "boxes run in") {
				t.Errorf("it says what was asked:\n%s", all)
			}
		})
	}
}
