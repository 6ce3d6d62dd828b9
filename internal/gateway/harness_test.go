package gateway

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/fakemodel"
)

const realKey = "sk-ant-api03-REALrealREAL-0123456789abcdefghij"

func staticKey(context.Context, string) (Credential, error) {
	return Credential{Kind: APIKey, Value: realKey, Origin: "test"}, nil
}

func staticLogin(context.Context, string) (Credential, error) {
	return Credential{Kind: OAuth, Value: realKey, Origin: "test", Beta: oauthBeta}, nil
}

// upstream is a server in the vendor's place that keeps what it was asked.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
	body []string
}

func newUpstream(t testing.TB, h http.HandlerFunc) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.seen, u.body = append(u.seen, r.Clone(context.Background())), append(u.body, string(b))
		u.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		h(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) requests() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.seen)
}

func fakeUpstream(t testing.TB, scenarios string) *upstream {
	t.Helper()
	opts := fakemodel.Options{}
	if scenarios != "" {
		s, err := fakemodel.ParseScenarios([]byte(scenarios))
		if err != nil {
			t.Fatal(err)
		}
		opts.Scenarios = s
	}
	return newUpstream(t, fakemodel.Handler(opts).ServeHTTP)
}

func newGateway(t testing.TB, o Options) *Gateway {
	t.Helper()
	if o.Mode == "" {
		o.Mode = Live
	}
	if o.Credentials == nil && o.Mode != Replay {
		o.Credentials = staticKey
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// box is an open session with a client that stands for the agent.
type box struct {
	*Session
	url   string
	mu    sync.Mutex
	calls []event.ModelCall
	t     testing.TB
}

func openBox(t testing.TB, g *Gateway, lane Lane, limits Limits) *box {
	t.Helper()
	return openBoxOf(t, g, SessionOptions{Lane: lane, Limits: limits, APIs: APIs()[:1]})
}

func openBoxOf(t testing.TB, g *Gateway, o SessionOptions) *box {
	t.Helper()
	b := &box{t: t}
	o.Emit = func(c event.ModelCall) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, c)
	}
	s, err := g.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Session = s
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(c)
		}
	}()
	b.url = "http://" + l.Addr().String()
	return b
}

// at puts every API at one base URL.
func at(base string) map[string]string {
	bases := map[string]string{}
	for _, api := range APIs() {
		bases[api] = base
	}
	return bases
}

func lane(step string) Lane { return Lane{Job: "test", Step: step, Attempt: 1} }

// journal waits for the n-th exchange to be accounted for.
func (b *box) journal(n int) []event.ModelCall {
	b.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		b.mu.Lock()
		calls := append([]event.ModelCall(nil), b.calls...)
		b.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		<-time.After(time.Millisecond)
	}
	b.t.Fatalf("journal has not %d exchanges", n)
	return nil
}

type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (b *box) request(method, path, body string, headers ...string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if b.Credential().Kind == OAuth {
		r.Header.Set("Authorization", "Bearer "+b.Credential().Token)
	} else {
		r.Header.Set("X-Api-Key", b.Credential().Token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	return r
}

func (b *box) do(r *http.Request) answer {
	b.t.Helper()
	resp, err := client().Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}

func (b *box) post(body string, headers ...string) answer {
	b.t.Helper()
	return b.do(b.request(http.MethodPost, "/v1/messages?beta=true", body, headers...))
}

// raw speaks on the connection itself.
func (b *box) raw(request string) *http.Response {
	b.t.Helper()
	here, there := net.Pipe()
	go b.Serve(there)
	b.t.Cleanup(func() { _ = here.Close() })
	go func() { _, _ = io.WriteString(here, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(here), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp
}

func client() *http.Client { return &http.Client{Timeout: 20 * time.Second} }

func hello(text string) string {
	return `{"model":"claude-sonnet-5","stream":true,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"` + text + `"}]}`
}
