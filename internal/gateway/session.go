package gateway

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	lane       Lane
	limits     Limits
	emit       func(event.ModelCall)
	credential runtimes.Credential
	server     *handoff.Server
	scrubber   *scrubber // Record and Replay
	recorder   *recorder // Record only
	player     *player   // Replay only

	closeOnce sync.Once
	closeErr  error
	active    sync.WaitGroup // exchanges

	mu       sync.Mutex
	closed   bool
	view     runtimes.GatewayView
	admitted int   // requests let through, also those still under way
	consumed int64 // tokens of all kinds
}

// Open starts a session. In Replay it fails where the cassette has no such
// lane. emit gets every exchange once, when it has ended, possibly from
// several goroutines; nil drops them. The caller closes the session.
func (g *Gateway) Open(lane Lane, limits Limits, emit func(event.ModelCall)) (*Session, error) {
	cred, err := g.credential(context.Background())
	if err != nil {
		return nil, err
	}
	if emit == nil {
		emit = func(event.ModelCall) {}
	}
	s := &Session{gw: g, lane: lane, limits: limits, emit: emit,
		credential: runtimes.Credential{Kind: cred.Kind, Token: placeholder(cred.Kind)}}
	s.view.Usage.CostKnown = true
	s.scrubber = newScrubber(g.redact)
	s.scrubber.know(s.credential.Token)
	switch g.mode {
	case Record:
		s.scrubber.know(cred.Value)
		if s.recorder, err = newRecorder(g.dir, lane, s.scrubber); err != nil {
			return nil, err
		}
	case Replay:
		recorded, err := g.cassette.lane(lane)
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

// placeholder looks like the real thing to a CLI that checks its prefix.
func placeholder(kind string) string {
	if kind == OAuth {
		return "sk-ant-oat01-herd-" + rand.Text()
	}
	return "sk-ant-herd-" + rand.Text()
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

// owns tells whether the request bears this session's token, and no other one.
func (s *Session) owns(h http.Header) bool {
	keys, auth := h.Values("X-Api-Key"), h.Values("Authorization")
	offered := func(values []string, prefix string) (given, right bool) {
		right = len(values) == 1
		for _, v := range values {
			given = true
			token, ok := strings.CutPrefix(v, prefix)
			same := subtle.ConstantTimeCompare([]byte(token), []byte(s.credential.Token)) == 1
			right = right && ok && same
		}
		return given, right
	}
	keyGiven, keyRight := offered(keys, "")
	authGiven, authRight := offered(auth, "Bearer ")
	if s.credential.Kind == OAuth {
		return authRight && (!keyGiven || keyRight)
	}
	return keyRight && (!authGiven || authRight)
}

// account adds an ended exchange to the view and reports it.
func (s *Session) account(call event.ModelCall, used tokens, retryAt time.Time, message string) {
	message = cutText(s.gw.redact(message), 2<<10)
	s.mu.Lock()
	v := &s.view
	v.Usage.Requests += call.Usage.Requests
	v.Usage.InputTokens += call.Usage.InputTokens
	v.Usage.OutputTokens += call.Usage.OutputTokens
	v.Usage.CacheReadTokens += call.Usage.CacheReadTokens
	v.Usage.CacheWriteTokens += call.Usage.CacheWriteTokens
	v.Usage.CostUSD += call.Usage.CostUSD
	v.Usage.CostKnown = v.Usage.CostKnown && call.Usage.CostKnown
	s.consumed += used.total()
	// Counting tokens is a side request, and an agent that leaves a request
	// behind says nothing about the API: neither decides how the run ended.
	aside := call.Path == countPath && call.Status < 400 || call.Reason == "client_gone" && v.LastStatus != 0
	if !aside {
		v.LastStatus, v.LastReason, v.LastStop = call.Status, call.Reason, call.StopReason
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
