package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/fakemodel"
)

// model is the scripted model server in this process.
type model struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	log   bytes.Buffer
	holds []*hold
	fails []*failing
}

// failing answers requests with an error in the scenarios' stead.
type failing struct {
	match []string
	times int
}

// hold keeps a request waiting until the test has looked around.
type hold struct {
	match    []string
	reached  chan struct{}
	once     sync.Once
	released chan struct{}
}

func newModel(t *testing.T, scenarios string) *model {
	t.Helper()
	return newModelAt(t, "127.0.0.1", scenarios)
}

// newModelAt is newModel at another address of this machine.
func newModelAt(t *testing.T, address, scenarios string) *model {
	t.Helper()
	m := &model{t: t}
	opts := fakemodel.Options{Log: &lockedWriter{&m.mu, &m.log}}
	if scenarios != "" {
		parsed, err := fakemodel.ParseScenarios([]byte(scenarios))
		if err != nil {
			t.Fatal(err)
		}
		opts.Scenarios = parsed
	}
	inner := fakemodel.Handler(opts)
	listener, err := net.Listen("tcp", address+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		m.keep(r, string(body))
		if m.failed(w, string(body)) {
			return
		}
		inner.ServeHTTP(w, r)
	})}}
	server.Start()
	t.Cleanup(func() {
		m.mu.Lock()
		for _, h := range m.holds {
			h.release()
		}
		m.mu.Unlock()
		server.CloseClientConnections()
		server.Close()
	})
	m.url = server.URL
	return m
}

func (m *model) keep(r *http.Request, body string) {
	m.mu.Lock()
	holds := m.holds
	m.mu.Unlock()
	for _, h := range holds {
		if !holdsAll(body, h.match) {
			continue
		}
		h.once.Do(func() { close(h.reached) })
		select {
		case <-h.released:
		case <-r.Context().Done():
		}
	}
}

func holdsAll(body string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(body, part) })
}

// limit answers the next requests that hold every part of match as a model
// under load does, in words that keep a CLI from trying again by itself.
func (m *model) limit(times int, match ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = append(m.fails, &failing{match, times})
}

func (m *model) failed(w http.ResponseWriter, body string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.fails {
		if f.times == 0 || !holdsAll(body, f.match) {
			continue
		}
		f.times--
		w.Header().Set("X-Should-Retry", "false")
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`)
		return true
	}
	return false
}

// What tells a request with a tool's result from the first one, and the agents
// from each other.
const (
	afterTool  = `"tool_result"`
	fromClaude = `"name":"Bash"`
	fromSDK    = `"name":"bash"`
)

// hold keeps requests whose body contains every part of match, from now on.
func (m *model) hold(match ...string) *hold {
	h := &hold{match: match, reached: make(chan struct{}), released: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds = append(m.holds, h)
	return h
}

func (h *hold) wait(t *testing.T, p *process) {
	t.Helper()
	select {
	case <-h.reached:
	case <-p.done:
		t.Fatalf("herd-runner ended before the model was asked for %q:\n%s", h.match, p.log())
	case <-time.After(eventTime):
		t.Fatalf("the model was not asked for %q within %v:\n%s", h.match, eventTime, p.log())
	}
}

func (h *hold) release() {
	select {
	case <-h.released:
	default:
		close(h.released)
	}
}

// request is one that the model got.
type request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Run     string            `json:"run"` // of the script
	Headers map[string]string `json:"headers"`
	Answer  string            `json:"answer"`
	Body    struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	} `json:"body"`
}

// firstText is all text of the first message.
func (r request) firstText() string {
	if len(r.Body.Messages) == 0 {
		return ""
	}
	content := r.Body.Messages[0].Content
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	for _, b := range blocks {
		text += b.Text + "\n"
	}
	return text
}

func (m *model) requests() []request {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []request
	for line := range bytes.Lines(m.log.Bytes()) {
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			m.t.Fatalf("request log: %v: %s", err, line)
		}
		all = append(all, r)
	}
	return all
}

// asked tells the environment of a runner whose model this is.
func (m *model) asked(key string) []string {
	return []string{"ANTHROPIC_BASE_URL=" + m.url, "ANTHROPIC_API_KEY=" + key}
}
