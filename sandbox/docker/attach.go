package docker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/docker/docker/api/types"
)

// maxStderr is how much of the guest's own stderr is kept to explain its end.
const maxStderr = 4 << 10

// attached is the container's standard streams as one connection: reading
// gives its stdout, writing is its stdin. Its stderr is kept, in part.
type attached struct {
	conn net.Conn
	r    *bufio.Reader
	left int // bytes of stdout left in the current frame

	mu     sync.Mutex
	stderr []byte
}

func attach(h types.HijackedResponse) *attached { return &attached{conn: h.Conn, r: h.Reader} }

// Read takes the engine's frames apart: a byte for the stream, three unused,
// four for the length.
func (a *attached) Read(b []byte) (int, error) {
	for a.left == 0 {
		var h [8]byte
		if _, err := io.ReadFull(a.r, h[:]); err != nil {
			return 0, err
		}
		n := binary.BigEndian.Uint32(h[4:])
		switch h[0] {
		case 1:
			a.left = int(n)
		case 2:
			if err := a.keep(int64(n)); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the engine sent a frame of stream %d", h[0])
		}
	}
	n, err := a.r.Read(b[:min(len(b), a.left)])
	a.left -= n
	return n, err
}

func (a *attached) keep(n int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	take := min(n, int64(maxStderr-len(a.stderr)))
	part := make([]byte, take)
	if _, err := io.ReadFull(a.r, part); err != nil {
		return err
	}
	a.stderr = append(a.stderr, part...)
	_, err := io.CopyN(io.Discard, a.r, n-take)
	return err
}

func (a *attached) Write(b []byte) (int, error) { return a.conn.Write(b) }

func (a *attached) Close() error { return a.conn.Close() }

// said is the guest's stderr, made safe to print.
func (a *attached) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Sprintf("%q", a.stderr)
}
