package verify

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// status gives the fields of /proc/self/status.
func status() map[string]string {
	b, _ := os.ReadFile("/proc/self/status")
	fields := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[k] = strings.TrimSpace(v)
		}
	}
	return fields
}

// onThread runs a try whose success would change the thread it runs on, which is
// then not used again.
func onThread(try func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- try()
	}()
	return <-result
}

// tries are system calls that are to be refused.
type tries []struct {
	name string
	do   func() error
}

// refused makes a hole of the first that is not: neither as forbidden nor as not
// there.
func (list tries) refused() answer {
	for _, t := range list {
		err := onThread(t.do)
		if err == nil {
			return hole("%s works", t.name)
		}
		if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.ENOSYS) {
			return hole("%s is not refused, only %v", t.name, err)
		}
	}
	names := make([]string, len(list))
	for i, t := range list {
		names[i] = t.name
	}
	return held("refused: %s", strings.Join(names, ", "))
}

func call(trap, a, b, c uintptr) func() error {
	return func() error {
		if _, _, errno := unix.Syscall6(trap, a, b, c, 0, 0, 0); errno != 0 {
			return errno
		}
		return nil
	}
}

func user(facts) answer {
	s := status()
	for _, k := range []string{"Uid", "Gid"} {
		if slices.Contains(strings.Fields(s[k]), "0") {
			return hole("%s is %s", k, strings.Join(strings.Fields(s[k]), " "))
		}
	}
	if slices.Contains(strings.Fields(s["Groups"]), "0") {
		return hole("it is in group 0")
	}
	got := tries{
		{"setuid 0", call(unix.SYS_SETUID, 0, 0, 0)},
		{"setgid 0", call(unix.SYS_SETGID, 0, 0, 0)},
	}.refused()
	if !got.Hole {
		got.Seen = fmt.Sprintf("uid %d, gid %d; %s", os.Getuid(), os.Getgid(), got.Seen)
	}
	return got
}

func capabilities(f facts) answer {
	s := status()
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if strings.Trim(s[set], "0") != "" || s[set] == "" {
			return hole("%s is %s", set, s[set])
		}
	}
	root := append([]byte("/"), 0)
	name := append([]byte("herd"), 0)
	return tries{
		{"chroot", call(unix.SYS_CHROOT, uintptr(unsafe.Pointer(&root[0])), 0, 0)},
		{"sethostname", call(unix.SYS_SETHOSTNAME, uintptr(unsafe.Pointer(&name[0])), 4, 0)},
		{"chown to another user", func() error { return os.Lchown(f.Temp, os.Getuid()+1, -1) }},
		{"nice -20", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
		{"a raw socket", rawSocket},
	}.refused()
}

func rawSocket() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func noNewPrivileges(facts) answer {
	on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	switch {
	case err != nil:
		return unable("prctl: %v", err)
	case on != 1:
		return hole("not set")
	}
	return held("set")
}

func seccomp(facts) answer {
	if mode := status()["Seccomp"]; mode != "2" {
		return hole("no filter: mode %q", mode)
	}
	return tries{
		{"bpf", call(unix.SYS_BPF, 0, 0, 0)},
		{"init_module", call(unix.SYS_INIT_MODULE, 0, 0, 0)},
		{"kexec_load", call(unix.SYS_KEXEC_LOAD, 0, 0, 0)},
		{"open_by_handle_at", call(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0)},
		{"perf_event_open", call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0)},
		{"userfaultfd", call(unix.SYS_USERFAULTFD, 0, 0, 0)},
	}.refused()
}

func userNamespaces(facts) answer {
	return tries{
		{"a user namespace", call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER, 0, 0)},
		{"a mount namespace", call(unix.SYS_UNSHARE, unix.CLONE_NEWNS, 0, 0)},
		{"a network namespace", call(unix.SYS_UNSHARE, unix.CLONE_NEWNET, 0, 0)},
		{"setns", call(unix.SYS_SETNS, 0, 0, 0)},
	}.refused()
}

func keyring(facts) answer {
	kind, name := append([]byte("user"), 0), append([]byte("herd"), 0)
	const session = ^uintptr(2) // KEY_SPEC_SESSION_KEYRING, -3
	return tries{
		{"add_key", func() error {
			_, _, errno := unix.Syscall6(unix.SYS_ADD_KEY, uintptr(unsafe.Pointer(&kind[0])), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&name[0])), 4, session, 0)
			if errno != 0 {
				return errno
			}
			return nil
		}},
		{"keyctl", call(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, session, 0)},
		{"request_key", call(unix.SYS_REQUEST_KEY, uintptr(unsafe.Pointer(&kind[0])), uintptr(unsafe.Pointer(&name[0])), 0)},
	}.refused()
}

func hostNamespaces(f facts) answer {
	if len(f.Namespaces) == 0 {
		return unable("the engine is on another machine, whose namespaces are not known here")
	}
	for _, name := range sandboxNamespaces {
		mine, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return unable("%v", err)
		}
		if mine == f.Namespaces[name] {
			return hole("the %s namespace is this machine's", name)
		}
	}
	return held("own: %s", strings.Join(sandboxNamespaces, ", "))
}

func traceProcess1() error {
	return onThread(func() error {
		if err := unix.PtraceSeize(1); err != nil {
			return err
		}
		_ = unix.PtraceDetach(1)
		return nil
	})
}

func makeDevice(name string) bool {
	err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))
	_ = os.Remove(name)
	return err == nil
}

func makePipe(name string) error { return unix.Mkfifo(name, 0o644) }

func mount(f facts) answer {
	dir := filepath.Join("/tmp", "herd-verify-mount")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return unable("%v", err)
	}
	defer os.Remove(dir)
	return tries{
		{"mount", func() error {
			err := unix.Mount("tmpfs", dir, "tmpfs", 0, "")
			if err == nil {
				_ = unix.Unmount(dir, 0)
			}
			return err
		}},
		{"bind", func() error {
			err := unix.Mount(f.Workdir, dir, "", unix.MS_BIND, "")
			if err == nil {
				_ = unix.Unmount(dir, 0)
			}
			return err
		}},
		{"remount", func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "") }},
		{"unmount", func() error { return unix.Unmount(filepath.Join(f.Workdir, ".herd"), unix.UMOUNT_NOFOLLOW) }},
		{"pivot_root", call(unix.SYS_PIVOT_ROOT, 0, 0, 0)},
	}.refused()
}

// mounted is one line of /proc/self/mountinfo.
type mounted struct{ root, target, options, kind, super string }

func mounts() ([]mounted, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var list []mounted
	for in := bufio.NewScanner(file); in.Scan(); {
		left, right, _ := strings.Cut(in.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 6 || len(r) < 3 {
			continue
		}
		list = append(list, mounted{l[3], strings.ReplaceAll(l[4], `\040`, " "), l[5], r[0], r[2]})
	}
	return list, nil
}

// engineMounts are those that every container has.
var engineMounts = []string{"/", "/proc", "/dev", "/dev/pts", "/dev/mqueue", "/dev/shm", "/dev/console", "/sys", "/tmp", "/run",
	"/etc/resolv.conf", "/etc/hostname", "/etc/hosts", "/run/.containerenv",
	"/etc/passwd", "/etc/group", "/var/tmp"}

func mountPoints(f facts) answer {
	list, err := mounts()
	if err != nil {
		return unable("%v", err)
	}
	var strange []string
	for _, m := range list {
		switch {
		case slices.Contains(engineMounts, m.target), slices.Contains(f.MountPoints, m.target), m.target == f.Runner:
		case m.target == path.Dir(f.Runner): // the volume that has it, on an engine of another machine
		case strings.HasPrefix(m.target, "/sys/fs/cgroup"):
		case strings.HasPrefix(m.target, "/proc/"), strings.HasPrefix(m.target, "/sys/"): // masks
		default:
			strange = append(strange, m.target)
		}
	}
	if len(strange) > 0 {
		return hole("also mounted: %s", strings.Join(strange, ", "))
	}
	return held("%d, all asked for or the engine's own", len(list))
}

func tmpfs(facts) answer {
	list, err := mounts()
	if err != nil {
		return unable("%v", err)
	}
	for _, want := range []string{"/tmp", "/run"} {
		i := slices.IndexFunc(list, func(m mounted) bool { return m.target == want })
		if i < 0 {
			return hole("%s is no mount of its own", want)
		}
		m := list[i]
		for _, option := range []string{"nosuid", "nodev"} {
			if !slices.Contains(strings.Split(m.options, ","), option) {
				return hole("%s is mounted without %s: %s", want, option, m.options)
			}
		}
		if m.kind == "tmpfs" && !strings.Contains(m.super, "size=") {
			return hole("%s has no size", want)
		}
	}
	return held("nosuid, nodev, with a size")
}

func rootFileSystem(facts) answer {
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		return unable("%v", err)
	}
	if st.Flags&unix.ST_RDONLY == 0 {
		return hole("it is mounted read-write")
	}
	for _, dir := range []string{"/", "/etc", "/usr", "/bin", "/var"} {
		name := filepath.Join(dir, "herd-verify-file")
		if file, err := os.Create(name); err == nil {
			file.Close()
			_ = os.Remove(name)
			return hole("%s could be written", name)
		}
	}
	return held("read-only")
}

// forkBomb starts processes, up to a few more than are allowed, and ends them.
func forkBomb(f facts) answer {
	var started []int
	defer func() {
		for _, pid := range started {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for _, pid := range started {
			_, _ = unix.Wait4(pid, nil, 0, nil)
		}
	}()
	for int64(len(started)) < f.PidsLimit+16 {
		pid, err := forkSleeper()
		if err != nil {
			return held("%d processes, then: %v", len(started), err)
		}
		started = append(started, pid)
	}
	return hole("%d processes with a limit of %d", len(started), f.PidsLimit)
}

// forkSleeper makes a child that does nothing: a copy of this process that never
// returns to Go. It dies with its parent's box, or when it is killed.
func forkSleeper() (int, error) {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if pid == 0 {
		for {
			syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	return int(pid), nil
}

// memory takes memory, somewhat more than is allowed.
func memory(f facts) answer {
	const piece = 8 << 20
	var taken [][]byte
	for n := int64(0); n < f.Memory+64<<20; n += piece {
		b, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return held("%d MiB, then: %v", n>>20, err)
		}
		for i := 0; i < piece; i += 4096 {
			b[i] = 1
		}
		taken = append(taken, b)
	}
	return hole("%d MiB with a limit of %d MiB", len(taken)*piece>>20, f.Memory>>20)
}

func tmpfsFill(f facts) answer {
	name := "/tmp/herd-verify-fill"
	file, err := os.Create(name)
	if err != nil {
		return unable("%v", err)
	}
	defer os.Remove(name)
	defer file.Close()
	piece := make([]byte, 1<<20)
	for n := range f.Memory>>20 + 16 {
		if _, err := file.Write(piece); err != nil {
			return held("%d MiB, then: %v", n, errors.Unwrap(err))
		}
	}
	return hole("%d MiB in a box of %d MiB", f.Memory>>20+16, f.Memory>>20)
}

// marker is in the command line of what must not survive.
const marker = "herd-verify-survivor"

func survivors(facts) answer {
	deadline := time.Now().Add(2 * time.Second)
	for {
		var alive []string
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range files {
			if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), marker) {
				alive = append(alive, filepath.Base(filepath.Dir(name)))
			}
		}
		switch {
		case len(alive) == 0:
			return held("none is left")
		case time.Now().After(deadline):
			return hole("still alive: %s", strings.Join(alive, ", "))
		}
		time.Sleep(50 * time.Millisecond)
	}
}
