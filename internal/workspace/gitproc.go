package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Bounds of one git process.
const (
	gitTime   = 10 * time.Minute
	gitOutput = 256 << 20 // bytes kept of stdout
)

// repository is a git directory on this machine that no box can write to, and
// how git is run in it. The person's configuration plays a part only where the
// repository is the person's; hooks never run, and nothing asks the network.
type repository struct {
	dir      string
	workTree string // empty: none
	index    string // empty: the repository's own
	env      []string
	persons  bool
	as       *syscall.Credential // nil: the user running us
}

// gitError is what a git process said when it failed.
type gitError struct {
	args   []string
	code   int
	stderr string
}

func (e *gitError) Error() string {
	said := strings.TrimSpace(e.stderr)
	if said == "" {
		said = fmt.Sprintf("exit code %d", e.code)
	}
	return "git " + verb(e.args) + ": " + said
}

// verb is the git command among its arguments.
func verb(args []string) string {
	for i := 0; i < len(args); i++ {
		if args[i] != "-c" {
			return args[i]
		}
		i++
	}
	return ""
}

// exitCode gives the code that git ended with; -1 where it did not run to its
// end.
func exitCode(err error) int {
	var failed *gitError
	if errors.As(err, &failed) {
		return failed.code
	}
	return -1
}

// git runs one git command and gives its stdout, also where it fails.
func (r repository) git(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gitTime)
	defer cancel()
	settings := []string{"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.splitIndex=false",
		"-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.file.allow=always", "-c", "core.quotePath=false",
		"-c", "checkout.workers=0", "-c", "commit.gpgSign=false"}
	dir := r.dir
	if r.workTree != "" {
		dir = r.workTree
	}
	cmd := exec.CommandContext(ctx, "git", append(settings, args...)...)
	cmd.Dir = dir
	cmd.Stdin = stdin
	var stdout, stderr bounded
	stdout.limit, stderr.limit = gitOutput, 64<<10
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = r.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: r.as}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("git %s: %w", verb(args), context.Cause(ctx))
	case errors.As(err, &exit):
		return stdout.Bytes(), &gitError{args, exit.ExitCode(), stderr.String()}
	case err != nil:
		return nil, fmt.Errorf("git %s: %w", verb(args), err)
	case stdout.cut:
		return nil, fmt.Errorf("git %s: more than %d MiB of output", verb(args), gitOutput>>20)
	}
	return stdout.Bytes(), nil
}

// line runs a git command that answers with one line.
func (r repository) line(ctx context.Context, args ...string) (string, error) {
	out, err := r.git(ctx, nil, args...)
	return strings.TrimSpace(string(out)), err
}

func (r repository) environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "GIT_DIR=" + r.dir, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_AUTHOR_NAME=herd-runner", "GIT_AUTHOR_EMAIL=herd-runner@localhost",
		"GIT_COMMITTER_NAME=herd-runner", "GIT_COMMITTER_EMAIL=herd-runner@localhost",
	}
	if r.persons && r.as == nil {
		env = append(env, "HOME="+os.Getenv("HOME"), "XDG_CONFIG_HOME="+os.Getenv("XDG_CONFIG_HOME"))
	} else {
		env = append(env, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ATTR_NOSYSTEM=1")
	}
	if r.workTree != "" {
		env = append(env, "GIT_WORK_TREE="+r.workTree)
	}
	if r.index != "" {
		env = append(env, "GIT_INDEX_FILE="+r.index)
	}
	return append(env, r.env...)
}

// bounded keeps what is written up to a limit, and takes the rest without
// keeping it.
type bounded struct {
	bytes.Buffer
	limit int
	cut   bool
}

func (b *bounded) Write(p []byte) (int, error) {
	n := len(p)
	if room := b.limit - b.Len(); len(p) > room {
		p, b.cut = p[:room], true
	}
	b.Buffer.Write(p)
	return n, nil
}

// fields splits output whose entries end with NUL.
func fields(out []byte) []string {
	text := strings.TrimSuffix(string(out), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}
