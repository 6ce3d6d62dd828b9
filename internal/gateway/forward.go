package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxRecorded bounds a recorded answer in bytes.
const maxRecorded = 32 << 20

var (
	errHeaders = errors.New("no answer within the time limit")
	errIdle    = errors.New("the answer stalled")
)

// forward sends the exchange upstream and passes the answer on, byte for byte.
func (x *exchange) forward() {
	g := x.s.gw
	cred, err := x.s.realCredential(x.r.Context(), x.dialect.vendor)
	if err != nil {
		x.refuse(refusal{status: http.StatusUnauthorized, kind: "authentication_error", reason: "auth", message: "herd-runner: " + err.Error()})
		return
	}
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	up := x.upstream(cred)
	x.basis = cred.basis()
	x.s.scrubber.know(cred.Value)
	sent, err := x.recordable()
	if err != nil {
		x.refuse(refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "request", message: "herd-runner: " + err.Error()})
		return
	}
	resp, err := x.send(ctx, cancel, up, cred)
	if err != nil {
		x.unsent(ctx, up.Host, err)
		return
	}
	defer resp.Body.Close()
	if no := unusable(resp); no != nil {
		x.refuse(*no)
		return
	}
	idle := time.AfterFunc(g.timeouts.Idle, func() { cancel(errIdle) })
	defer idle.Stop()
	x.call.Status = resp.StatusCode
	for k, v := range responseHeaders(resp.Header) {
		x.w.Header()[k] = v
	}
	x.w.WriteHeader(resp.StatusCode)
	out := newPass(x.w, x.dialect.newMeter(resp.StatusCode, resp.Header.Get("Content-Type")), x.s.recorder != nil, g.timeouts.Idle)
	if resp.ContentLength < 0 {
		_ = out.rc.Flush() // a stream's headers may come long before its first event
	}
	err = out.copy(resp.Body, func() { idle.Reset(g.timeouts.Idle) })
	out.meter.close()
	x.finish(ctx, resp, out, err, sent)
}

// upstream is where the request goes: the session's own base URL, the one that
// a login is bound to, or that of the API.
func (x *exchange) upstream(cred Credential) *url.URL {
	base := x.s.base
	if base == nil {
		base = x.s.gw.upstreams[x.dialect.api]
	}
	if cred.upstream != nil {
		base = cred.upstream // the session's own is checked to be none
	}
	up := *base
	up.Path += strings.TrimPrefix(x.path, x.dialect.prefix)
	up.RawQuery = requestQuery(x.r.URL.RawQuery)
	return &up
}

// finish accounts for a passed answer, records it, and breaks the connection
// where the answer broke, so that the box sees what we saw.
func (x *exchange) finish(ctx context.Context, resp *http.Response, out *pass, err error, sent *slot) {
	message, retryAt := out.meter.message, x.s.gw.retryAt(resp, out.meter)
	if retryAt.IsZero() && isLimited(resp) {
		retryAt = x.limitedUntil
	}
	// A CLI may hang up as soon as it has read the last event.
	broken := err != nil && !out.meter.ended
	gone := broken && (x.r.Context().Err() != nil || out.clientErr != nil)
	switch {
	case gone:
		x.call.Reason, message = "client_gone", "the agent ended the request"
	case broken && errors.Is(context.Cause(ctx), errIdle):
		x.call.Reason, message = "upstream_idle", fmt.Sprintf("%v: nothing came for %s", errIdle, x.s.gw.timeouts.Idle)
	case broken:
		x.call.Reason, message = "upstream", "the model API broke the answer off: "+err.Error()
	default:
		x.call.Reason = out.meter.why(resp.StatusCode)
	}
	if x.s.recorder != nil && !gone {
		if out.tooLarge {
			x.s.recorder.fail(fmt.Errorf("an answer is larger than %d MiB", maxRecorded>>20))
		} else {
			x.s.recorder.add(sent, x.dialect, x.req, resp, out.whole(err != nil && !broken), broken)
		}
	}
	x.end(out.meter, retryAt, message)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// unusable answers are not passed on: following a redirect would carry the
// credential elsewhere, and what is compressed cannot be counted.
func unusable(resp *http.Response) *refusal {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		return &refusal{status: http.StatusBadGateway, kind: "api_error", reason: "redirect",
			message: fmt.Sprintf("herd-runner: the model API answered with a redirect (%d), which is not followed; correct the base URL", resp.StatusCode)}
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return &refusal{status: http.StatusBadGateway, kind: "api_error", reason: "encoding",
			message: fmt.Sprintf("herd-runner: the model API answered in encoding %q though none was asked for", cutText(e, 50))}
	}
	return nil
}

// retryAt is when a rate limit ends, as the answer says; zero where it does not.
func (g *Gateway) retryAt(resp *http.Response, m *meter) time.Time {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != 529 {
		return time.Time{}
	}
	now := g.clock()
	if v := resp.Header.Get("Retry-After"); v != "" {
		if secs, err := strconv.ParseFloat(v, 64); err == nil && secs >= 0 && secs < 1e8 {
			return now.Add(time.Duration(secs * float64(time.Second)))
		}
		if at, err := http.ParseTime(v); err == nil {
			return at
		}
	}
	if m.retryIn > 0 {
		return now.Add(m.retryIn)
	}
	if unix, err := strconv.ParseInt(resp.Header.Get("Anthropic-Ratelimit-Unified-Reset"), 10, 64); err == nil && unix > 0 {
		return time.Unix(unix, 0)
	}
	return time.Time{}
}

// pass carries an answer to the box while counting, and keeps a copy where it
// is recorded.
type pass struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	meter     *meter
	idle      time.Duration
	record    bool
	recorded  bytes.Buffer
	tooLarge  bool
	clientErr error
}

func newPass(w http.ResponseWriter, m *meter, record bool, idle time.Duration) *pass {
	return &pass{w: w, rc: http.NewResponseController(w), record: record, idle: idle, meter: m}
}

// copy returns the upstream's error; the client's is kept in p. It flushes
// after each read: what has come is on its way before more is waited for.
func (p *pass) copy(body io.Reader, alive func()) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			alive()
			// A box that stops reading must not hold us for ever; connections
			// without deadlines end with their box.
			_ = p.rc.SetWriteDeadline(time.Now().Add(p.idle))
			if _, p.clientErr = p.w.Write(buf[:n]); p.clientErr == nil {
				p.clientErr = p.rc.Flush()
			}
			p.meter.write(buf[:n]) // once it is on its way
			p.keep(buf[:n])
			if p.clientErr != nil {
				return p.clientErr
			}
		}
		if errors.Is(err, io.EOF) {
			_ = p.rc.SetWriteDeadline(time.Time{})
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (p *pass) keep(b []byte) {
	if !p.record || p.tooLarge {
		return
	}
	if p.recorded.Len()+len(b) > maxRecorded {
		p.tooLarge = true
		p.recorded.Reset()
		return
	}
	p.recorded.Write(b)
}

// whole is the recorded answer; an answer left after its last event lacks the
// blank line that ends it.
func (p *pass) whole(left bool) []byte {
	b := p.recorded.Bytes()
	if left {
		b = append(bytes.TrimRight(b, "\n"), "\n\n"...)
	}
	return b
}
