package docker

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/sandbox"
)

var update = flag.Bool("update", false, "write the golden files")

var testPlace = place{runner: "/opt/herd-runner", image: "sha256:1", host: "host1", lease: "lease1", bridge: sharedBridge}

func TestPlan(t *testing.T) {
	for name, tc := range map[string]struct {
		spec sandbox.Spec
		at   place
	}{
		"defaults": {sandbox.Spec{Image: "img"}, testPlace},
		"closed": {
			sandbox.Spec{Image: "img", Network: sandbox.Network{Mode: "none"}},
			place{runner: "/opt/herd-runner", hosts: "/opt/hosts", image: "sha256:1", host: "host1", lease: "lease1", bridge: sharedBridge},
		},
		"full": {sandbox.Spec{
			Run: "r", Job: "j", Step: "s", Image: "img", Memory: 512 << 20, CPUs: 1.5, CPUShares: 512,
			PidsLimit: 99, ShmSize: 1 << 20, Ulimits: []sandbox.Ulimit{{Name: "nofile", Soft: 10, Hard: 20}},
			Network: sandbox.Network{Mode: "bridge"}, User: "1234:5678",
			Mounts: []sandbox.Mount{
				{Source: "/src", Target: "/w"}, {Source: "/ro", Target: "/ro", ReadOnly: true}, {Target: "/w/.herd"},
			},
			Tmpfs:  []sandbox.Tmpfs{{Target: "/cache", Size: 4096}, {Target: "/x", Size: 8192, Exec: true}},
			Labels: map[string]string{"team": "a", "herd-runner": "0", "herd-runner.host": "forged"},
			Env:    map[string]string{"TOKEN": "never-in-inspect"},
			Ports:  []string{"8080:80"}, OCIRuntime: "runsc", Keep: true,
		}, testPlace},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan(tc.spec, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.MarshalIndent(got, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "plan-"+name+".json")
			if *update {
				if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(b)+"\n"); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(string(b), "never-in-inspect") {
				t.Error("the environment is visible in docker inspect")
			}
		})
	}
}

// TestEveryPlanIsHard asserts THREATS 9 on plans, whatever a spec overrides.
func TestEveryPlanIsHard(t *testing.T) {
	for _, s := range []sandbox.Spec{
		{}, {WritableRoot: true}, {User: "7:7"}, {Network: sandbox.Network{Mode: "none"}},
		{Network: sandbox.Network{Mode: "host"}}, {Memory: 1 << 30, PidsLimit: 9}, {Keep: true},
		{Tmpfs: []sandbox.Tmpfs{{Target: "/t", Size: 1, Exec: true}}, Labels: map[string]string{"a": "b"}},
		{HostConfig: json.RawMessage(`{"CpuShares": 2}`)},
	} {
		r, err := plan(s, testPlace)
		if err != nil {
			t.Fatal(err)
		}
		h := r.Host
		if strings.HasPrefix(r.Config.User, "0") || strings.HasSuffix(r.Config.User, ":0") ||
			len(h.CapDrop) != 1 || h.CapDrop[0] != "ALL" || len(h.CapAdd) != 0 ||
			len(h.SecurityOpt) != 1 || h.SecurityOpt[0] != "no-new-privileges:true" ||
			h.ReadonlyRootfs == s.WritableRoot || h.Memory <= 0 || h.Memory != h.MemorySwap ||
			h.PidsLimit == nil || *h.PidsLimit <= 0 || h.PidMode != "" || h.IpcMode != container.IPCModePrivate ||
			h.UTSMode != "" || h.UsernsMode != "" || h.Privileged || len(h.Devices) != 0 ||
			h.LogConfig.Type != "none" || len(h.Binds) != 0 || h.MaskedPaths != nil || h.ReadonlyPaths != nil {
			t.Errorf("%+v gave %+v", s, h)
		}
		for target, options := range h.Tmpfs {
			for _, want := range []string{"nosuid", "nodev", "size="} {
				if !strings.Contains(options, want) {
					t.Errorf("tmpfs %s lacks %s: %s", target, want, options)
				}
			}
		}
	}
}

// THREATS 9.
func TestPlanRefuses(t *testing.T) {
	for want, s := range map[string]sandbox.Spec{
		"is root":                  {User: "0:0"},
		"\"1000:0\" is root":       {User: "1000:0"},
		"expected numbers":         {User: "root"},
		"is not known":             {Network: sandbox.Network{Mode: "hots"}},
		"ports need network":       {Network: sandbox.Network{Mode: "none"}, Ports: []string{"80"}},
		"must not be negative":     {Memory: -1},
		"mount target \"/\"":       {Mounts: []sandbox.Mount{{Source: "/x", Target: "/"}}},
		"mount target \"/a/../b\"": {Mounts: []sandbox.Mount{{Source: "/x", Target: "/a/../b"}}},
		"mount target \"/.herd-r":  {Mounts: []sandbox.Mount{{Source: "/x", Target: runnerPath}}},
		"mount source \"x\"":       {Mounts: []sandbox.Mount{{Source: "x", Target: "/x"}}},
		"tmpfs \"t\"":              {Tmpfs: []sandbox.Tmpfs{{Target: "t", Size: 1}}},
		"host-config":              {HostConfig: json.RawMessage(`{"NoSuchKey": 1}`)},
	} {
		_, err := plan(s, testPlace)
		var serr *sandbox.Error
		if !errors.As(err, &serr) || serr.Kind != sandbox.KindConfig || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestRootIsAllowedInWords(t *testing.T) {
	r, err := plan(sandbox.Spec{User: "0:0", AllowRoot: true}, testPlace)
	if err != nil || r.Config.User != "0:0" {
		t.Errorf("got %v, %v", r.Config, err)
	}
}

// THREATS 9.
func TestWeakened(t *testing.T) {
	good := func() (request, container.InspectResponse) {
		r, err := plan(sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/ro", Target: "/ro", ReadOnly: true}}}, testPlace)
		if err != nil {
			t.Fatal(err)
		}
		r2, _ := plan(sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/ro", Target: "/ro", ReadOnly: true}}}, testPlace)
		return r, container.InspectResponse{
			ContainerJSONBase: &container.ContainerJSONBase{HostConfig: r2.Host}, Config: r2.Config,
			Mounts: []container.MountPoint{{Destination: runnerPath}, {Destination: "/ro"}},
		}
	}
	if r, got := good(); len(weakened(r, got)) != 0 {
		t.Errorf("the same is called weaker: %v", weakened(r, got))
	}
	r, got := good()
	r.Host.Privileged, got.HostConfig.Privileged = true, true
	got.HostConfig.SecurityOpt = append(got.HostConfig.SecurityOpt, "label=disable")
	if bad := weakened(r, got); len(bad) != 0 {
		t.Errorf("privileged, and so without SELinux: %v", bad)
	}
	if r, _ := good(); len(weakened(r, container.InspectResponse{})) == 0 {
		t.Error("an empty answer passed")
	}
	for what, change := range map[string]func(*container.InspectResponse){
		"user":                 func(g *container.InspectResponse) { g.Config.User = "" },
		"privileged":           func(g *container.InspectResponse) { g.HostConfig.Privileged = true },
		"read-only root":       func(g *container.InspectResponse) { g.HostConfig.ReadonlyRootfs = false },
		"dropped capabilities": func(g *container.InspectResponse) { g.HostConfig.CapDrop = nil },
		"added capabilities":   func(g *container.InspectResponse) { g.HostConfig.CapAdd = []string{"SYS_ADMIN"} },
		"security options is l": func(g *container.InspectResponse) {
			g.HostConfig.SecurityOpt = append(g.HostConfig.SecurityOpt, "label=disable")
		},
		"security options":     func(g *container.InspectResponse) { g.HostConfig.SecurityOpt = []string{"seccomp=unconfined"} },
		"memory":               func(g *container.InspectResponse) { g.HostConfig.Memory = 0 },
		"memory and swap":      func(g *container.InspectResponse) { g.HostConfig.MemorySwap = -1 },
		"pids limit":           func(g *container.InspectResponse) { g.HostConfig.PidsLimit = nil },
		"network mode":         func(g *container.InspectResponse) { g.HostConfig.NetworkMode = "host" },
		"pid namespace":        func(g *container.InspectResponse) { g.HostConfig.PidMode = "host" },
		"ipc namespace":        func(g *container.InspectResponse) { g.HostConfig.IpcMode = "shareable" },
		"uts namespace":        func(g *container.InspectResponse) { g.HostConfig.UTSMode = "host" },
		"user namespace":       func(g *container.InspectResponse) { g.HostConfig.UsernsMode = "host" },
		"devices":              func(g *container.InspectResponse) { g.HostConfig.Devices = make([]container.DeviceMapping, 1) },
		"tmpfs /tmp":           func(g *container.InspectResponse) { g.HostConfig.Tmpfs["/tmp"] = "" },
		"mount /ro writable":   func(g *container.InspectResponse) { g.Mounts[1].RW = true },
		"mount /ro is missing": func(g *container.InspectResponse) { g.Mounts = g.Mounts[:1] },
	} {
		r, got := good()
		change(&got)
		if bad := weakened(r, got); len(bad) == 0 || !strings.HasPrefix(bad[0], what) {
			t.Errorf("%s: got %v", what, bad)
		}
	}
}

// Who is not root can give HOME away to nobody.
func TestUsersThatCanNotHaveAHome(t *testing.T) {
	for _, tc := range []struct {
		user string
		me   int
		ok   bool
	}{
		{"", 1001, true}, // the project's owner, whom the workspace checks
		{"1001:50", 1001, true},
		{"2000:2000", 0, true},
		{"0:0", 1001, true},
		{"2000:2000", 1001, false},
		{"2000:1001", 1001, false},
	} {
		err := foreign(sandbox.Spec{User: tc.user, AllowRoot: true}, tc.me)
		if (err == nil) != tc.ok {
			t.Errorf("user %q, run by %d: %v", tc.user, tc.me, err)
		}
	}
}
