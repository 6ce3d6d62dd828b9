package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// probes are what is tried in a box, by name. Each leaves the box as it was.
func probes() map[string]func(facts) answer {
	return map[string]func(facts) answer{
		"keys-in-environments": keysInEnvironments, "keys-in-files": keysInFiles,
		"user": user, "capabilities": capabilities, "no-new-privileges": noNewPrivileges, "seccomp": seccomp,
		"user-namespaces": userNamespaces, "keyring": keyring, "host-namespaces": hostNamespaces,
		"processes": processes, "process-1": process1, "mount": mount, "mount-points": mountPoints, "tmpfs": tmpfs,
		"root-file-system": rootFileSystem, "kernel-files": kernelFiles, "devices": devices,
		"other-users-files": otherUsersFiles, "read-only-workspace": readOnlyWorkspace, "engine-socket": engineSocket,
		"host-loopback": hostLoopback, "other-boxes": otherBoxes, "interfaces": interfaces, "addresses": addresses,
		"metadata": metadata, "host-gateway": hostGateway, "dns": dns, "egress-proxy": egressProxy,
		"gateway-without-token": gatewayWithoutToken, "gateway-to-elsewhere": gatewayToElsewhere,
		"fork-bomb": forkBomb, "memory": memory, "tmpfs-fill": tmpfsFill,
		"survivors": survivors, "git": writeGit, "records": records, "links-left-behind": leaveLinks,
	}
}

// servants are the programs that other attacks need in a box.
func servants() map[string]func(facts, io.Writer) int {
	return map[string]func(facts, io.Writer) int{
		"listen": listen, "detached": detached, "linger": linger, "endless-line": endlessLine,
		"terminal-escapes": terminalEscapes, "collected-links": collectedLinks,
	}
}

// token is what a credential could be a part of.
var token = regexp.MustCompile(`[A-Za-z0-9_\-.+/=]{16,}`)

// reveals says whether text holds a real credential.
func reveals(f facts, text []byte) bool {
	for _, word := range token.FindAll(text, -1) {
		for _, part := range append(bytes.Split(word, []byte("=")), word) {
			if len(part) >= minKey && slices.Contains(f.Digests, digest(f.Salt, string(part))) {
				return true
			}
		}
	}
	return false
}

func keysInEnvironments(f facts) answer {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	read := 0
	for _, name := range append(files, lines...) {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		read++
		if reveals(f, bytes.ReplaceAll(b, []byte{0}, []byte{'\n'})) {
			return hole("a real credential in %s", name)
		}
	}
	if read == 0 {
		return unable("nothing in /proc can be read, not even its own environment")
	}
	return held("none in %d environments and command lines", read)
}

// What is read of the files of a box at most.
const (
	maxFiles    = 20000
	maxFileSize = 1 << 20 // bytes
)

func keysInFiles(f facts) answer {
	read, found := 0, ""
	for _, root := range []string{f.Home, f.Temp, f.Workdir, "/run", "/tmp", "/herd", "/etc", "/root", "/home", "/var/run/secrets"} {
		_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || read >= maxFiles || found != "" {
				return nil //nolint:nilerr // what cannot be read tells nothing
			}
			if !d.Type().IsRegular() {
				return nil
			}
			if b := beginning(name); b != nil {
				read++
				if reveals(f, b) {
					found = name
				}
			}
			return nil
		})
	}
	if found != "" {
		return hole("a real credential in %s", found)
	}
	return held("none in %d files", read)
}

func beginning(name string) []byte {
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFileSize))
	if err != nil {
		return nil
	}
	return b
}

func processes(f facts) answer {
	first, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return unable("%v", err)
	}
	program, _, _ := bytes.Cut(first, []byte{0})
	if string(program) != f.Runner {
		return hole("process 1 is %q", program)
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	return held("process 1 is the guest, %d are seen", len(all))
}

// opens gives those of the files that can be opened.
func opens(flag int, names ...string) []string {
	var out []string
	for _, name := range names {
		if file, err := os.OpenFile(name, flag, 0); err == nil {
			file.Close()
			out = append(out, name)
		}
	}
	return out
}

func process1(facts) answer {
	if got := opens(os.O_RDONLY, "/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/fd/0"); len(got) > 0 {
		return hole("open for reading: %s", strings.Join(got, ", "))
	}
	if to, err := os.Readlink("/proc/1/fd/0"); err == nil {
		return hole("its files can be looked at: %s", to)
	}
	if err := traceProcess1(); err == nil {
		return hole("it can be traced")
	} else if !errors.Is(err, fs.ErrPermission) {
		return unable("ptrace: %v", err)
	}
	return held("tracing, memory, files and environment are refused")
}

func kernelFiles(facts) answer {
	names := []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
		"/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper", "/sys/kernel/mm/ksm/run", "/sys/fs/cgroup/cgroup.procs",
		"/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/pids/pids.max",
		"/sys/fs/cgroup/memory/tasks", "/sys/fs/cgroup/devices/devices.allow", "/sys/fs/cgroup/release_agent", "/proc/1/oom_score_adj",
	}
	if got := opens(os.O_WRONLY, names...); len(got) > 0 {
		return hole("open for writing: %s", strings.Join(got, ", "))
	}
	if got := opens(os.O_RDONLY, "/proc/kcore", "/dev/mem", "/dev/kmem"); len(got) > 0 && readsByte(got[0]) {
		return hole("readable: %s", strings.Join(got, ", "))
	}
	return held("%d files tried, all refused", len(names)+3)
}

// readsByte says whether there is something to read: masked files are empty.
func readsByte(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	n, _ := file.Read(make([]byte, 1))
	return n > 0
}

// standardDevices are in every container.
var standardDevices = []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "shm", "mqueue", "fd", "stdin", "stdout", "stderr", "core"}

func devices(f facts) answer {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return unable("%v", err)
	}
	var more []string
	for _, e := range entries {
		if !slices.Contains(standardDevices, e.Name()) {
			more = append(more, e.Name())
		}
	}
	if len(more) > 0 {
		return hole("in /dev: %s", strings.Join(more[:min(8, len(more))], ", "))
	}
	for _, dir := range []string{"/tmp", f.Temp} {
		if makeDevice(filepath.Join(dir, "herd-verify-device")) {
			return hole("a device could be made in %s", dir)
		}
	}
	return held("%d standard ones, none can be made", len(entries))
}

func otherUsersFiles(f facts) answer {
	link := filepath.Join(f.Workdir, "herd-verify-link")
	_ = os.Symlink(f.Beside, link)
	defer os.Remove(link)
	for _, name := range []string{f.Beside, link, "/proc/1/root" + f.Beside, "/proc/1/cwd" + f.Beside, filepath.Join(f.Workdir, "..", filepath.Base(f.Beside)), "/host" + f.Beside} {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), f.BesideText) {
			return hole("%s of this machine can be read", name)
		}
	}
	if got := opens(os.O_WRONLY, "/etc/passwd", "/etc/shadow", "/etc/hosts", "/etc/resolv.conf"); len(got) > 0 {
		return hole("open for writing: %s", strings.Join(got, ", "))
	}
	return held("not there by its path, nor through links, nor through /proc")
}

func readOnlyWorkspace(f facts) answer {
	name := filepath.Join(f.Workdir, "herd-verify-file")
	if file, err := os.Create(name); err == nil {
		file.Close()
		_ = os.Remove(name)
		return hole("%s could be written", name)
	}
	return held("writing is refused")
}

// writeGit does to .git what it can; what this machine sees of it is looked at
// when the box is gone.
func writeGit(f facts) answer {
	git, dir := filepath.Join(f.Workdir, ".git"), filepath.Join(f.Workdir, ".git")
	if b, err := os.ReadFile(git); err == nil { // of a clone it is a file
		_, dir, _ = strings.Cut(strings.TrimSpace(string(b)), "gitdir: ")
	}
	var done []string
	try := func(what string, err error) {
		if err == nil {
			done = append(done, what)
		}
	}
	const config = "[core]\n\tfsmonitor = \"touch pwned\"\n\thooksPath = /workspace/hooks\n\tsshCommand = touch pwned\n[filter \"x\"]\n\tsmudge = touch pwned\n[include]\n\tpath = /workspace/evil\n"
	_ = os.MkdirAll(filepath.Join(dir, "hooks"), 0o755)
	try("hook", os.WriteFile(filepath.Join(dir, "hooks", "post-checkout"), []byte("#!/bin/sh\ntouch pwned\n"), 0o755))
	try("config", os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o644))
	try("commondir", os.WriteFile(filepath.Join(dir, "commondir"), []byte("/workspace/evil\n"), 0o644))
	try("alternates", os.WriteFile(filepath.Join(dir, "objects", "info", "alternates"), []byte("/workspace/evil\n"), 0o644))
	try("mv", os.Rename(git, filepath.Join(f.Workdir, "herd-verify-git")))
	try("new directory", os.Mkdir(git, 0o755))
	return held("in the box: %s", orNothing(done))
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing could be done"
	}
	return strings.Join(list, ", ")
}

func records(f facts) answer {
	dir := filepath.Join(f.Workdir, ".herd")
	found := ""
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(string(beginning(name)), f.RecordText) {
			found = name
		}
		return nil //nolint:nilerr // what cannot be read tells nothing
	})
	if found != "" {
		return hole("%s can be read", found)
	}
	if err := os.WriteFile(filepath.Join(dir, "herd-verify-file"), nil, 0o644); err == nil {
		return hole("%s can be written", dir)
	}
	if err := os.Rename(dir, filepath.Join(f.Workdir, "herd-verify-records")); err == nil {
		return hole("%s can be moved away", dir)
	}
	return held("empty, read-only, cannot be moved")
}

// leaveLinks leaves in the project what a careless reader would follow.
func leaveLinks(f facts) answer {
	var done []string
	try := func(what string, err error) {
		if err == nil {
			done = append(done, what)
		}
	}
	at := func(name string) string { return filepath.Join(f.Workdir, name) }
	try("link to a file", os.Symlink(f.Beside, at("herd-verify-file-link")))
	try("link to a directory", os.Symlink(filepath.Dir(f.Beside), at("herd-verify-dir-link")))
	try("link in place of a file", errors.Join(os.Remove(at("README")), os.Symlink(f.Beside, at("README"))))
	try("pipe", makePipe(at("herd-verify-pipe")))
	for _, name := range []string{"-rf", "line\nend", "\xff\xfe", ".GIT", "\x1b[31m"} {
		try(fmt.Sprintf("%q", name), os.WriteFile(at(name), []byte("x"), 0o644))
	}
	return held("left: %s", orNothing(done))
}
