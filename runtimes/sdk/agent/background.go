package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// maxBackground is how many commands may run in the background at a time.
	maxBackground = 8
	// maxBackgroundWait is the longest that bash_output waits.
	maxBackgroundWait = 10 * time.Minute
)

// background are the commands that outlive the call that started them, but not
// the loop.
type background struct {
	mu       sync.Mutex
	commands []*backgroundCommand
}

type backgroundCommand struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended

	mu     sync.Mutex
	unread clip
}

// Write takes the command's output.
func (c *backgroundCommand) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unread.Write(b)
}

func (c *backgroundCommand) running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// read gives what the command printed since the last time, and how it stands.
func (c *backgroundCommand) read() string {
	state := "[it runs]"
	if !c.running() {
		state = "[it has ended: " + c.cmd.ProcessState.String() + "]"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.unread.String()
	c.unread = clip{limit: maxOutputBytes}
	if text == "" {
		text = "[no new output]"
	}
	return text + "\n" + state
}

// start begins a command; the text is for the model.
func (b *background) start(cmd *exec.Cmd) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	running := 0
	for _, c := range b.commands {
		if c.running() {
			running++
		}
	}
	if running >= maxBackground {
		return "", fmt.Errorf("%d commands run in the background already: end one with bash_kill", running)
	}
	c := &backgroundCommand{cmd: cmd, done: make(chan struct{}), unread: clip{limit: maxOutputBytes}}
	cmd.Stdout, cmd.Stderr = c, c
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("[%w]", err)
	}
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // ProcessState says how it ended
		killGroup(cmd)
	}()
	b.commands = append(b.commands, c)
	return fmt.Sprintf("[runs in the background as %d: bash_output reads what it prints, bash_kill ends it]", len(b.commands)), nil
}

// find is the command of an id that start gave.
func (b *background) find(id string) (*backgroundCommand, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, err := strconv.Atoi(id)
	if err != nil || n < 1 || n > len(b.commands) {
		return nil, fmt.Errorf("there is no command %q in the background; %d have been started", id, len(b.commands))
	}
	return b.commands[n-1], nil
}

// stop ends all of them.
func (b *background) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.commands {
		killGroup(c.cmd)
	}
	for _, c := range b.commands {
		<-c.done // WaitDelay bounds it
	}
}

// killGroup ends a command with all that it started.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

const idSchema = `"id":{"type":"string","description":"That bash gave"}`

func (w workspace) bashOutput() tool {
	return tool{
		name:        "bash_output",
		description: "Get what a command in the background has printed since you last asked, and whether it still runs.",
		schema: `{"type":"object","properties":{` + idSchema + `,` +
			`"wait":{"type":"number","description":"Seconds to wait for its end first; 0 when left out, at most 600"}},` +
			`"required":["id"]}`,
		readOnly: true,
		timeout:  -1,
		rules:    "bash",
		run: func(ctx context.Context, input json.RawMessage) (string, error) {
			c, in, err := w.backgroundInput(input)
			if err != nil {
				return "", err
			}
			wait := time.Duration(min(max(in.Wait, 0), maxBackgroundWait.Seconds()) * float64(time.Second))
			select {
			case <-c.done:
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(wait):
			}
			return c.read(), nil
		},
	}
}

func (w workspace) bashKill() tool {
	return tool{
		name:        "bash_kill",
		description: "End a command in the background with all that it started, and get the last of its output.",
		schema:      `{"type":"object","properties":{` + idSchema + `},"required":["id"]}`,
		timeout:     -1,
		rules:       "bash",
		run: func(_ context.Context, input json.RawMessage) (string, error) {
			c, _, err := w.backgroundInput(input)
			if err != nil {
				return "", err
			}
			killGroup(c.cmd)
			<-c.done // WaitDelay bounds it
			return c.read(), nil
		},
	}
}

type backgroundInput struct {
	ID   any     `json:"id"` // a model may well give a number
	Wait float64 `json:"wait"`
}

func (w workspace) backgroundInput(input json.RawMessage) (*backgroundCommand, backgroundInput, error) {
	var in backgroundInput
	if err := decode(input, &in); err != nil {
		return nil, in, err
	}
	if in.ID == nil {
		return nil, in, errors.New("id is needed: bash gave it")
	}
	c, err := w.background.find(fmt.Sprint(in.ID))
	return c, in, err
}
