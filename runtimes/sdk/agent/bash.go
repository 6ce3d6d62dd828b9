package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	defaultBashTimeout = 2 * time.Minute
	maxBashTimeout     = 30 * time.Minute
	// pipeGrace is how long a daemon may keep the pipe of an ended command.
	pipeGrace = 2 * time.Second
)

func (w workspace) bash() tool {
	return tool{
		name: "bash",
		description: "Run a shell command in the working directory and get its output (stdout and stderr together) and exit code. " +
			"No terminal, no stdin. Everything it started is ended when it returns; a command that takes longer than timeout is killed. " +
			"In the background it goes on beside you, until you are done.",
		schema: `{"type":"object","properties":{` +
			`"command":{"type":"string","description":"The command, for bash -c"},` +
			`"timeout":{"type":"number","description":"Seconds until it is killed; 120 when left out, at most 1800"},` +
			`"background":{"type":"boolean","description":"Start it, for example a server, and return at once with an id for bash_output and bash_kill"}},` +
			`"required":["command"]}`,
		timeout: -1,
		run:     w.runBash,
	}
}

func (w workspace) runBash(ctx context.Context, input json.RawMessage) (string, error) {
	var in struct {
		Command    string  `json:"command"`
		Timeout    float64 `json:"timeout"`
		Background bool    `json:"background"`
	}
	if err := decode(input, &in); err != nil {
		return "", err
	}
	if strings.TrimSpace(in.Command) == "" {
		return "", errors.New("command is empty")
	}
	if strings.ContainsRune(in.Command, 0) {
		return "", errors.New("command holds a NUL byte")
	}
	if in.Background {
		return w.background.start(w.command(context.WithoutCancel(ctx), in.Command))
	}
	timeout := defaultBashTimeout
	if in.Timeout > 0 {
		timeout = time.Duration(min(in.Timeout, maxBashTimeout.Seconds()) * float64(time.Second))
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	out := &clip{limit: maxOutputBytes}
	cmd := w.command(limited, in.Command)
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if cmd.Process != nil {
		killGroup(cmd) // what it left running
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	var exit *exec.ExitError
	switch {
	case limited.Err() != nil && ctx.Err() == nil && err != nil:
		return out.String(), fmt.Errorf("[killed after %s; give a longer timeout if it needs one]", timeout)
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return out.String(), fmt.Errorf("[exit code %d]", exit.ExitCode())
	case err != nil:
		return out.String(), fmt.Errorf("[%w]", err)
	}
	return out.String(), nil
}

// command is a shell with line, in a process group of its own that ends with ctx.
func (w workspace) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, shell(), "-c", line)
	cmd.Dir, cmd.Env = w.dir, w.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		killGroup(cmd)
		return nil
	}
	cmd.WaitDelay = pipeGrace
	return cmd
}

// shell is bash where the image has it.
func shell() string {
	for _, path := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return "/bin/sh"
}
