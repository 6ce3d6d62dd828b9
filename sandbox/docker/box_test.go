package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

func startBox(t testing.TB, b *docker.Backend, change ...func(*sandbox.Spec)) sandbox.Box {
	t.Helper()
	spec := testSpec(t)
	for _, c := range change {
		c(&spec)
	}
	x, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := x.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return x
}

func output(t testing.TB, x sandbox.Box, script string) string {
	t.Helper()
	var out bytes.Buffer
	_, err := x.Exec(t.Context(), sandbox.Process{
		Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/bin"}, Stdout: &out, Stderr: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestInspectShowsTheHardening is THREATS 9, from the engine's own mouth.
func TestInspectShowsTheHardening(t *testing.T) {
	b := open(t)
	for name, change := range map[string]func(*sandbox.Spec){
		"none":   func(s *sandbox.Spec) {},
		"bridge": func(s *sandbox.Spec) { s.Network.Mode = "bridge" },
		"limits": func(s *sandbox.Spec) { s.Memory, s.PidsLimit, s.CPUs = 128<<20, 64, 0.5 },
	} {
		t.Run(name, func(t *testing.T) {
			x := startBox(t, b, change, func(s *sandbox.Spec) { s.Env = map[string]string{"SOME_KEY": "some-value"} })
			got, err := engine(t).api.ContainerInspect(t.Context(), x.Info().ID)
			if err != nil {
				t.Fatal(err)
			}
			h := got.HostConfig
			options, none := strings.Join(h.SecurityOpt, ","), ""
			secure := options == "no-new-privileges:true" && h.IpcMode == "private" && strings.Join(h.CapDrop, ",") == "ALL"
			if b.Engine() == "podman" { // other words for the same
				none = "private"
				secure = strings.HasPrefix(options, "no-new-privileges,seccomp=/") && h.IpcMode == "shareable" && slices.Contains(h.CapDrop, "SETUID")
			}
			if got.Config.User != "1000:1000" || !secure || len(h.CapAdd) > 0 ||
				!h.ReadonlyRootfs ||
				h.Memory == 0 || h.Memory != h.MemorySwap || h.PidsLimit == nil || *h.PidsLimit == 0 ||
				string(h.PidMode) != none || string(h.UTSMode) != none || h.UsernsMode != "" ||
				len(h.Devices) > 0 || h.Privileged || h.LogConfig.Type != "none" {
				t.Errorf("%+v", h)
			}
			if all, _ := json.Marshal(got); bytes.Contains(all, []byte("some-value")) {
				t.Error("the environment is visible in docker inspect")
			}
			status := output(t, x, "cat /proc/self/status")
			for _, want := range []string{"Uid:\t1000\t1000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
				if !strings.Contains(status, want) {
					t.Errorf("no %q in\n%s", want, status)
				}
			}
			if out := output(t, x, "unshare -U true 2>&1; echo rc=$?"); strings.Contains(out, "rc=0") {
				t.Error("a program makes a user namespace")
			}
			if out := output(t, x, "touch /here /bin/x /etc/x 2>&1; mount -t tmpfs x /tmp 2>&1; cat /proc/mounts"); strings.Count(out, "Read-only file system") != 3 ||
				!strings.Contains(out, "tmpfs /tmp tmpfs rw,nosuid,nodev") || strings.Count(out, "denied")+strings.Count(out, "permitted") == 0 {
				t.Errorf("got\n%s", out)
			}
		})
	}
}

// TestTheGuestIsOutOfReach: the agent has the guest's uid.
func TestTheGuestIsOutOfReach(t *testing.T) {
	x := startBox(t, open(t))
	for _, try := range []string{
		"ls /proc/1/fd/0", "cat /proc/1/environ", "cat /proc/1/maps", "head -c 1 /proc/1/mem", "echo x >/proc/1/fd/1", "readlink /proc/1/exe",
		"echo 900 >/proc/1/oom_score_adj",
	} {
		if out := output(t, x, "("+try+") 2>&1; echo rc=$?"); strings.Contains(out, "rc=0") {
			t.Errorf("%s: got %q", try, out)
		}
	}
	for _, sig := range []string{"HUP", "INT", "QUIT", "TERM", "USR1", "KILL", "STOP", "PIPE"} {
		_ = output(t, x, "kill -"+sig+" 1")
	}
	if out := output(t, x, "echo $$ alive"); !strings.Contains(out, "alive") {
		t.Errorf("got %q", out)
	}
	if out := output(t, x, "cat /proc/self/oom_score_adj"); out != "500\n" {
		t.Errorf("a child's oom_score_adj is %q", out)
	}
}

func TestZombiesAreReaped(t *testing.T) {
	x := startBox(t, open(t), func(s *sandbox.Spec) { s.PidsLimit = 64 })
	// 300 orphans in a box of 64: each must be gone before the limit.
	out := output(t, x, "i=0; while [ $i -lt 300 ]; do (sh -c 'true &'); i=$((i+1)); done; echo done; sleep 0.1; ps -o stat | grep -c Z")
	if !strings.HasPrefix(out, "done\n") || strings.Contains(out, "fork") {
		t.Errorf("got %q", out)
	}
}

func TestABoxThatDiesIsABoxError(t *testing.T) {
	b := open(t)
	x := startBox(t, b)
	up := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := x.Exec(t.Context(), sandbox.Process{
			Argv: []string{"/bin/sh", "-c", "echo up; sleep 600"},
			Stdout: writerFunc(func(b []byte) (int, error) {
				close(up)
				return len(b), nil
			}),
		})
		done <- err
	}()
	<-up
	if err := engine(t).api.ContainerKill(t.Context(), x.Info().ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		var serr *sandbox.Error
		if !errors.As(err, &serr) || serr.Kind != sandbox.KindBox || !strings.Contains(err.Error(), "137") {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("exec did not return")
	}
	if _, err := x.Exec(t.Context(), sandbox.Process{Argv: []string{"/bin/true"}}); err == nil {
		t.Error("a dead box ran a process")
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestMasksAndReadOnlyMounts(t *testing.T) {
	x := startBox(t, open(t), func(s *sandbox.Spec) {
		src := s.Mounts[0].Source
		if err := os.MkdirAll(src+"/ws/.herd/runs", 0o755); err != nil {
			t.Fatal(err)
		}
		s.Mounts = append(s.Mounts, sandbox.Mount{Target: "/work/ws/.herd"}, sandbox.Mount{Source: src, Target: "/work/ro", ReadOnly: true})
		if err := os.MkdirAll(src+"/ro", 0o755); err != nil {
			t.Fatal(err)
		}
	})
	out := output(t, x, "ls -A .herd; touch .herd/x; touch /work/ro/ws/x; rmdir .herd; mv .herd y")
	if strings.Contains(out, "runs") || strings.Count(out, "Read-only") != 2 || strings.Count(out, "busy")+strings.Count(out, "Read-only")+strings.Count(out, "denied") < 4 {
		t.Errorf("got %s", out)
	}
}

// docker.user may be another than the one that the directories were made for.
func TestTheBoxsUserHasItsHome(t *testing.T) {
	spec := testSpec(t)
	dir := spec.Mounts[0].Source
	spec.User, spec.Home, spec.Temp = "2000:2001", "/home", "/herd-temp"
	for target, name := range map[string]string{"/home": "ws", "/herd-temp": "temp"} {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: filepath.Join(dir, name), Target: target})
	}
	_, out := use(t, open(t), spec, `touch /home/x /herd-temp/x && stat -c %u:%g /home /herd-temp/x`)
	if want := "2000:2001\n2000:2001\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestNothingIsLeft(t *testing.T) {
	m := engine(t)
	b, err := docker.Open(t.Context(), docker.Options{Runner: m.guest, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	spec := testSpec(t)
	spec.Labels = map[string]string{"herd-test": t.Name()}
	for range 3 {
		x, err := b.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Start(t.Context(), spec); err != nil { // left to Close
		t.Fatal(err)
	}
	box := labelled(t, "herd-test="+t.Name())
	if len(box) != 1 {
		t.Fatalf("%d boxes", len(box))
	}
	lease := "herd-runner.lease=" + box[0].Labels["herd-runner.lease"]
	closeBackend(t, b)
	eventually(t, "every container is gone", func() bool { return len(labelled(t, lease)) == 0 })
	if _, err := b.Start(t.Context(), spec); err == nil {
		t.Error("a closed backend started a box")
	}
}

// A closed box has a network of its own, with loopback alone, and knows its name.
// THREATS 8.
func TestClosedBoxesHaveLoopbackAlone(t *testing.T) {
	b := open(t)
	one, two := startBox(t, b), startBox(t, b)
	const look = "readlink /proc/self/ns/net; cat /proc/net/route /proc/net/ipv6_route | grep -v -e Iface -e ' lo$'; tail -n +3 /proc/net/dev | cut -d: -f1; grep -w localhost /etc/hosts | head -n 1"
	ns, seen, _ := strings.Cut(output(t, one, look), "\n")
	otherNS, _, _ := strings.Cut(output(t, two, look), "\n")
	mine, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if ns == otherNS || ns == mine || otherNS == mine {
		t.Errorf("the boxes are in %s and %s, this test in %s", ns, otherNS, mine)
	}
	if strings.Join(strings.Fields(seen), " ") != "lo 127.0.0.1 localhost" {
		t.Errorf("got %q", seen)
	}
}

// TestBridgeBoxesDoNotReachEachOther is THREATS 8 for boxes with a network.
func TestBridgeBoxesDoNotReachEachOther(t *testing.T) {
	b := open(t)
	bridge := func(s *sandbox.Spec) { s.Network.Mode = "" }
	one, two := startBox(t, b, bridge), startBox(t, b, bridge)
	if b.Engine() == "docker" {
		got, err := engine(t).api.NetworkInspect(t.Context(), "herd-runner", network.InspectOptions{})
		if err != nil || got.Options["com.docker.network.bridge.enable_icc"] != "false" || got.Labels["herd-runner"] != "1" {
			t.Errorf("network is %+v, %v", got, err)
		}
	}
	ip := strings.TrimSpace(output(t, one, "hostname -i"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = one.Exec(ctx, sandbox.Process{Argv: []string{"/bin/nc", "-ll", "-p", "9999", "-e", "/bin/true"}})
	}()
	eventually(t, "one listens", func() bool { return strings.Contains(output(t, one, "netstat -ltn"), ":9999") })
	if out := output(t, one, "nc -w 2 "+ip+" 9999 </dev/null; echo rc=$?"); !strings.Contains(out, "rc=0") {
		t.Fatalf("box one does not reach itself at %s: %q", ip, out)
	}
	if out := output(t, two, "nc -w 2 "+ip+" 9999 </dev/null; echo rc=$?"); strings.Contains(out, "rc=0") {
		t.Errorf("box two reached box one at %s: %q", ip, out)
	}
}

func TestKeptBoxesAreStoppedAndBounded(t *testing.T) {
	b := open(t)
	m := engine(t)
	step := "keep-" + strings.ToLower(strings.ReplaceAll(t.TempDir(), "/", "-"))
	var ids []string
	for range 4 {
		spec := testSpec(t)
		spec.Step, spec.Keep, spec.MaxContainers = step, true, 2
		x, err := b.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, x.Info().ID)
		if err := x.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, id := range ids {
			_ = m.api.ContainerRemove(context.Background(), id, container.RemoveOptions{Force: true})
		}
	})
	kept := labelled(t, "herd-runner.step="+step)
	if len(kept) != 2 {
		t.Fatalf("%d are kept", len(kept))
	}
	for _, c := range kept {
		if !ended(c) || (c.ID != ids[2] && c.ID != ids[3]) {
			t.Errorf("kept: %s %s", c.ID, c.State)
		}
	}
}

const childEnv = "HERD_TEST_RUNNER_STATE"

// TestRunnerToBeKilled is no test of its own: TestOrphans starts it.
func TestRunnerToBeKilled(t *testing.T) {
	state := os.Getenv(childEnv)
	if state == "" {
		return
	}
	b := open(t, func(o *docker.Options) { o.StateDir = state })
	x := startBox(t, b)
	_, _ = x.Exec(t.Context(), sandbox.Process{
		Argv: []string{"/bin/sh", "-c", "(setsid sleep 4242 &); echo up; sleep 4242"}, Stdout: os.Stdout,
	})
}

// TestOrphans: a runner is killed; its box ends by itself, and the next runner
// removes what is left of it, and only that.
// THREATS 13.
func TestOrphans(t *testing.T) {
	state := t.TempDir()
	other := open(t, func(o *docker.Options) { o.StateDir = state })
	alive := startBox(t, other)
	foreign := startBox(t, open(t)) // another machine's: another host id

	cmd := exec.Command(os.Args[0], "-test.run=^TestRunnerToBeKilled$")
	cmd.Env = append(os.Environ(), childEnv+"="+state)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	host := "herd-runner.host=" + hostOf(t, alive)
	before := labelled(t, host, "herd-runner.role=box")
	if len(before) != 2 {
		t.Fatalf("%d boxes", len(before))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the orphan ends by itself", func() bool {
		running := 0
		for _, c := range labelled(t, host, "herd-runner.role=box") {
			if c.State == "running" {
				running++
			}
		}
		return running == 1
	})
	open(t, func(o *docker.Options) { o.StateDir = state })
	eventually(t, "the orphan is removed", func() bool { return len(labelled(t, host)) == 1 })
	for _, x := range []sandbox.Box{alive, foreign} {
		if out := output(t, x, "echo alive"); out != "alive\n" {
			t.Errorf("got %q", out)
		}
	}
}

func hostOf(t *testing.T, x sandbox.Box) string {
	t.Helper()
	got, err := engine(t).api.ContainerInspect(t.Context(), x.Info().ID)
	if err != nil {
		t.Fatal(err)
	}
	return got.Config.Labels["herd-runner.host"]
}

func TestErrorsSayWhatToDo(t *testing.T) {
	b := open(t)
	with := func(change func(*sandbox.Spec)) sandbox.Spec {
		s := testSpec(t)
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		spec sandbox.Spec
		kind sandbox.Kind
		hint string
	}{
		"agent image": {with(func(s *sandbox.Spec) { s.Image = "herd-runner/no-such" }), sandbox.KindImage, "build it"},
		"never":       {with(func(s *sandbox.Spec) { s.Image, s.Pull = "no.such.registry.invalid/x", "never" }), sandbox.KindImage, "image pull"},
		"image name":  {with(func(s *sandbox.Spec) { s.Image = "Not An Image" }), sandbox.KindConfig, ""},
		"source":      {with(func(s *sandbox.Spec) { s.Mounts[0].Source = "/no/such/dir" }), sandbox.KindAccess, ""},
		"network":     {with(func(s *sandbox.Spec) { s.Network.Mode = "hots" }), sandbox.KindConfig, ""},
	} {
		var serr *sandbox.Error
		if err := b.Preflight(t.Context(), []sandbox.Spec{tc.spec}); !errors.As(err, &serr) || serr.Kind != tc.kind || !strings.Contains(serr.Advice, tc.hint) {
			t.Errorf("preflight %s: got %v", name, err)
		}
		if x, err := b.Start(t.Context(), tc.spec); err == nil {
			_ = x.Close(t.Context())
			t.Errorf("start %s: no error", name)
		} else if !errors.As(err, &serr) {
			t.Errorf("start %s: %v", name, err)
		}
	}
	if err := b.Preflight(t.Context(), []sandbox.Spec{testSpec(t)}); err != nil {
		t.Error(err)
	}
	var serr *sandbox.Error
	unguarded := with(func(s *sandbox.Spec) { s.Network.Mode = "allow" })
	if _, err := b.Start(t.Context(), unguarded); !errors.As(err, &serr) || serr.Kind != sandbox.KindConfig {
		t.Errorf("an allow-list without its proxy: got %v", err)
	}
	pulled := with(func(s *sandbox.Spec) { s.Image = "127.0.0.1:1/none/such:1" })
	if _, err := b.Start(t.Context(), pulled); !errors.As(err, &serr) || serr.Kind != sandbox.KindImage {
		t.Errorf("pull: got %v", err)
	}
	_, err := docker.Open(t.Context(), docker.Options{Runner: engine(t).guest, StateDir: t.TempDir(), Host: "unix:///no/such/docker.sock"})
	if !errors.As(err, &serr) || serr.Kind != sandbox.KindEngine || !strings.Contains(serr.Advice, "DOCKER_HOST") {
		t.Errorf("no engine: got %v", err)
	}
}

func TestInfoAndHasImage(t *testing.T) {
	b := open(t)
	i, err := b.Info(t.Context())
	if err != nil || i.Version == "" || i.Memory == 0 || !strings.Contains(i.String(), "seccomp") {
		t.Errorf("got %+v, %v", i, err)
	}
	if id, ok, err := b.HasImage(t.Context(), testImage); err != nil || !ok || !strings.HasPrefix(id, "sha256:") {
		t.Errorf("got %q %v %v", id, ok, err)
	}
	if _, ok, err := b.HasImage(t.Context(), "herd-test/none"); err != nil || ok {
		t.Errorf("got %v %v", ok, err)
	}
	x := startBox(t, b)
	if env := x.Info().Env; env["FROM_IMAGE"] != "yes" || env["PATH"] != "/usr/local/bin:/bin" {
		t.Errorf("image env: %v", env)
	}
}
