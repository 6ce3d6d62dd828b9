package agent

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

// maxMCPStderr is how much of a server's stderr is kept, in bytes.
const maxMCPStderr = 4 << 10

// mcpProcess is a server's program. It leads a process group of its own.
type mcpProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	done   chan struct{} // closed when it has ended

	mu     sync.Mutex
	stderr clip
}

func startProcess(s runtimes.MCPServer, w workspace) (*mcpProcess, error) {
	p := &mcpProcess{cmd: exec.Command(s.Command, s.Args...), done: make(chan struct{}), stderr: clip{limit: maxMCPStderr}}
	p.cmd.Dir = w.dir
	p.cmd.Env = append([]string{}, w.env...)
	for name, value := range s.Env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stderr = p
	p.cmd.WaitDelay = pipeGrace // a child of its may keep stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe of our own: what it has written is read to the end also after it
	// has ended.
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout = write
	err = p.cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return nil, fmt.Errorf("its program can not be started: %w", err)
	}
	p.stdin, p.stdout = stdin, read
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // ProcessState says how it ended
		killGroup(p.cmd)
	}()
	return p, nil
}

// Write takes the program's stderr.
func (p *mcpProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

// ended says whether the program has, within wait.
func (p *mcpProcess) ended(wait time.Duration) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	select {
	case <-p.done:
		return true
	case <-time.After(wait):
		return false
	}
}

// said is how the program ended, if it did, and the end of its stderr.
func (p *mcpProcess) said() string {
	text := ""
	select {
	case <-p.done:
		text = " (" + p.cmd.ProcessState.String() + ")"
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if stderr := strings.TrimSpace(p.stderr.String()); stderr != "" {
		text += "; it said: " + stderr
	}
	return text
}

// stop closes its stdin, which asks it to end, and kills what is left after
// grace.
func (p *mcpProcess) stop(grace time.Duration) {
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(grace):
		killGroup(p.cmd)
		<-p.done // WaitDelay bounds it
	}
	p.stdout.Close()
}
