// Package verify attacks boxes. It starts boxes as a configuration asks for them,
// runs what an untrusted program in them could try, and tells what came of it:
// the list of attacks is in Attacks, what is tried in the box in the probe_*
// files, which the executable of process 1 does there, so that no tool of the
// image is needed.
package verify

import (
	"strings"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Verdict is what came of an attack.
type Verdict string

// The verdicts.
const (
	Held Verdict = "held" // the box kept what it promises
	Hole Verdict = "HOLE" // the attack worked
	// Open: it worked, because the workflow asked for that and may.
	Open Verdict = "open"
	// Unchecked: it could not be tried, or not seen what came of it.
	Unchecked Verdict = "unchecked"
)

// Attack is one thing that is tried.
type Attack struct {
	Name     string
	Threats  []int // that it is about, see Threats
	Expected string

	// room is where it is tried.
	room room
	// probe is what the program in the box tries; "": Name.
	probe string
	// openedBy are the openings that make its success no hole.
	openedBy []opening
	// only says for which boxes it is meant; nil: for all.
	only func(t Target) bool
}

// room is where an attack takes place.
type room int

const (
	inBox    room = iota // as the step would find it
	smallBox             // the same with little memory: exhaustion is for the box, not for the machine
	outside              // between the box and what the runner does with what comes from it
	after                // in the box; what came of it is seen when it is gone
)

// opening is something in a box's configuration that takes protection away.
type opening struct {
	words string // of the docker: block
	is    func(s sandbox.Spec) bool
}

// Openings by the operator's word, and by what a workflow may choose.
var (
	privileged  = opening{"policy: privileged", func(s sandbox.Spec) bool { return s.Privileged }}
	hostConfig  = opening{"policy: host-config", func(s sandbox.Spec) bool { return len(s.HostConfig) > 0 }}
	asRoot      = opening{"policy: root", func(s sandbox.Spec) bool { return s.AllowRoot && isRoot(s.User) }}
	hostNetwork = opening{"policy: network-host", func(s sandbox.Spec) bool { return s.Network.Mode == "host" }}
	bridge      = opening{"network: bridge", func(s sandbox.Spec) bool { return s.Network.Mode == "bridge" || s.Network.Mode == "" }}
	writable    = opening{"read-only: false", func(s sandbox.Spec) bool { return s.WritableRoot }}
	otherKernel = opening{"oci-runtime", func(s sandbox.Spec) bool { return s.OCIRuntime != "" && s.OCIRuntime != "runc" }}
)

func isRoot(user string) bool {
	uid, gid, _ := strings.Cut(user, ":")
	return uid == "0" || gid == "0"
}

// opened names what in the box's configuration lets the attack through.
func (a Attack) opened(t Target) string {
	for _, o := range append([]opening{privileged, hostConfig}, a.openedBy...) {
		if o.is(t.Spec) {
			return o.words
		}
	}
	return ""
}

// Attacks are all there are, in the order in which they are tried.
func Attacks() []Attack {
	return []Attack{
		{Name: "keys-in-environments", Threats: []int{1, 2}, Expected: "no real credential in any environment or command line of the box"},
		{Name: "keys-in-files", Threats: []int{1, 2}, Expected: "no real credential in the box's files"},
		{Name: "user", Threats: []int{9}, Expected: "not root, by user or group, and no way to become it", openedBy: []opening{asRoot}},
		{Name: "capabilities", Threats: []int{9}, Expected: "none, and what needs one is refused"},
		{Name: "no-new-privileges", Threats: []int{9}, Expected: "set: setuid programs give nothing"},
		{Name: "seccomp", Threats: []int{9}, Expected: "a filter is in force; bpf, modules, kexec and file handles are refused", openedBy: []opening{otherKernel}},
		{Name: "user-namespaces", Threats: []int{9}, Expected: "unshare and setns are refused", openedBy: []opening{otherKernel}},
		{Name: "keyring", Threats: []int{9}, Expected: "the kernel's keyrings are out of reach"},
		{Name: "host-namespaces", Threats: []int{9}, Expected: "no namespace of this machine", openedBy: []opening{hostNetwork}},
		{Name: "processes", Threats: []int{9, 12}, Expected: "only the box's own processes are seen"},
		{Name: "process-1", Threats: []int{2, 9}, Expected: "no tracing, no memory, files or environment of the guest"},
		{Name: "mount", Threats: []int{9}, Expected: "mounting, remounting and unmounting are refused", openedBy: []opening{otherKernel}},
		{Name: "mount-points", Threats: []int{8, 9, 10}, Expected: "nothing is mounted but what was asked for"},
		{Name: "tmpfs", Threats: []int{9}, Expected: "/tmp and /run: nosuid, nodev, a size"},
		{Name: "root-file-system", Threats: []int{9}, Expected: "read-only", openedBy: []opening{writable}},
		{Name: "kernel-files", Threats: []int{9}, Expected: "nothing to write in /proc, /sys and control groups, no /proc/kcore", openedBy: []opening{asRoot, otherKernel}},
		{Name: "devices", Threats: []int{9}, Expected: "the standard pseudo-devices only, and none can be made"},
		{Name: "other-users-files", Threats: []int{10, 15}, Expected: "files beside the project cannot be found, also through links", openedBy: []opening{asRoot}},
		{Name: "read-only-workspace", Threats: []int{15}, Expected: "nothing can be written in the project", only: func(t Target) bool { return t.Workspace == ReadOnly }},
		{Name: "engine-socket", Threats: []int{8}, Expected: "no socket or address of a container engine"},
		{Name: "host-loopback", Threats: []int{8}, Expected: "this machine's 127.0.0.1 cannot be reached", openedBy: []opening{hostNetwork}},
		{Name: "other-boxes", Threats: []int{8, 14}, Expected: "another box cannot be reached, by address or abstract socket", openedBy: []opening{hostNetwork}},
		{Name: "interfaces", Threats: []int{5}, Expected: "loopback only, no route", openedBy: []opening{bridge, hostNetwork}},
		{Name: "addresses", Threats: []int{5}, Expected: "no packet leaves: TCP, UDP, ICMP, IPv6", openedBy: []opening{bridge, hostNetwork}},
		{Name: "metadata", Threats: []int{5, 7}, Expected: "169.254.169.254 cannot be reached", openedBy: []opening{bridge, hostNetwork}},
		{Name: "host-gateway", Threats: []int{8}, Expected: "the machine's side of the box's network cannot be reached", openedBy: []opening{bridge, hostNetwork}},
		{Name: "dns", Threats: []int{5}, Expected: "no name server answers", openedBy: []opening{bridge, hostNetwork}},
		{Name: "egress-proxy", Threats: []int{5, 6, 7}, Expected: "hosts that are not listed, private addresses and other ports are refused",
			only: func(t Target) bool { return t.Spec.Network.Mode == "allow" }},
		{Name: "gateway-without-token", Threats: []int{2, 8}, Expected: "refused, and nothing is forwarded", only: Target.hasGateway},
		{Name: "gateway-to-elsewhere", Threats: []int{4}, Expected: "other hosts, CONNECT and other paths are refused, and nothing is forwarded", only: Target.hasGateway},
		{Name: "fork-bomb", Threats: []int{11}, Expected: "stops at pids-limit", room: smallBox},
		{Name: "memory", Threats: []int{11}, Expected: "the box's limit ends it, without swap", room: smallBox},
		{Name: "tmpfs-fill", Threats: []int{11}, Expected: "ends at the size of /tmp", room: smallBox},
		{Name: "survivors", Threats: []int{12}, Expected: "a stop ends what has left its session, detached or stopped itself", room: outside, probe: "detached"},
		{Name: "endless-line", Threats: []int{18}, Expected: "64 MiB without a line end arrive whole, in pieces of at most 1 MiB", room: outside},
		{Name: "terminal-escapes", Threats: []int{18}, Expected: "nothing drives the terminal", room: outside},
		{Name: "collected-links", Threats: []int{16}, Expected: "what a step hands over is bounded and no device or pipe is read", room: outside},
		{Name: "git", Threats: []int{15}, Expected: "hooks, config, commondir and the directory itself are as before on this machine", room: after},
		{Name: "records", Threats: []int{15, 17}, Expected: ".herd cannot be read or changed", room: after},
		{Name: "links-left-behind", Threats: []int{15, 16}, Expected: "links, pipes and names left in the project change nothing beside it", room: after},
	}
}
