// Package sandbox is the contract between the executor and the places a step
// can run in: a hardened container (package docker) or the bare host (package
// host). It holds data and interfaces only and imports nothing of ours.
package sandbox

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net"
	"time"
)

const (
	// DefaultCollectLimit is the size of a collected file in bytes where
	// Collect.Limit is 0.
	DefaultCollectLimit = 1 << 20
	// DefaultPath is where programs are looked for when a process's
	// environment has no PATH.
	DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Backend starts boxes. Implementations are safe for concurrent use.
type Backend interface {
	// Preflight reports, before anything starts, why boxes with these specs
	// could not be started here: no engine, a missing image, a bad option.
	// It starts nothing and leaves nothing.
	Preflight(ctx context.Context, specs []Spec) error
	// Start creates a box and returns once it can run processes. Cancelling
	// ctx aborts the start and leaves nothing behind; it does not end a box
	// already returned.
	Start(ctx context.Context, spec Spec) (Box, error)
	// Close ends every box this backend still has and gives up what it holds
	// on the machine (its lease). Bounded by ctx.
	Close(ctx context.Context) error
}

// Box is one sandbox instance. Exec may be called concurrently.
type Box interface {
	// Exec runs one process to its end and returns how it ended. Stdout and
	// Stderr have received everything the process wrote when Exec returns.
	//
	// When ctx is done the process and everything it started is stopped by
	// Process.Stop, then killed, and Exec returns the Exit with Stopped set
	// and a nil error. An error is always an *Error. But for KindExec it means
	// that the box itself failed, and can not be used again.
	Exec(ctx context.Context, p Process) (Exit, error)
	// Info says where things are in the box. It is constant.
	Info() Info
	// Close kills every process in the box and removes it (or keeps it
	// stopped, where Spec.Keep says so). Bounded by ctx; idempotent.
	Close(ctx context.Context) error
}

// Spec is everything that was asked of a box. It is plain data: the same Spec
// always gives the same container.
type Spec struct {
	// Project (a directory), Workflow, Run, Job and Step name the box for people
	// and label it. Step is the one that started it, also where others share it.
	Project, Workflow, Run, Job, Step string

	Image string
	// Pull is "missing" (default), "always" or "never". Images whose name
	// begins with "herd-runner/" are never pulled.
	Pull string

	Memory    int64   // bytes; swap is set equal. 0: the backend's default of 2 GiB
	CPUs      float64 // 0: no limit
	CPUShares int64
	CPUPeriod int64 // microseconds
	CPUQuota  int64 // microseconds
	PidsLimit int64 // 0: the backend's default of 512
	ShmSize   int64 // bytes; 0: the engine's default
	Ulimits   []Ulimit

	Network Network
	// User is "uid:gid", numeric. Root is refused unless AllowRoot.
	User      string
	AllowRoot bool

	Mounts []Mount
	// Tmpfs are extra in-memory file systems; /tmp and /run are always there.
	Tmpfs []Tmpfs
	// Env is added to the image's environment for every process of the box.
	Env     map[string]string
	Labels  map[string]string
	Workdir string // absolute path in the box
	// Home and Temp are absolute paths in the box, on a mount of Mounts.
	Home, Temp string

	WritableRoot bool // read-only root is the default
	Ports        []string
	OCIRuntime   string
	// HostConfig is merged over the engine's host configuration last; policy
	// has allowed it.
	HostConfig json.RawMessage
	// Privileged needs the operator's policy and is never set by default.
	Privileged bool

	// Keep leaves the stopped container for inspection; MaxContainers bounds
	// how many are kept per Project, Workflow, Job and Step, oldest out first.
	// 0: the backend's default of 5.
	Keep          bool
	MaxContainers int
	// Reuse, with Keep, starts the stopped box with the same Session and the
	// same Spec again, where there is one: what it has written to HOME and to
	// its root file system is there. A box with another Spec is removed.
	Reuse bool
	// Session is a directory of the host that holds what belongs to a kept box
	// and is removed with it. The box is another's while that one uses it: then
	// this one is neither kept nor reused, and Info.Notices say so.
	Session string

	// Gateway serves one connection made in the box to Info.Gateway. It owns
	// conn and returns when done. nil: nothing listens in the box.
	Gateway func(conn net.Conn)
	// Egress serves one connection made in the box to Info.Egress, the HTTP
	// proxy of Network.Mode "allow", which needs it; other modes have none.
	Egress func(conn net.Conn)
}

// Network is the box's view of the world.
type Network struct {
	// Mode is "none", "bridge", "host" or "allow".
	Mode string
}

// Closed says whether the box has no interface but loopback.
func (n Network) Closed() bool { return n.Mode == "none" || n.Mode == "allow" }

// Mount is a bind mount of a host path.
type Mount struct {
	Source   string // absolute host path; empty: an empty read-only directory masks Target
	Target   string // absolute path in the box
	ReadOnly bool
	// Here: it is wanted as it lies on this machine. An engine that has other
	// files gets copies of other mounts, and what changes there comes back.
	Here bool
}

// Tmpfs is an in-memory file system; nosuid and nodev always.
type Tmpfs struct {
	Target string
	Size   int64 // bytes
	Exec   bool
}

// Ulimit is one resource limit, named as in docker run --ulimit.
type Ulimit struct {
	Name       string
	Soft, Hard int64
}

// Process is one program to run in a box. Arguments are data: no shell is
// involved unless Argv names one.
type Process struct {
	Argv []string
	// Else are command lines that are tried in order where the program of Argv
	// is not in the PATH of Env. Where none is, the error is about Argv.
	Else [][]string
	// Env is the whole environment as KEY=VALUE.
	Env []string
	Dir string // absolute path in the box
	// Stdin is read until EOF or the process's end; nil: empty.
	Stdin io.Reader
	// Stdout and Stderr receive chunks as they come; nil discards. They are
	// called from one goroutine each and must not retain the slice.
	Stdout, Stderr io.Writer
	// Files are written, with parents, before the process starts.
	Files []File
	// Collect are files to read after the end; missing ones are left out.
	Collect []Collect
	// Follow are files to read while the process runs, as they grow. Followed
	// gets what is written to them after its start, all of it before Exec
	// returns. It is called from one goroutine and must not retain Data.
	Follow   []Follow
	Followed func(Followed)
	// Stop is how the process is asked to end when ctx is done; a KILL of
	// the whole tree always follows. Empty: KILL at once.
	Stop []StopStage
	// Kill, when closed, kills the tree at once whatever stage Stop is in.
	Kill <-chan struct{}
}

// File is written into the box before a process starts.
type File struct {
	Path string // absolute path in the box
	// Mode holds permissions only, but for fs.ModeDir, which makes a directory
	// where there is none; Data is not used then.
	Mode fs.FileMode
	Data []byte
}

// Collect names a file to be read when the process has ended. A file larger
// than Limit bytes is cut there and reported in Exit.Truncated.
type Collect struct {
	Path  string
	Limit int64
}

// Follow names files that grow. Links are not followed, and what is no regular
// file is left out. What the files may hold is bounded: see Followed.Cut.
type Follow struct {
	// Root is a directory, absolute in the box. Pattern is below it: names
	// separated by "/", each as for path.Match, the last one of a file. Neither
	// has to be there at the start.
	Root, Pattern string
	// Whole also wants what such a file held before the process started.
	Whole bool
}

// Followed is a piece of a followed file.
type Followed struct {
	// Of is the index of the Follow that names the file, File the file's number:
	// one that was replaced has a new one.
	Of, File int
	// Fresh: the file begins anew with Data, what was read of it is void.
	Fresh bool
	Data  []byte
	// Cut: no more is read of any file, they hold more than is worth reading.
	// Data is empty, Of and File say nothing.
	Cut bool
}

// The bounds of what is followed for one process.
const (
	MaxFollowedFiles = 256
	MaxFollowedBytes = 256 << 20
)

// StopStage sends a signal and waits for the process to end.
type StopStage struct {
	Signal string // "INT", "TERM", "KILL"
	Grace  time.Duration
}

// Exit is how a process ended.
type Exit struct {
	Code int
	// Signal is the name ("KILL") where a signal ended it; Code is then 128+n.
	Signal string
	// Stopped: it was ended because ctx was done or Kill closed.
	Stopped bool
	// OOMKilled: the kernel killed this process for memory. ToolOOM: it
	// killed another process of the box while this one ran.
	OOMKilled, ToolOOM bool
	// PidsLimit: it failed, and while it ran the box wanted more processes than
	// it may have. Full: it failed, and at its end nothing more could be written
	// at these mount points of the box.
	PidsLimit  bool
	Full       []string
	Collected  map[string][]byte
	Truncated  []string
	PeakMemory int64         // bytes, of the whole box; 0: unknown
	CPU        time.Duration // user+system of the process's tree; 0: unknown
}

// Info says where things are inside a box.
type Info struct {
	// Backend is "docker", "podman" or "host"; ID is the container's id.
	Backend, ID string
	Image       string // with digest where known
	Workdir     string
	Home, Temp  string
	// HostHome is the directory of this machine that Home is; empty where it is
	// none.
	HostHome string
	// HostDirs are the directories of this machine that the box can write, and
	// fill; empty where it writes to none, or is none.
	HostDirs []string
	// Runner is the path, in the box, of the executable with the verbs of
	// cmd/herd-guest.
	Runner string
	// Reused: it is a stopped box, started again.
	Reused bool
	// Notices are for the person.
	Notices []string
	// Gateway is host:port of the model gateway as seen in the box; empty
	// where Spec.Gateway is nil.
	Gateway string
	// Egress is host:port of the HTTP proxy that is the only way out, as seen
	// in the box; empty where Spec.Network.Mode is not "allow".
	Egress string
	// Env is the base environment processes should build upon (the image's
	// PATH, for one; ProxyEnv where there is an Egress).
	Env      map[string]string
	OS, Arch string
}

// Kind says what failed in an Error.
type Kind string

// The kinds of box failures.
const (
	KindEngine Kind = "engine" // no engine, or it does not answer
	KindImage  Kind = "image"  // image missing or not usable
	KindLocked Kind = "locked" // not the image that a lock names
	KindConfig Kind = "config" // the spec can not be honoured
	KindBox    Kind = "box"    // the box died or broke the protocol
	KindOOM    Kind = "oom"    // the box died for memory
	KindExec   Kind = "exec"   // the program could not be started
	KindFiles  Kind = "files"  // a file of Process.Files could not be written
	KindAccess Kind = "access" // the box's user can not use a mount
	KindStart  Kind = "start"  // the engine refused to start it
)

// Error is a failure of a box or backend, never of the program in it.
type Error struct {
	Kind   Kind
	Op     string // "create container"
	Advice string // what to do next, for the person
	Err    error
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Hint says what to do next; empty where nothing is known.
func (e *Error) Hint() string { return e.Advice }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
