package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	sshConnect = 20 * time.Second // until the other machine answers
	sshEnd     = 2 * time.Second  // from the end of a connection to that of its program
	maxSSHSaid = 2 << 10          // bytes of stderr that explain a failure
)

var socketPath = regexp.MustCompile(`^(/[\w.-]+)+$`)

// sshDialer gives connections to the engine of another machine: each is one ssh
// that runs "docker system dial-stdio" there, so that keys, jump hosts and known
// hosts are those of the person's ssh. It never asks: a key that needs a
// passphrase has to be in an agent. The address is ssh://[user@]host[:port][/socket].
func sshDialer(address string) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("expected ssh://[user@]host[:port]")
	}
	_, password := u.User.Password()
	socket := strings.TrimSuffix(u.Path, "/")
	switch {
	case u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") || strings.HasPrefix(u.User.Username(), "-"):
		return nil, errors.New("expected ssh://[user@]host[:port]")
	case password:
		return nil, errors.New("a password in the address is not used: expected ssh://[user@]host[:port], and a key")
	case u.RawQuery != "" || u.Fragment != "" || socket != "" && !socketPath.MatchString(socket):
		return nil, errors.New("expected nothing, or the path of the engine's socket, after the host")
	}
	args := []string{"-T", "-o", "BatchMode=yes", "-o", fmt.Sprintf("ConnectTimeout=%d", int(sshConnect.Seconds()))}
	if name := u.User.Username(); name != "" {
		args = append(args, "-l", name)
	}
	if u.Port() != "" {
		args = append(args, "-p", u.Port())
	}
	args = append(args, "--", u.Hostname(), "docker")
	if socket != "" {
		args = append(args, "--host", "unix://"+socket)
	}
	args = append(args, "system", "dial-stdio")
	return func(context.Context, string, string) (net.Conn, error) { return startConn("ssh", args) }, nil
}

// programConn is a program's standard input and output as a connection.
type programConn struct {
	in, out *os.File // its stdin and stdout
	name    string
	cmd     *exec.Cmd
	said    capped
	ended   chan struct{} // closed when the program has
	exit    error         // how; valid once ended is closed
}

func startConn(name string, args []string) (_ *programConn, err error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		_, _ = theirIn.Close(), in.Close()
		return nil, err
	}
	c := &programConn{in: in, out: out, name: name, cmd: exec.Command(name, args...), ended: make(chan struct{})}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = theirIn, theirOut, &c.said
	// A terminal's ^C is for the runner, which needs the connection to clean up.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.cmd.WaitDelay = sshEnd
	err = c.cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, err
	}
	go func() {
		c.exit = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// Read tells what the program said where it ended instead of answering.
func (c *programConn) Read(b []byte) (int, error) {
	n, err := c.out.Read(b)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	select {
	case <-c.ended:
	case <-time.After(sshEnd):
		return n, err
	}
	if c.exit != nil {
		return n, fmt.Errorf("%s: %w: %s", c.name, c.exit, c.said.text())
	}
	return n, err
}

func (c *programConn) Write(b []byte) (int, error) { return c.in.Write(b) }

func (c *programConn) CloseWrite() error { return c.in.Close() }

// Close ends the program, at the latest by killing it.
func (c *programConn) Close() error {
	_ = c.in.Close()
	err := c.out.Close()
	timer := time.NewTimer(sshEnd)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		_ = c.cmd.Process.Kill()
		<-c.ended
	}
	if errors.Is(err, os.ErrClosed) {
		return net.ErrClosed
	}
	return err
}

func (c *programConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *programConn) SetReadDeadline(t time.Time) error { return c.out.SetReadDeadline(t) }

func (c *programConn) SetWriteDeadline(t time.Time) error { return c.in.SetWriteDeadline(t) }

func (c *programConn) LocalAddr() net.Addr { return programAddr(c.name) }

func (c *programConn) RemoteAddr() net.Addr { return programAddr(c.name) }

type programAddr string

func (programAddr) Network() string  { return "program" }
func (a programAddr) String() string { return string(a) }

// capped keeps the beginning of what is written to it.
type capped struct {
	mu sync.Mutex
	b  []byte
}

func (c *capped) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.b = append(c.b, b[:min(len(b), maxSSHSaid-len(c.b))]...)
	return len(b), nil
}

func (c *capped) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%q", strings.TrimSpace(string(c.b)))
}
