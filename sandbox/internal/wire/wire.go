// Package wire is the language between the runner and the guest in a box: one
// multiplexed stream, on it a control stream, one stream per process and one
// per connection to the gateway or the egress proxy.
//
// Every stream begins with a byte that says what it is. Then come frames: a
// byte for the kind, four for the length (big endian), the payload. Whoever
// reads says how long a frame may be: what comes from a box is not trusted.
package wire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/yamux"
)

// Version is what both sides must speak.
const Version = 2

// The kinds of streams.
const (
	StreamControl byte = 'C' // opened by the runner, first
	StreamProcess byte = 'P' // opened by the runner
	StreamGateway byte = 'G' // opened by the guest; raw bytes follow
	StreamEgress  byte = 'E' // the same
)

// The kinds of frames.
const (
	// Control: each side sends Hello once; then the runner sends Stop and
	// Kill with a process's id (8 bytes).
	FrameHello byte = iota + 1
	FrameStop
	FrameKill
	// Runner to guest on a process's stream: Start once, then Stdin.
	FrameStart
	FrameStdin
	FrameStdinEnd
	// Guest to runner on a process's stream: outputs, what was collected
	// (4 bytes index into Start.Collect, 1 byte cut or not, data), what was
	// followed (Followed), and at last one of Exit and Failed.
	FrameStdout
	FrameStderr
	FrameCollected
	FrameFollowed
	FrameExit
	FrameFailed
)

const (
	// MaxData bounds the payload of data frames.
	MaxData = 64 << 10
	// MaxStart bounds a Start message, with its files.
	MaxStart = 256 << 20
	// MaxMessage bounds every other message.
	MaxMessage = 64 << 10
)

const headerSize = 5

// Hello opens the control stream on both sides.
type Hello struct {
	Version int
	// Gateway and Egress ask the guest to listen for such connections.
	Gateway bool `json:",omitempty"`
	Egress  bool `json:",omitempty"`
	// GatewayAddr and EgressAddr are where the guest listens.
	GatewayAddr string      `json:",omitempty"`
	EgressAddr  string      `json:",omitempty"`
	OS, Arch    string      `json:",omitempty"`
	Confinement Confinement `json:",omitzero"`
	// Problem is why the guest can not work.
	Problem string `json:",omitempty"`
}

// Confinement is what really holds in the box, told before anything else runs
// in it: lines of the guest's /proc/self/status, and the network interfaces that
// are up.
type Confinement struct {
	Seccomp, NoNewPrivs, CapEff, CapBnd string
	Links                               []string
}

// Start is one process. What may hold any bytes is []byte, which JSON keeps.
type Start struct {
	ID    uint64
	Argv  [][]byte
	Else  [][][]byte `json:",omitempty"`
	Env   [][]byte
	Dir   string
	Stdin bool
	// Stdout and Stderr say whether they are wanted.
	Stdout, Stderr bool
	Files          []File
	Collect        []Collect
	Follow         []Follow `json:",omitempty"`
	Stop           []Stage
}

// File is sandbox.File.
type File struct {
	Path string
	Mode uint32
	Data []byte
}

// Collect is sandbox.Collect.
type Collect struct {
	Path  string
	Limit int64
}

// Follow is sandbox.Follow.
type Follow struct {
	Root, Pattern string
	Whole         bool
}

// Stage is sandbox.StopStage.
type Stage struct {
	Signal string
	Grace  time.Duration
}

// Exit is how a process ended.
type Exit struct {
	Code                        int
	Signal                      string
	Stopped, OOMKilled, ToolOOM bool
	PidsLimit                   bool     `json:",omitempty"`
	Full                        []string `json:",omitempty"`
	PeakMemory                  int64
	CPU                         time.Duration
}

// Failed is an error of the guest: a sandbox.Error.
type Failed struct{ Kind, Op, Message string }

// Config is how both sides multiplex. A peer that does not answer for minutes
// (a suspended laptop, a stopped runner) is waited for; one that is gone ends
// the stream at once.
func Config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // Heartbeat does it
	c.AcceptBacklog = 64
	c.ConnectionWriteTimeout = 5 * time.Minute
	c.LogOutput = io.Discard
	return c
}

// Heartbeat ends the session when the peer no longer answers. It returns when
// the session has ended.
func Heartbeat(s *yamux.Session) {
	tick := time.NewTicker(15 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-s.CloseChan():
			return
		case <-tick.C:
		}
		if _, err := s.Ping(); err != nil {
			_ = s.Close()
			return
		}
	}
}

// Write sends one frame with a single write of w.
func Write(w io.Writer, kind byte, payload []byte) error {
	b := make([]byte, headerSize, headerSize+len(payload))
	_, err := w.Write(append(head(b, kind, len(payload)), payload...))
	return err
}

func head(b []byte, kind byte, n int) []byte {
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(n))
	return b
}

// WriteJSON sends v as one frame.
func WriteJSON(w io.Writer, kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return Write(w, kind, b)
}

// DataWriter sends what is written as frames of one kind; extra is put before
// each chunk. It is not safe for concurrent use.
type DataWriter struct {
	W     io.Writer
	Kind  byte
	Extra []byte
	buf   []byte
}

// Write sends b in frames of at most MaxData.
func (d *DataWriter) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		part := b[sent:min(len(b), sent+MaxData-len(d.Extra))]
		d.buf = append(d.buf[:0], make([]byte, headerSize)...)
		d.buf = append(append(d.buf, d.Extra...), part...)
		head(d.buf, d.Kind, len(d.buf)-headerSize)
		if _, err := d.W.Write(d.buf); err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return sent, nil
}

// Reader reads frames.
type Reader struct {
	br  *bufio.Reader
	buf []byte
}

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{br: bufio.NewReaderSize(r, 32<<10)} }

// Next returns a frame; its payload is valid until the next call. A frame
// longer than limit(kind) is an error; 0 means the kind is not expected.
func (r *Reader) Next(limit func(kind byte) int) (kind byte, payload []byte, err error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r.br, h[:]); err != nil {
		return 0, nil, err
	}
	kind = h[0]
	n := int(binary.BigEndian.Uint32(h[1:]))
	switch most := limit(kind); {
	case most <= 0:
		return 0, nil, fmt.Errorf("unexpected frame of kind %d", kind)
	case n > most:
		return 0, nil, fmt.Errorf("frame of kind %d is %d bytes long, at most %d are allowed", kind, n, most)
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, min(2*n, MaxData)))
	}
	payload = r.buf[:n]
	_, err = io.ReadFull(r.br, payload)
	return kind, payload, err
}

// ReadJSON reads one frame of the given kind into v.
func (r *Reader) ReadJSON(kind byte, most int, v any) error {
	_, b, err := r.Next(func(k byte) int {
		if k == kind {
			return most
		}
		return 0
	})
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// ID is the payload of Stop and Kill.
func ID(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

// ParseID reads the payload of Stop and Kill.
func ParseID(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("process id of %d bytes", len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

const (
	followedFresh = 1 << iota
	followedCut
)

// Followed is sandbox.Followed. On the wire: 4 bytes Of, 4 bytes File, 1 byte of
// flags, the data.
type Followed struct {
	Of, File   uint32
	Fresh, Cut bool
	Data       []byte
}

const followedHead = 9

// Encode makes the payload of a frame.
func (f Followed) Encode() []byte {
	b := binary.BigEndian.AppendUint32(make([]byte, 0, followedHead+len(f.Data)), f.Of)
	b = binary.BigEndian.AppendUint32(b, f.File)
	flags := byte(0)
	if f.Fresh {
		flags |= followedFresh
	}
	if f.Cut {
		flags |= followedCut
	}
	return append(append(b, flags), f.Data...)
}

// DecodeFollowed takes the payload of a frame apart; Data is part of it.
func DecodeFollowed(b []byte) (Followed, error) {
	if len(b) < followedHead {
		return Followed{}, fmt.Errorf("a followed part of %d bytes", len(b))
	}
	return Followed{
		Of: binary.BigEndian.Uint32(b), File: binary.BigEndian.Uint32(b[4:]),
		Fresh: b[8]&followedFresh != 0, Cut: b[8]&followedCut != 0, Data: b[followedHead:],
	}, nil
}
