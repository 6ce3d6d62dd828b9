package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// Paths of Anthropic's API that the gateway serves.
const (
	messagesPath = "/v1/messages"
	countPath    = "/v1/messages/count_tokens"
	modelsPath   = "/v1/models"
)

// Bounds of a request from the box.
const (
	maxRequestBody = 64 << 20 // bytes; the API itself takes 32 MB
	bodyTimeout    = 2 * time.Minute
)

// exchange is one request from the box on its way.
type exchange struct {
	s       *Session
	w       http.ResponseWriter
	r       *http.Request
	started time.Time
	call    event.ModelCall
	body    []byte
	req     request
}

func (s *Session) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.active.Done()
	x := &exchange{s: s, w: w, r: r, started: s.gw.clock()}
	x.call = event.ModelCall{Method: cutText(r.Method, 32), Path: cutText(r.URL.Path, 256), Mode: string(s.gw.mode)}
	x.call.Usage.CostKnown = true
	if no := x.strange(); no != nil {
		x.refuse(*no)
		return
	}
	if r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet) {
		w.WriteHeader(http.StatusOK) // CLIs look whether somebody is there, without a token
		return
	}
	if !s.owns(r.Header) {
		x.refuse(refusal{http.StatusUnauthorized, "authentication_error", "auth",
			"herd-runner: this request does not bear the token of its step; the gateway serves only the agent it was started for"})
		return
	}
	switch {
	case r.URL.Path == modelsPath && r.Method == http.MethodGet:
		x.listModels()
	case (r.URL.Path == messagesPath || r.URL.Path == countPath) && r.Method == http.MethodPost:
		x.serve()
	default:
		x.refuse(unknownPath(r.Method, r.URL.Path))
	}
}

// strange finds what no agent CLI has a reason to send to its model API.
func (x *exchange) strange() *refusal {
	r := x.r
	switch {
	case r.Method == http.MethodConnect || r.URL.IsAbs():
		return &refusal{http.StatusForbidden, "permission_error", "proxy",
			"herd-runner: the model gateway is no proxy; set NO_PROXY=127.0.0.1 for requests to it"}
	case !isLoopback(r.Host):
		return &refusal{http.StatusForbidden, "permission_error", "host",
			fmt.Sprintf("herd-runner: the model gateway does not serve host %q", cutText(r.Host, 100))}
	case r.Header.Get("Upgrade") != "":
		return &refusal{http.StatusUpgradeRequired, "invalid_request_error", "upgrade",
			"herd-runner: the model gateway speaks plain HTTP/1.1, no WebSocket"}
	}
	return nil
}

func unknownPath(method, path string) refusal {
	message := fmt.Sprintf("herd-runner: the model gateway does not serve %s %s, only POST %s", cutText(method, 32), cutText(path, 200), messagesPath)
	if strings.HasSuffix(path, "/responses") || strings.HasSuffix(path, "/chat/completions") || strings.Contains(path, "enerateContent") {
		message = fmt.Sprintf("herd-runner: the model gateway speaks Anthropic Messages only, not the API of %s; use an engine that speaks it", cutText(path, 200))
	}
	return refusal{http.StatusNotFound, "not_found_error", "path", message}
}

// listModels answers itself: which models there are is the workflow's word.
func (x *exchange) listModels() {
	type model struct {
		Type string `json:"type"`
		ID   string `json:"id"`
		Name string `json:"display_name"`
	}
	models := []model{}
	for _, id := range x.s.limits.Models {
		models = append(models, model{"model", id, id})
	}
	x.w.Header().Set("Content-Type", "application/json")
	// The box may be gone; then there is nobody to tell.
	_ = json.NewEncoder(x.w).Encode(map[string]any{"data": models, "has_more": false})
}

// serve reads the request, checks the limits and lets it be answered.
func (x *exchange) serve() {
	if no := x.readBody(); no != nil {
		x.refuse(*no)
		return
	}
	x.call.Model = cutText(x.req.model, 200)
	if no := x.s.admit(x.req.model, x.call.Path); no != nil {
		x.refuse(*no)
		return
	}
	if x.call.Path == messagesPath {
		x.call.Usage.Requests = 1
	}
	if x.s.player != nil {
		x.replay()
		return
	}
	x.forward()
}

func (x *exchange) readBody() *refusal {
	rc := http.NewResponseController(x.w)
	// Connections without deadlines end with their box.
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	var buf bytes.Buffer
	buf.Grow(int(min(max(x.r.ContentLength, 0), 1<<20)) + bytes.MinRead)
	_, err := buf.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, maxRequestBody))
	_ = rc.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &refusal{http.StatusRequestEntityTooLarge, "request_too_large", "request",
			fmt.Sprintf("herd-runner: the request is larger than %d MiB", maxRequestBody>>20)}
	case err != nil:
		return &refusal{http.StatusBadRequest, "invalid_request_error", "request", "herd-runner: the request ended early"}
	}
	x.body = buf.Bytes()
	if x.req, err = readRequest(x.body); err != nil {
		return &refusal{http.StatusBadRequest, "invalid_request_error", "request", "herd-runner: the request is no Anthropic Messages request: " + err.Error()}
	}
	return nil
}

// end accounts for the exchange.
func (x *exchange) end(m *meter, retryAt time.Time, message string) {
	x.call.DurationMS = x.s.gw.clock().Sub(x.started).Milliseconds()
	var used tokens
	if m != nil && x.call.Path == messagesPath {
		used = m.tokens
		x.call.StopReason = cutText(m.stop, 100)
		cost, known := x.s.gw.prices.cost(x.call.Model, used)
		if !m.counted && x.call.Status < 400 {
			known = false // it answered, and nobody knows what that cost
		}
		u := &x.call.Usage
		u.InputTokens, u.OutputTokens = used.input, used.output
		u.CacheReadTokens, u.CacheWriteTokens = used.cacheRead, used.cacheWrite
		u.CostUSD, u.CostKnown = cost, known
	}
	x.s.account(x.call, used, retryAt, message)
}
