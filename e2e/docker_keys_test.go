package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/herd-runner/herd-runner/internal/event"
)

// dockerKey is a key of the `docker:` block: what is said at each level and what
// is then seen of a box, from outside or by the step in it.
type dockerKey struct {
	name   string
	values levels // YAML
	want   levels
	seen   func(seenBox) string
	// lifts are the lines of hardening (see softened) that its values lift.
	lifts []string
	// test shows the key instead, where one box does not.
	test string
}

// levels are the workflow's defaults, the job and the step.
type levels [3]string

// seenBox is a box after its step.
type seenBox struct {
	container.InspectResponse
	output string
}

// output gives the step's line that begins with name.
func outputOf(name string) func(seenBox) string {
	return func(b seenBox) string {
		for line := range strings.Lines(b.output) {
			if v, ok := strings.CutPrefix(line, name+"="); ok {
				return strings.TrimSpace(v)
			}
		}
		return "nothing"
	}
}

// look is what every step of these tests prints.
const look = `echo "env=$A $B"; echo "user=$(id -u):$(id -g)"; echo "volume=$(cat /volume/name)"; touch "$HOME/x" && echo "home=writable"`

func number(get func(*container.HostConfig) int64) func(seenBox) string {
	return func(b seenBox) string { return fmt.Sprint(get(b.HostConfig)) }
}

func volumeSeen(b seenBox) string {
	for _, m := range b.Mounts {
		if m.Destination == "/volume" {
			return fmt.Sprintf("%s, writable: %v", outputOf("volume")(b), m.RW)
		}
	}
	return "none"
}

func userSeen(b seenBox) string {
	return b.Config.User + " " + outputOf("user")(b) + " home " + outputOf("home")(b)
}

func portsSeen(b seenBox) string {
	var all []string
	for port, bindings := range b.HostConfig.PortBindings {
		for _, to := range bindings {
			all = append(all, to.HostIP+" "+string(port))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func ulimitsSeen(b seenBox) string {
	var all []string
	for _, u := range b.HostConfig.Ulimits {
		all = append(all, fmt.Sprintf("%s %d:%d", u.Name, u.Soft, u.Hard))
	}
	return strings.Join(all, ", ")
}

func networkSeen(b seenBox) string { return string(b.HostConfig.NetworkMode) }

// dockerKeys are all keys, in groups that can stand in one block. images are
// three that can run a step.
func dockerKeys(images levels) [][]dockerKey {
	limits := []dockerKey{
		{name: "image", values: images, want: images, seen: func(b seenBox) string { return b.Config.Labels["herd-test.image"] }},
		{name: "memory", values: levels{"128m", "160m", "201326592"}, want: levels{"134217728 134217728", "167772160 167772160", "201326592 201326592"},
			seen: func(b seenBox) string { return fmt.Sprint(b.HostConfig.Memory, b.HostConfig.MemorySwap) }},
		{name: "cpus", values: levels{"1", "0.75", "0.5"}, want: levels{"1000000000", "750000000", "500000000"}, seen: number(func(h *container.HostConfig) int64 { return h.NanoCPUs })},
		{name: "cpu-shares", values: levels{"512", "1024", "256"}, want: levels{"512", "1024", "256"}, seen: number(func(h *container.HostConfig) int64 { return h.CPUShares })},
		{name: "pids-limit", values: levels{"100", "60", "80"}, want: levels{"100", "60", "80"}, seen: number(func(h *container.HostConfig) int64 { return *h.PidsLimit })},
		{name: "user", values: levels{user(userID()), `"1234:1234"`, `"1235:1235"`}, want: levels{ids(userID()), ids(1234), ids(1235)},
			seen: userSeen},
		{name: "volumes", values: levels{"./a:/volume:ro", "[./b:/volume]", "[./c:/volume:ro]"}, want: levels{"a, writable: false", "b, writable: true", "c, writable: false"}, seen: volumeSeen},
		{name: "tmpfs", values: levels{"/scratch:size=1m", `["/scratch:size=2m,exec"]`, "{/scratch: 3m}"},
			want: levels{"rw,nosuid,nodev,noexec,mode=1777,size=1048576", "rw,nosuid,nodev,exec,mode=1777,size=2097152", "rw,nosuid,nodev,noexec,mode=1777,size=3145728"},
			seen: func(b seenBox) string { return b.HostConfig.Tmpfs["/scratch"] }},
		{name: "env", values: levels{"{A: low, B: below}", "{A: mid}", "{A: top}"}, want: levels{"low below", "mid below", "top below"}, seen: outputOf("env")},
		{name: "labels", values: levels{"{team: low, of: below}", "{team: mid}", "{team: top}"}, want: levels{"low below", "mid below", "top below"},
			seen: func(b seenBox) string { return b.Config.Labels["team"] + " " + b.Config.Labels["of"] }},
		{name: "ports", values: levels{"80", "[81/udp]", `["127.0.0.2::82"]`}, want: levels{"127.0.0.1 80/tcp", "127.0.0.1 81/udp", "127.0.0.2 82/tcp"}, seen: portsSeen,
			lifts: []string{"nothing published"}},
		{name: "ulimits", values: levels{"{nofile: 1024}", "[nofile=512:600]", "{nofile: {soft: 64, hard: 128}}"}, want: levels{"nofile 1024:1024", "nofile 512:600", "nofile 64:128"}, seen: ulimitsSeen},
		{name: "shm-size", values: levels{"1m", "2m", "64k"}, want: levels{"1048576", "2097152", "65536"}, seen: number(func(h *container.HostConfig) int64 { return h.ShmSize })},
		{name: "read-only", values: levels{"true", "false", "true"}, want: levels{"true", "false", "true"}, seen: func(b seenBox) string { return fmt.Sprint(b.HostConfig.ReadonlyRootfs) },
			lifts: []string{"read-only root"}},
		{name: "oci-runtime", values: levels{"runc", "io.containerd.runc.v2", "runc"}, want: levels{"runc", "io.containerd.runc.v2", "runc"}, seen: func(b seenBox) string { return b.HostConfig.Runtime }},
	}
	periods := []dockerKey{
		{name: "cpu-period", values: levels{"100000", "50000", "20000"}, want: levels{"100000", "50000", "20000"}, seen: number(func(h *container.HostConfig) int64 { return h.CPUPeriod })},
		{name: "cpu-quota", values: levels{"40000", "30000", "20000"}, want: levels{"40000", "30000", "20000"}, seen: number(func(h *container.HostConfig) int64 { return h.CPUQuota })},
		{name: "network", values: levels{"bridge", "none", "{allow: [example.com]}"}, want: levels{"herd-runner", "none", "none"}, seen: networkSeen},
	}
	// Each by the operator's word, and so each alone.
	network := []dockerKey{{name: "network", values: levels{"none", "bridge", "host"}, want: levels{"none", "herd-runner", "host"}, seen: networkSeen, lifts: []string{"own network"}}}
	root := []dockerKey{{name: "user", values: levels{user(userID()), `"1234:1234"`, "root"}, want: levels{ids(userID()), ids(1234), ids(0)},
		seen: userSeen, lifts: []string{"user is not root"}}}
	privileged := []dockerKey{{name: "privileged", values: levels{"true", "false", "true"}, want: levels{"true", "false", "true"}, seen: func(b seenBox) string { return fmt.Sprint(b.HostConfig.Privileged) },
		lifts: []string{"not privileged", "/proc and /sys are masked"}}}
	hostConfig := []dockerKey{{name: "host-config", values: levels{"{OomScoreAdj: 100}", "{CpuShares: 77}", "{OomScoreAdj: 300, CapAdd: [CAP_CHOWN]}"},
		want: levels{"100 0 []", "0 77 []", "300 0 [CAP_CHOWN]"},
		seen: func(b seenBox) string {
			h := b.HostConfig
			return fmt.Sprint(h.OomScoreAdj, h.CPUShares, h.CapAdd)
		}, lifts: []string{"no capabilities"}}}
	elsewhere := []dockerKey{
		{name: "pull", test: "TestPullAtEveryLevel"},
		{name: "auth", test: "TestAuthNeedsTheOperatorsWord"},
		{name: "ephemeral", test: "TestKeptAtEveryLevel"},
		{name: "max-containers", test: "TestKeptAtEveryLevel"},
		{name: "reuse", test: "TestKeptAtEveryLevel"},
	}
	return [][]dockerKey{limits, periods, network, root, privileged, hostConfig, elsewhere}
}

func user(id int) string { return fmt.Sprintf(`"%d:%[1]d"`, id) }
func ids(id int) string  { return fmt.Sprintf("%d:%[1]d %[1]d:%[1]d home writable", id) }

// TestDockerKeys: DOCKER-11, THREATS 9: each key of `docker:` at each level
// reaches the engine, the nearest wins key by key, and a key changes nothing of
// the hardening but what it is for. A job sets one key, its step the next one,
// and all others come from the defaults.
func TestDockerKeys(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, group := range dockerKeys(m.engine.variants(t)) {
		if group[0].test != "" {
			continue
		}
		t.Run(group[0].name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			dir := newProject(t, map[string]string{"a/name": "a", "b/name": "b", "c/name": "c"})
			var flow strings.Builder
			say := func(indent string, level int, keys ...dockerKey) {
				for _, k := range keys {
					fmt.Fprintf(&flow, "%s%s: %s\n", indent, k.name, k.values[level])
				}
			}
			flow.WriteString("on: workflow_dispatch\ndefaults:\n  docker:\n    ephemeral: false\n")
			say("    ", 0, group...)
			fmt.Fprintf(&flow, "jobs:\n  defaults: {steps: [{id: s, run: %q}]}\n", look)
			for i, own := range group {
				next := group[(i+1)%len(group)]
				fmt.Fprintf(&flow, "  %s:\n    docker:\n", own.name)
				say("      ", 1, own)
				if len(group) > 1 {
					say("      ", 1, next)
				}
				fmt.Fprintf(&flow, "    steps:\n    - id: s\n      run: %q\n", look)
				if len(group) > 1 {
					flow.WriteString("      docker:\n")
					say("        ", 2, next)
				}
			}
			if len(group) == 1 {
				flow.WriteString("  step:\n    docker:\n")
				say("      ", 1, group...)
				fmt.Fprintf(&flow, "    steps:\n    - id: s\n      run: %q\n      docker:\n", look)
				say("        ", 2, group...)
			}
			r := m.run(t, dir, flow.String(), "--allow", "root", "--allow", "network-host", "--allow", "privileged", "--allow", "host-config").wantCode(t, 0)

			boxes := r.boxesOf(t, m.engine)
			check := func(job string, level map[string]int) {
				b, ok := boxes[job]
				if !ok {
					t.Fatalf("job %s had no box:\n%s", job, r.stdout)
				}
				var lifted []string
				for _, k := range group {
					at := level[k.name]
					if got := k.seen(b); got != k.want[at] {
						t.Errorf("job %s: %s: %s gave %q, want %q", job, k.name, k.values[at], got, k.want[at])
					}
					lifted = append(lifted, k.lifts...)
				}
				for _, line := range softened(b.InspectResponse) {
					if !slices.Contains(lifted, line) {
						t.Errorf("job %s: not so any more: %s; host config %+v", job, line, *b.HostConfig)
					}
				}
			}
			check("defaults", nil)
			for i, own := range group {
				levels := map[string]int{own.name: 1}
				if len(group) > 1 {
					levels[group[(i+1)%len(group)].name] = 2
				}
				check(own.name, levels)
			}
			if len(group) == 1 {
				check("step", map[string]int{group[0].name: 2})
			}
			m.call(t, "box", "rm", "--all").wantCode(t, 0)
			m.wantNothingLeft(t, dir)
		})
	}
}

// A key that the language has and this table lacks is not shown to work.
// THREATS 9.
func TestEveryDockerKeyHasARow(t *testing.T) {
	var published struct {
		Definitions struct {
			Docker struct {
				Properties map[string]any `json:"properties"`
			} `json:"docker"`
		} `json:"definitions"`
	}
	// `herd-runner schema` asks no engine.
	m := &machine{env: os.Environ()}
	if err := json.Unmarshal([]byte(m.call(t, "schema").wantCode(t, 0).stdout), &published); err != nil {
		t.Fatal(err)
	}
	var tests string
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		tests += read(t, file)
	}
	rows := map[string]bool{}
	for _, group := range dockerKeys(levels{}) {
		for _, k := range group {
			rows[k.name] = true
			if k.test != "" && !strings.Contains(tests, "func "+k.test+"(t *testing.T)") {
				t.Errorf("%s: there is no %s", k.name, k.test)
			}
		}
	}
	keys := published.Definitions.Docker.Properties
	if len(keys) == 0 {
		t.Fatal("the schema has no keys of docker")
	}
	for key := range keys {
		if !rows[key] {
			t.Errorf("docker.%s has no row in dockerKeys", key)
		}
	}
	for key := range rows {
		if keys[key] == nil {
			t.Errorf("dockerKeys has %s, which the schema does not know", key)
		}
	}
}

// boxesOf inspects the box that each job's step had; the boxes are kept ones.
func (r result) boxesOf(t *testing.T, e engine) map[string]seenBox {
	t.Helper()
	boxes := map[string]seenBox{}
	for _, started := range r.events {
		if started.Type == event.BoxStarted {
			c, _ := e.inspect(t, started.Box.ID)
			boxes[started.Job] = seenBox{c, r.output(started.Job, "s")}
		}
	}
	return boxes
}

// variants are the agent image under three names with a label each.
func (e engine) variants(t *testing.T) levels {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made, err := e.ContainerCreate(ctx, &container.Config{Image: agentImage, Cmd: []string{"true"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	var names levels
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := e.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
		for _, name := range names {
			if _, err := e.ImageRemove(ctx, name, image.RemoveOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	for i, level := range []string{"defaults", "job", "step"} {
		names[i] = "herd-test/" + level + ":" + made.ID[:12]
		if _, err := e.ContainerCommit(ctx, made.ID, container.CommitOptions{Reference: names[i], Changes: []string{"LABEL herd-test.image=" + names[i]}}); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestKeptAtEveryLevel: DOCKER-09: ephemeral, max-containers and reuse at each
// level, seen by what is there after four runs.
func TestKeptAtEveryLevel(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	file := filepath.Join(t.TempDir(), "flow.yml")
	write(t, file, `
on: workflow_dispatch
defaults: {docker: {network: none, memory: 128m, ephemeral: false, max-containers: 1}}
jobs:
  kept-1:   {steps: [{run: "true"}]}
  kept-2:   {docker: {max-containers: 2}, steps: [{run: "true"}]}
  kept-3:   {docker: {max-containers: 2}, steps: [{run: "true", docker: {max-containers: 3}}]}
  gone:     {docker: {ephemeral: true}, steps: [{run: "true"}]}
  kept-one: {docker: {ephemeral: true}, steps: [{run: "true", docker: {ephemeral: false}}]}
  reused:   {docker: {reuse: true}, steps: [{run: "true"}]}
  kept-new: {docker: {reuse: true}, steps: [{run: "true", docker: {reuse: false}}]}
`)
	for range 4 {
		m.call(t, "run", "--json", "-C", dir, file).wantCode(t, 0)
	}
	got := map[string]string{}
	for _, b := range m.boxList(t) {
		got[b.Job] += b.State + " "
	}
	want := map[string]string{
		"kept-1": "kept ", "kept-2": "kept kept ", "kept-3": "kept kept kept ", "kept-one": "kept ", "reused": "reused ", "kept-new": "kept ",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	m.call(t, "box", "rm", "--all").wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}
