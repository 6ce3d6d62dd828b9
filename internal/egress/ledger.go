package egress

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

const (
	// maxCalls of a box are reported one by one. Further ones are counted, by
	// where they went and how they ended, and reported at its end.
	maxCalls = 10_000
	// maxKinds of those are told apart.
	maxKinds = 1_000
	// openTime is after how long a request that goes on is told: whoever ends the
	// runner with it leaves a trace.
	openTime = 500 * time.Millisecond
)

// ledger reports requests, boundedly: a box can make any number of them.
type ledger struct {
	asked func() func(event.EgressCall)

	mu    sync.Mutex
	calls int
	later map[event.EgressCall]*event.EgressCall // by what they have in common
}

func newLedger(asked func() func(event.EgressCall)) *ledger {
	return &ledger{asked: asked, later: map[event.EgressCall]*event.EgressCall{}}
}

// room says whether requests are still reported one by one.
func (l *ledger) room() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls < maxCalls
}

func (l *ledger) add(e event.EgressCall, tell func(event.EgressCall)) {
	l.mu.Lock()
	l.calls++
	if l.calls <= maxCalls {
		l.mu.Unlock()
		tell(e)
		return
	}
	defer l.mu.Unlock()
	key := event.EgressCall{Method: e.Method, Host: e.Host, Port: e.Port, Allowed: e.Allowed, Entry: e.Entry, Reason: e.Reason, Message: e.Message, Hint: e.Hint}
	if l.later[key] == nil && len(l.later) >= maxKinds {
		key = event.EgressCall{Allowed: e.Allowed, Message: "requests too many to tell apart"}
	}
	sum := l.later[key]
	if sum == nil {
		sum = &event.EgressCall{}
		*sum = key
		l.later[key] = sum
	}
	sum.Count++
	sum.Sent += e.Sent
	sum.Received += e.Received
	sum.DurationMS += e.DurationMS
}

// close reports what was only counted.
func (l *ledger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sums []event.EgressCall
	for _, sum := range l.later {
		sums = append(sums, *sum)
	}
	slices.SortFunc(sums, func(a, b event.EgressCall) int {
		return strings.Compare(fmt.Sprint(a.Host, a.Port, a.Method, a.Reason), fmt.Sprint(b.Host, b.Port, b.Method, b.Reason))
	})
	for _, sum := range sums {
		l.asked()(sum)
	}
	l.later = map[event.EgressCall]*event.EgressCall{}
}

// call is one request on its way.
type call struct {
	session *Session
	tell    func(event.EgressCall)
	start   time.Time
	method  string
	target  target
	entry   string
	status  int

	// What connections add, which may be made still when the request has ended.
	address        atomic.Pointer[string]
	sent, received atomic.Int64

	mu    sync.Mutex
	timer *time.Timer // of what is told while it is open
	told  bool
	ended bool
}

func (s *Session) begin(method string) *call {
	return &call{session: s, tell: s.log.asked(), start: s.opts.Now(), method: method}
}

// connected is told that there is a connection to the server.
func (c *call) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil && !c.ended {
		c.timer = time.AfterFunc(openTime, c.tellOpen)
	}
}

func (c *call) tellOpen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || !c.session.log.room() {
		return
	}
	c.told = true
	e := c.sofar()
	e.Open = true
	c.tell(e)
}

// sofar is the request as it stands, which the list has let out.
func (c *call) sofar() event.EgressCall {
	e := event.EgressCall{
		Method: c.method, Host: c.target.name, Port: c.target.port, Allowed: true, Entry: c.entry,
		Sent: c.sent.Load(), Received: c.received.Load(), DurationMS: c.session.opts.Now().Sub(c.start).Milliseconds(),
	}
	if address := c.address.Load(); address != nil {
		e.Address = *address
	}
	return e
}

// end reports the request; f is nil where it got through.
func (c *call) end(f *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	e := c.sofar()
	e.Status, e.Told = c.status, c.told
	if f != nil {
		e.Allowed = !f.refused()
		e.Reason, e.Message, e.Hint = f.reason, f.message, f.hint
	}
	c.session.log.add(e, c.tell)
}

// counted counts what goes over a connection to a server.
type counted struct {
	net.Conn
	call *call
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.call.received.Add(int64(n))
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	c.call.sent.Add(int64(len(b))) // first: the answer may be there before Write returns
	n, err := c.Conn.Write(b)
	c.call.sent.Add(int64(n - len(b)))
	return n, err
}

// CloseWrite ends one direction.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Conn.Close()
}

type callKey struct{}

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// callOf is the request that a connection is made for.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// quote shows what a box said, cut short.
func quote(s string) string { return fmt.Sprintf("%.100q", s) }
