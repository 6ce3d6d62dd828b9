package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/handoff"
	"github.com/herd-runner/herd-runner/runtimes"
)

// keepAlive is how long CLIs think and run tools between requests.
const keepAlive = 10 * time.Minute

// Session is the gateway's side of one attempt of one agent step. Its token
// opens nothing else and dies with it. Safe for concurrent use.
type Session struct {
	gw         *Gateway
	mode       Mode // Live, Record or Replay
	lane       Lane
	dialects   []*dialect
	base       *url.URL // in place of the APIs' own; nil: those
	limits     Limits
	emit       func(event.ModelCall)
	waiting    func(event.Wait)
	deadline   time.Time  // zero: none
	accounts   []*account // nearest first
	credential runtimes.Credential
	server     *handoff.Server
	scrubber   *scrubber // Record and Replay
	recorder   *recorder // Record only
	player     *player   // Replay only

	closeOnce sync.Once
	closeErr  error
	active    sync.WaitGroup // exchanges

	mu     sync.Mutex
	closed bool
	view   runtimes.GatewayView
	// fruitless counts requests since the last answer; fruitlessEnd is how the
	// last one ended.
	fruitless    int
	fruitlessEnd string
}

// SessionOptions say what a session is for.
type SessionOptions struct {
	Lane   Lane
	Limits Limits
	// APIs are those that the runtime speaks, in the words of
	// runtimes.Description. A credential is needed for one of them at least.
	APIs []string
	// BaseURL is where the API is instead of the configured place; empty:
	// there. The credential goes to it, so the caller has asked the operator.
	BaseURL string
	// Emit gets every exchange once, when it has ended, possibly from several
	// goroutines; nil drops them.
	Emit func(event.ModelCall)
	// Waiting is told, as Emit, when a request is kept waiting; nil drops it.
	Waiting func(event.Wait)
	// Deadline is when the step must end: no request waits longer. Zero: none.
	Deadline time.Time
}

// Open starts a session. In Replay it fails where the cassette has no such
// lane. The caller closes the session.
func (g *Gateway) Open(o SessionOptions) (*Session, error) {
	s := &Session{gw: g, mode: g.modeOf(o.Lane), lane: o.Lane, limits: o.Limits, emit: o.Emit, waiting: o.Waiting, deadline: o.Deadline, dialects: speaking(o.APIs)}
	if len(s.dialects) == 0 {
		return nil, fmt.Errorf("the model gateway speaks none of the APIs %q, only %s", o.APIs, strings.Join(APIs(), ", "))
	}
	if s.emit == nil {
		s.emit = func(event.ModelCall) {}
	}
	if s.waiting == nil {
		s.waiting = func(event.Wait) {}
	}
	own := Budget{Name: "one attempt of " + o.Lane.String(), Limit: Amounts{CostUSD: o.Limits.CostUSD, Tokens: o.Limits.Tokens, Requests: o.Limits.Requests}}
	s.accounts = append([]*account{{Budget: own}}, g.accounts.open(o.Limits.Budgets)...)
	if err := s.rebase(o); err != nil {
		return nil, err
	}
	s.view.Usage.CostKnown = true
	s.scrubber = newScrubber(g.redact)
	if err := s.identify(o.APIs); err != nil {
		return nil, err
	}
	switch s.mode {
	case Record:
		var err error
		if s.recorder, err = newRecorder(g.dir, o.Lane, s.scrubber); err != nil {
			return nil, err
		}
	case Replay:
		recorded, err := g.cassette.lane(o.Lane)
		if err != nil {
			return nil, err
		}
		s.player = newPlayer(recorded)
	}
	s.server = handoff.New(http.HandlerFunc(s.serveHTTP), keepAlive)
	if !g.sessions.add(s) {
		s.server.Close()
		return nil, errors.New("gateway: closed")
	}
	return s, nil
}

// modeOf tells what is done with the exchanges of a lane.
func (g *Gateway) modeOf(l Lane) Mode {
	switch {
	case g.mode != ReplayOrRecord:
		return g.mode
	case g.cassette.lanes[l] != nil:
		return Replay
	}
	return Record
}

// rebase takes the session's own base URL.
func (s *Session) rebase(o SessionOptions) error {
	if o.BaseURL == "" {
		return nil
	}
	if len(o.APIs) > 1 {
		return fmt.Errorf("base-url %q: the runtime speaks several APIs (%s), and only one can be there; name the vendor in the model", o.BaseURL, strings.Join(o.APIs, ", "))
	}
	var err error
	s.base, err = parseBase(o.BaseURL)
	if err != nil {
		return fmt.Errorf("base-url %w", err)
	}
	return nil
}

// identify makes the session's token, of the kind of the first credential there
// is. Of several APIs one may have none: requests for it are then refused.
func (s *Session) identify(apis []string) error {
	var missing error
	for _, api := range apis {
		v := vendorOf(api)
		if v == nil {
			continue
		}
		cred, err := s.realCredential(context.Background(), v)
		if err != nil {
			missing = cmp.Or(missing, err)
			continue
		}
		s.scrubber.know(cred.Value)
		if s.credential.Token == "" {
			s.credential = runtimes.Credential{Kind: cred.Kind, Token: v.placeholder(cred.Kind)}
			s.scrubber.know(s.credential.Token)
		}
	}
	if s.credential.Token == "" {
		return missing
	}
	return nil
}

// realCredential is the one to use now, in Replay a placeholder. One that is good for a single place is
// not sent to any other.
func (s *Session) realCredential(ctx context.Context, v *vendor) (Credential, error) {
	if s.mode == Replay { // nothing leaves
		return Credential{Kind: APIKey, Value: "replay", Origin: "replay"}, nil
	}
	cred, err := s.gw.credentials(ctx, v.api)
	if err != nil || cred.upstream == nil {
		return cred, err
	}
	elsewhere := s.base
	if own := s.gw.upstreams[v.api]; elsewhere == nil && own.String() != v.upstream {
		elsewhere = own
	}
	if elsewhere != nil {
		return Credential{}, &CredentialError{
			Problem: fmt.Sprintf("the login in %s is good for %s only, not for %s", cred.Origin, cred.upstream.Host, elsewhere.Host),
			Hint:    "set OPENAI_API_KEY",
		}
	}
	return cred, nil
}

// Credential is what the box gets in place of the real credential.
func (s *Session) Credential() runtimes.Credential { return s.credential }

// Serve answers the HTTP/1.1 requests of one connection from the box and
// returns when it has ended. It closes conn.
func (s *Session) Serve(conn net.Conn) { s.server.Serve(conn) }

// View is what the session saw up to now.
func (s *Session) View() runtimes.GatewayView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// Close ends the session's connections and exchanges, waits for them, and in
// Record puts what was recorded in the place of the lane's earlier recording.
// Further calls return the same error.
func (s *Session) Close() error {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.server.Close()
		s.active.Wait()
		s.gw.sessions.remove(s)
		if s.recorder != nil {
			s.closeErr = s.recorder.close()
		}
	})
	return s.closeErr
}

// enter registers an exchange; false when the session is closed.
func (s *Session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.active.Add(1)
	return true
}

// account adds an ended exchange to the view and reports it.
func (s *Session) account(x *exchange, used tokens, retryAt time.Time, message string) {
	call := x.call
	message = cutText(s.gw.redact(message), 2<<10)
	s.mu.Lock()
	v := &s.view
	v.Usage.Requests += call.Usage.Requests
	v.Usage.InputTokens += call.Usage.InputTokens
	v.Usage.OutputTokens += call.Usage.OutputTokens
	v.Usage.CacheReadTokens += call.Usage.CacheReadTokens
	v.Usage.CacheWriteTokens += call.Usage.CacheWriteTokens
	v.Usage.ReasoningTokens += call.Usage.ReasoningTokens
	v.Usage.CostUSD += call.Usage.CostUSD
	v.Usage.CostKnown = v.Usage.CostKnown && call.Usage.CostKnown
	v.Usage.Estimated = v.Usage.Estimated || call.Usage.Estimated
	v.Usage.CostBasis = event.JoinBasis(v.Usage.CostBasis, call.Usage.CostBasis)
	s.progressed(x)
	// Counting tokens is a side request, and an agent that leaves a request
	// behind says nothing about the API: neither decides how the run ended.
	// Nor does a WebSocket that was tried first. Of an agent that was stopped for
	// asking again and again the API's own last error says more.
	aside := call.Reason == "no_progress" && v.LastStatus >= 400 || x.req.purpose == count && call.Status < 400 ||
		(call.Reason == "client_gone" || call.Reason == "upgrade") && v.LastStatus != 0
	if !aside {
		v.API, v.LastStatus, v.LastReason, v.LastStop = x.dialect.api, call.Status, call.Reason, call.StopReason
		v.RetryAt, v.Error = retryAt, message
	}
	s.mu.Unlock()
	s.emit(call)
}

// sessionSet holds the open sessions of a gateway.
type sessionSet struct {
	mu     sync.Mutex
	closed bool
	open   map[*Session]struct{}
}

func (t *sessionSet) add(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	if t.open == nil {
		t.open = map[*Session]struct{}{}
	}
	t.open[s] = struct{}{}
	return true
}

func (t *sessionSet) remove(s *Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, s)
}

// all closes the set and returns what was open.
func (t *sessionSet) all() []*Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	out := make([]*Session, 0, len(t.open))
	for s := range t.open {
		out = append(out, s)
	}
	return out
}

// String names the lane for the person.
func (l Lane) String() string {
	s := fmt.Sprintf("job %q, step %q", l.Job, l.Step)
	if l.Attempt > 1 {
		s += fmt.Sprintf(", attempt %d", l.Attempt)
	}
	return s
}
