package gateway

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// Bounds of a request from the box.
const (
	maxRequestBody = 64 << 20 // bytes; the APIs themselves take less
	bodyTimeout    = 2 * time.Minute
)

// exchange is one request from the box on its way.
type exchange struct {
	s       *Session
	w       http.ResponseWriter
	r       *http.Request
	started time.Time
	call    event.ModelCall
	dialect *dialect
	path    string // of the request, as the API is asked
	body    []byte
	req     request

	reserved     *reservation // nil: nothing, or settled
	basis        string       // of the cost
	limitedUntil time.Time    // as the API last said
}

func (s *Session) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	defer s.active.Done()
	d, e, served := recognise(s.dialects, r.Method, r.URL.Path)
	x := &exchange{s: s, w: w, r: r, dialect: d, path: r.URL.Path, started: s.gw.clock()}
	x.call = event.ModelCall{Method: cutText(r.Method, 32), Path: cutText(r.URL.Path, 256), Mode: string(s.mode)}
	x.call.Usage.CostKnown = true
	if no := x.strange(); no != nil {
		x.refuse(*no)
		return
	}
	if r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet) {
		w.WriteHeader(http.StatusOK) // CLIs look whether somebody is there, without a token
		return
	}
	if !x.owned() {
		x.refuse(refusal{status: http.StatusUnauthorized, kind: "authentication_error", reason: "auth",
			message: "herd-runner: this request does not bear the token of its step; the gateway serves only the agent it was started for"})
		return
	}
	switch {
	case !served:
		x.refuse(s.unknownPath(r.Method, r.URL.Path))
	case e.purpose == list:
		x.listModels()
	default:
		x.serve(e)
	}
}

// owned tells whether the request bears its session's token, and no other one.
func (x *exchange) owned() bool {
	offered := x.dialect.offered(x.r)
	for _, token := range offered {
		if subtle.ConstantTimeCompare([]byte(token), []byte(x.s.credential.Token)) != 1 {
			return false
		}
	}
	return len(offered) > 0
}

// strange finds what no agent CLI has a reason to send to its model API.
func (x *exchange) strange() *refusal {
	r := x.r
	switch {
	case r.Method == http.MethodConnect || r.URL.IsAbs():
		return &refusal{status: http.StatusForbidden, kind: "permission_error", reason: "proxy",
			message: "herd-runner: the model gateway is no proxy; set NO_PROXY=127.0.0.1 for requests to it"}
	case !isLoopback(r.Host):
		return &refusal{status: http.StatusForbidden, kind: "permission_error", reason: "host",
			message: fmt.Sprintf("herd-runner: the model gateway does not serve host %q", cutText(r.Host, 100))}
	case r.Header.Get("Upgrade") != "":
		return &refusal{status: http.StatusUpgradeRequired, kind: "invalid_request_error", reason: "upgrade",
			message: "herd-runner: the model gateway speaks plain HTTP/1.1, no WebSocket"}
	}
	return nil
}

func (s *Session) unknownPath(method, path string) refusal {
	message := fmt.Sprintf("herd-runner: the model gateway does not serve %s %s", cutText(method, 32), cutText(path, 200))
	if d, _, ok := recognise(dialects, method, path); ok {
		message = fmt.Sprintf("herd-runner: the runtime of %s speaks %s's API to the model gateway, not %s's, which %s belongs to",
			s.lane, s.dialects[0].vendor.name, d.vendor.name, cutText(path, 200))
	}
	return refusal{status: http.StatusNotFound, kind: "not_found_error", reason: "path", message: message}
}

// listModels answers itself: which models there are is the workflow's word.
func (x *exchange) listModels() {
	x.w.Header().Set("Content-Type", "application/json")
	// The box may be gone; then there is nobody to tell.
	_ = json.NewEncoder(x.w).Encode(x.dialect.models(x.s.limits.Models))
}

// serve reads the request, checks the limits and lets it be answered.
func (x *exchange) serve(e endpoint) {
	if no := x.readBody(e); no != nil {
		x.refuse(*no)
		return
	}
	x.rename()
	x.call.Model = cutText(x.req.model, 200)
	if no := x.remote(); no != nil {
		x.refuse(*no)
		return
	}
	if no := x.countable(); no != nil {
		x.refuse(*no)
		return
	}
	if no := x.admit(); no != nil {
		x.refuse(*no)
		return
	}
	if e.asks() {
		x.call.Usage.Requests = 1
	}
	if x.s.player != nil {
		x.replay()
		return
	}
	x.forward()
}

// countable refuses what a limit could not be kept with.
func (x *exchange) countable() *refusal {
	limited := x.s.limitedBy(func(limit Amounts) bool { return limit.CostUSD > 0 || limit.Tokens > 0 })
	if !x.req.uncounted || limited == "" {
		return nil
	}
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "request",
		message: fmt.Sprintf(`herd-runner: a stream without "stream_options": {"include_usage": true} does not tell its tokens, so the budget of %s cannot be kept; ask for them`, limited)}
}

func (x *exchange) readBody(e endpoint) *refusal {
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
		return &refusal{status: http.StatusRequestEntityTooLarge, kind: "request_too_large", reason: "request",
			message: fmt.Sprintf("herd-runner: the request is larger than %d MiB", maxRequestBody>>20)}
	case err != nil:
		return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "request", message: "herd-runner: the request ended early"}
	}
	x.body = buf.Bytes()
	if x.req, err = x.dialect.readRequest(e, x.body); err != nil {
		return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "request",
			message: fmt.Sprintf("herd-runner: the request is no usable %s: %v", x.dialect.what, err)}
	}
	return nil
}

// end accounts for the exchange.
func (x *exchange) end(m *meter, retryAt time.Time, message string) {
	x.call.DurationMS = x.s.gw.clock().Sub(x.started).Milliseconds()
	var used tokens
	if m != nil && x.req.asks() {
		u := &x.call.Usage
		used = m.tokens
		if u.Estimated = x.call.Status < 400 && m.untold(); u.Estimated {
			used = m.estimate(len(x.body))
		}
		x.call.StopReason = cutText(m.stop, 100)
		cost, known := x.s.gw.prices.cost(x.call.Model, used)
		if !m.counted && !u.Estimated && x.call.Status < 400 {
			known = false // it answered, and nobody knows what that cost
		}
		u.InputTokens, u.OutputTokens = used.input, used.output
		u.CacheReadTokens, u.CacheWriteTokens = used.cacheRead, used.cacheWrite
		u.ReasoningTokens = used.reasoning
		u.CostUSD, u.CostKnown, u.CostBasis = cost, known, x.basis
	}
	x.settle(m)
	x.s.account(x, used, retryAt, message)
}
