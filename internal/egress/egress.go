// Package egress is the way out of a box whose network is an allow-list: an HTTP
// proxy on the runner's side, reached through the box's tunnel. The box has no
// interface but loopback, so what does not ask here goes nowhere. It knows
// neither credentials nor vendors; that is the model gateway's business, and a
// room of its own keeps keys away from code that serves whatever a box sends.
//
// A request is judged by the name it gives (list.go), the name is resolved here
// and nowhere else, the address found is judged (address.go) and that very
// address dialled (dial.go). Every request is reported once, when it has ended.
package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/handoff"
)

const (
	dialTime = 15 * time.Second
	// idleTime ends a connection on which nothing moves.
	idleTime = 10 * time.Minute
	// helloTime is how long a box may take to say which TLS server it wants.
	helloTime = 30 * time.Second
)

// Options set up a Proxy. Private is required.
type Options struct {
	// Private says whether the operator's policy lets boxes reach a host of the
	// list at addresses that are not of the internet, and if not, what would
	// allow it.
	Private func(host string) (words string, ok bool)
	// Lookup resolves a name, Dial connects; nil: this machine's resolver and
	// network.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Proxy opens sessions. It is safe for concurrent use and holds nothing.
type Proxy struct{ opts Options }

// New returns a Proxy.
func New(o Options) *Proxy {
	if o.Lookup == nil {
		o.Lookup = lookup
	}
	if o.Dial == nil {
		o.Dial = dial
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Proxy{o}
}

func lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if strings.Contains(name, ".") {
		name += "." // keeps the search domains of this machine out
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

func dial(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr.String())
}

// Session is the proxy of one box. It is safe for concurrent use.
type Session struct {
	opts      Options
	list      List
	log       *ledger
	server    *handoff.Server
	transport *http.Transport
	ctx       context.Context //nolint:containedctx // the session's own life: Close ends what is being dialled
	cancel    context.CancelFunc

	mu     sync.Mutex
	closed bool
	active sync.WaitGroup // requests
}

// Open starts the proxy of a box. asked is called when a request is made,
// possibly by several goroutines at once; what it returns is told when the
// request has ended. The caller closes the session.
func (p *Proxy) Open(list List, asked func() func(event.EgressCall)) *Session {
	s := &Session{opts: p.opts, list: list, log: newLedger(asked)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.transport = s.newTransport()
	s.server = handoff.New(http.HandlerFunc(s.serveHTTP), idleTime)
	return s
}

// Serve answers one connection from the box and returns when it has ended. It
// closes conn.
func (s *Session) Serve(conn net.Conn) { s.server.Serve(conn) }

// Close ends every connection and waits until all requests are reported.
func (s *Session) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.server.Close()
	s.active.Wait()
	s.log.close()
}

func (s *Session) serveHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.active.Add(1)
	s.mu.Unlock()
	defer s.active.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	if r.Method == http.MethodConnect {
		s.connect(ctx, w, r)
		return
	}
	s.forward(ctx, w, r)
}
