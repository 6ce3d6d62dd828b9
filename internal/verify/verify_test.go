package verify

import (
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Each attack is something that can be tried, and nothing else is there.
func TestAttacksHaveProbes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("boxes are Linux")
	}
	used := map[string]bool{"survivors": true}
	for _, a := range Attacks() {
		name := a.Name
		if a.probe != "" {
			name = a.probe
		}
		_, probe := probes()[name]
		_, servant := servants()[name]
		if !probe && !servant {
			t.Errorf("%s: nothing tries it", a.Name)
		}
		if used[name] || len(a.Threats) == 0 || a.Expected == "" {
			t.Errorf("%s: twice, or of no threat, or without an expectation", a.Name)
		}
		used[name] = true
	}
	for name := range probes() {
		if !used[name] {
			t.Errorf("%s is no attack", name)
		}
	}
}

// What needs no box to be seen as a hole: this process is in none.
func TestProbesOutsideOfABox(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("boxes are Linux")
	}
	f := facts{Runner: "/.herd-runner", Namespaces: ownNamespaces()}
	for _, name := range []string{"processes", "host-namespaces", "mount-points"} {
		if got := probes()[name](f); !got.Hole {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// A credential is found without being told, and nothing else is taken for one.
func TestKeysAreFoundByTheirDigest(t *testing.T) {
	const key = "sk-ant-api03-0123456789abcdef"
	t.Setenv("HERD_VERIFY_KEY", key) // seen by child processes only
	f := facts{Salt: "salt", Digests: []string{digest("salt", key)}, Home: t.TempDir()}
	for text, want := range map[string]bool{
		key: true, "A=" + key: true, `{"key": "` + key + `"}`: true, "x\n" + key + "\n": true, key + "0": false, key[1:]: false, "": false,
	} {
		if got := reveals(f, []byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if err := os.WriteFile(f.Home+"/.netrc", []byte("password "+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := keysInFiles(f); !got.Hole {
		t.Errorf("in a file: %+v", got)
	}
}

func TestWhatOpensAnAttack(t *testing.T) {
	for _, tc := range []struct {
		attack, want string
		spec         sandbox.Spec
	}{
		{"interfaces", "network: bridge", sandbox.Spec{}},
		{"interfaces", "", sandbox.Spec{Network: sandbox.Network{Mode: "none"}}},
		{"host-loopback", "", sandbox.Spec{}},
		{"host-loopback", "policy: network-host", sandbox.Spec{Network: sandbox.Network{Mode: "host"}}},
		{"user", "policy: root", sandbox.Spec{User: "0:0", AllowRoot: true}},
		{"user", "", sandbox.Spec{User: "1000:1000", AllowRoot: true}},
		{"capabilities", "policy: privileged", sandbox.Spec{Privileged: true}},
		{"root-file-system", "read-only: false", sandbox.Spec{WritableRoot: true}},
		{"memory", "policy: host-config", sandbox.Spec{HostConfig: []byte("{}")}},
	} {
		i := slices.IndexFunc(Attacks(), func(a Attack) bool { return a.Name == tc.attack })
		if got := Attacks()[i].opened(Target{Spec: tc.spec}); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.attack, got, tc.want)
		}
	}
}
