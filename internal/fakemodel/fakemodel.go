// Package fakemodel is a scripted model server for tests, demos and probing of
// real agent CLIs. It stands where a vendor's API stands, upstream of the model
// gateway, and speaks Anthropic Messages, OpenAI Responses and Chat
// Completions, and Gemini. It answers from scenarios (see Scenario: real work
// over several turns) or from a script in the base URL (see Script: one
// behaviour or failure). What is not scripted fails loudly.
package fakemodel

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxBody bounds a request body in bytes.
const maxBody = 64 << 20

// Options configure a fake model server. The zero value serves scripts only.
type Options struct {
	// Scenarios answer requests without a script. Anthropic Messages only.
	Scenarios []Scenario
	// Log gets every request as one JSON line; nil: no log. Writes are
	// serialised.
	Log io.Writer
	// Clock is used for log records and rate-limit resets; nil: time.Now.
	Clock func() time.Time
}

type server struct {
	scenarios []Scenario
	clock     func() time.Time

	mu     sync.Mutex
	log    io.Writer
	seq    int
	counts map[string]int // model requests seen, by run or scenario turn
}

// Handler returns the server. It is safe for concurrent use.
func Handler(opts Options) http.Handler {
	s := &server{scenarios: opts.Scenarios, clock: opts.Clock, log: opts.Log, counts: map[string]int{}}
	if s.clock == nil {
		s.clock = time.Now
	}
	return s
}

// entry is one line of the request log.
type entry struct {
	N       int               `json:"n"`
	T       string            `json:"t"`
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Script  string            `json:"script,omitempty"`
	Run     string            `json:"run,omitempty"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body,omitempty"`
	Answer  string            `json:"answer,omitempty"`
}

// exchange is a model request with everything an answer depends on.
type exchange struct {
	w      http.ResponseWriter
	r      *http.Request
	path   string // without the script prefix
	req    object
	script Script
	n      int // 1-based number of this model request in its run
	clock  func() time.Time
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	e := entry{Method: r.Method, URL: r.URL.String(), Headers: flatten(r.Header), Body: logged(body)}
	if err != nil {
		e.Answer = "unreadable"
		s.record(e)
		return
	}
	if r.Method == http.MethodConnect || r.URL.IsAbs() {
		e.URL, e.Answer = r.RequestURI, "proxy-refused-403"
		s.record(e)
		http.Error(w, "blocked by fakemodel", http.StatusForbidden)
		return
	}
	x := &exchange{w: w, r: r, path: r.URL.Path, clock: s.clock}
	if m := playWords().FindSubmatch(body); m != nil && !strings.HasPrefix(x.path, "/s/") {
		x.path = "/s" + string(m[1]) + x.path
	}
	scripted := strings.HasPrefix(x.path, "/s/")
	if scripted {
		e.Script, e.Run, x.path = splitPrefix(x.path)
	}
	x.script = ParseScript(e.Script)
	_ = json.Unmarshal(body, &x.req) // a body that is no object has no fields: the answer to nothing
	e.Answer = s.answer(x, scripted, e.Script+"|"+e.Run)
	s.record(e)
}

func (s *server) answer(x *exchange, scripted bool, run string) string {
	if want := x.script["xkey"]; want != "" && offeredKey(x.r.Header) != want {
		x.fail(http.StatusUnauthorized, "authentication_error", "invalid x-api-key")
		return "bad-key"
	}
	model := isModelPath(x.path)
	switch {
	case model && strings.EqualFold(x.r.Header.Get("Upgrade"), "websocket"):
		http.Error(x.w, "no websocket here", http.StatusUpgradeRequired)
		return "ws-426"
	case !model || x.r.Method != http.MethodPost:
		return x.sideAnswer()
	case !scripted:
		return s.playScenario(x)
	}
	x.n = s.count(run)
	if !x.pause(time.Duration(x.script.num("delay", 0)) * time.Millisecond) {
		return "gone"
	}
	if f := x.script["fail"]; f != "" && x.n <= x.script.num("n", 1<<30) {
		x.failAs(f)
		return "fail:" + f
	}
	switch {
	case strings.HasSuffix(x.path, "/messages"):
		return x.anthropic()
	case strings.HasSuffix(x.path, "/responses"):
		return x.responses()
	case strings.HasSuffix(x.path, "/chat/completions"):
		return x.chat()
	default:
		return x.gemini()
	}
}

// sideAnswer serves what CLIs ask beside the model itself.
func (x *exchange) sideAnswer() string {
	x.w.Header().Set("Content-Type", "application/json")
	switch {
	case strings.HasSuffix(x.path, "/messages/count_tokens"):
		writeString(x.w, `{"input_tokens":1234}`)
		return "count_tokens"
	case strings.Contains(x.path, ":countTokens"):
		writeString(x.w, `{"totalTokens":1234}`)
		return "countTokens"
	case strings.HasSuffix(x.path, "/responses/input_tokens"):
		writeString(x.w, `{"object":"response.input_tokens","input_tokens":1234}`)
		return "input_tokens"
	case strings.HasSuffix(x.path, "/responses/compact"):
		writeString(x.w, `{"id":"resp_fake","object":"response.compaction","created_at":0,"output":[{"type":"compaction","encrypted_content":"ZmFrZQ=="}],"usage":{"input_tokens":100,"output_tokens":20,"total_tokens":120}}`)
		return "compact"
	case strings.HasSuffix(x.path, "/models") && x.r.Method == http.MethodGet:
		writeString(x.w, `{"object":"list","data":[{"id":"fake-model","type":"model","object":"model","display_name":"Fake","created_at":"2025-01-01T00:00:00Z"}],"has_more":false,"first_id":"fake-model","last_id":"fake-model"}`)
		return "models"
	case x.r.Method == http.MethodHead:
		return "200-head"
	}
	x.w.WriteHeader(http.StatusNotFound)
	writeString(x.w, `{"type":"error","error":{"type":"not_found_error","message":"fakemodel: no such path"}}`)
	return "404"
}

// pause waits for d and tells whether the client is still there.
func (x *exchange) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

func (s *server) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[key]++
	return s.counts[key]
}

func (s *server) record(e entry) {
	if s.log == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	e.N = s.seq
	e.T = s.clock().UTC().Format("2006-01-02T15:04:05.000Z")
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	_, _ = s.log.Write(append(line, '\n')) // a full disk must not change the answers
}

func logged(body []byte) json.RawMessage {
	switch {
	case len(body) == 0:
		return nil
	case json.Valid(body):
		return body
	}
	quoted, _ := json.Marshal(string(body[:min(len(body), 400)]))
	return quoted
}

func flatten(h http.Header) map[string]string {
	m := make(map[string]string, len(h))
	for k, v := range h {
		m[k] = strings.Join(v, " | ")
	}
	return m
}

func offeredKey(h http.Header) string {
	return h.Get("x-api-key") + strings.TrimPrefix(h.Get("Authorization"), "Bearer ") + h.Get("x-goog-api-key")
}

func isModelPath(p string) bool {
	return strings.HasSuffix(p, "/messages") || strings.HasSuffix(p, "/responses") ||
		strings.HasSuffix(p, "/chat/completions") || strings.Contains(p, "enerateContent")
}
