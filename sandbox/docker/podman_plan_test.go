package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/herd-runner/herd-runner/sandbox"
)

var podmanSpec = sandbox.Spec{
	Network: sandbox.Network{Mode: "bridge"},
	Mounts:  []sandbox.Mount{{Source: "/ro,1", Target: "/ro", ReadOnly: true}, {Target: "/ro/mask"}},
}

func TestToPodman(t *testing.T) {
	r, err := plan(podmanSpec, testPlace)
	if err != nil {
		t.Fatal(err)
	}
	before := r.Host.Tmpfs["/run"]
	sent, err := toPodman(r, "/profile.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sent.Host.Binds, " "); got != "/opt/herd-runner:/.herd-runner:ro,rprivate /ro,1:/ro:ro,rprivate" || len(sent.Host.Mounts) > 0 {
		t.Errorf("binds are %s", got)
	}
	for target, want := range map[string]string{
		"/run":     "rw,nosuid,nodev,noexec,size=16777216,mode=1777,notmpcopyup",
		"/ro/mask": "ro,nosuid,nodev,noexec,mode=555,size=4096,notmpcopyup",
		"/var/tmp": "ro,nosuid,nodev,noexec,mode=555,size=4096,notmpcopyup",
	} {
		if sent.Host.Tmpfs[target] != want {
			t.Errorf("%s has %s", target, sent.Host.Tmpfs[target])
		}
	}
	if got := strings.Join(sent.Host.SecurityOpt, " "); got != "no-new-privileges:true seccomp=/profile.json" {
		t.Errorf("security options are %s", got)
	}
	if len(r.Host.Binds) > 0 || r.Host.Tmpfs["/run"] != before || len(r.Host.SecurityOpt) != 1 {
		t.Error("the plan itself has changed")
	}
	var serr *sandbox.Error
	r, _ = plan(sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/a:b", Target: "/b"}}}, testPlace)
	if _, err := toPodman(r, ""); !errors.As(err, &serr) || !strings.Contains(err.Error(), "colon") {
		t.Errorf("got %v", err)
	}
}

// TestWeakenedByPodman: what podman spells otherwise is no difference, what it
// does otherwise is one.
func TestWeakenedByPodman(t *testing.T) {
	good := func() (asked, sent request, got container.InspectResponse) {
		asked, err := plan(podmanSpec, testPlace)
		if err != nil {
			t.Fatal(err)
		}
		if sent, err = toPodman(asked, "/profile.json"); err != nil {
			t.Fatal(err)
		}
		h := *sent.Host
		h.CapDrop, h.IpcMode, h.PidMode, h.UTSMode, h.NetworkMode = []string{"CHOWN", "SETUID"}, "shareable", "private", "private", "bridge"
		h.SecurityOpt = []string{"no-new-privileges", "seccomp=/profile.json"}
		h.Tmpfs = map[string]string{}
		for target, options := range sent.Host.Tmpfs {
			h.Tmpfs[target] = strings.Replace(options, "notmpcopyup", "rprivate", 1)
		}
		return asked, sent, container.InspectResponse{
			ContainerJSONBase: &container.ContainerJSONBase{HostConfig: &h}, Config: asked.Config,
			Mounts:          []container.MountPoint{{Destination: runnerPath}, {Destination: "/ro"}},
			NetworkSettings: &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{sharedBridge: {}}},
		}
	}
	asked, sent, got := good()
	if bad := weakened(asked, fromPodman(asked, sent, got)); len(bad) > 0 {
		t.Errorf("the same is called weaker: %v", bad)
	}
	for what, change := range map[string]func(*container.InspectResponse){
		"privileged":           func(g *container.InspectResponse) { g.HostConfig.Privileged = true },
		"read-only root":       func(g *container.InspectResponse) { g.HostConfig.ReadonlyRootfs = false },
		"dropped capabilities": func(g *container.InspectResponse) { g.HostConfig.CapDrop = nil },
		"added capabilities":   func(g *container.InspectResponse) { g.HostConfig.CapAdd = []string{"SYS_ADMIN"} },
		"security options":     func(g *container.InspectResponse) { g.HostConfig.SecurityOpt = []string{"no-new-privileges"} },
		"memory and swap":      func(g *container.InspectResponse) { g.HostConfig.MemorySwap = 0 },
		"network mode":         func(g *container.InspectResponse) { g.NetworkSettings.Networks["podman"] = nil },
		"pid namespace":        func(g *container.InspectResponse) { g.HostConfig.PidMode = "host" },
		"ipc namespace":        func(g *container.InspectResponse) { g.HostConfig.IpcMode = "host" },
		"uts namespace":        func(g *container.InspectResponse) { g.HostConfig.UTSMode = "host" },
		"bind mounts":          func(g *container.InspectResponse) { g.HostConfig.Binds = append(g.HostConfig.Binds, "/:/host:rw") },
		"tmpfs /ro/mask":       func(g *container.InspectResponse) { g.HostConfig.Tmpfs["/ro/mask"] += ",tmpcopyup" },
		"tmpfs /tmp":           func(g *container.InspectResponse) { g.HostConfig.Tmpfs["/tmp"] = "rw" },
		"mount /ro writable":   func(g *container.InspectResponse) { g.Mounts[1].RW = true },
	} {
		asked, sent, got := good()
		change(&got)
		if bad := weakened(asked, fromPodman(asked, sent, got)); len(bad) == 0 || !strings.HasPrefix(bad[0], what) {
			t.Errorf("%s: got %v", what, bad)
		}
	}
}
