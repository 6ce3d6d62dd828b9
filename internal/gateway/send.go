package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// send asks the API when it is the credential's turn, and again while the API
// limits requests for a time that can be waited out. A *limitedError says that
// it cannot; an answer with a limit is one that is to be passed on.
func (x *exchange) send(ctx context.Context, cancel context.CancelCauseFunc, up *url.URL, cred Credential) (*http.Response, error) {
	g := x.s.gw
	l := g.limiters.of(up.Host, cred.Value, g.clock)
	t := l.ticket()
	deadline := x.holdUntil()
	for {
		err := l.wait(ctx, t, deadline, func(until time.Time) {
			if until.Before(g.clock()) {
				until = time.Time{} // others go first
			}
			x.waits(event.Wait{Reason: event.WaitRateLimit, Until: until})
		})
		if err != nil {
			return nil, err
		}
		tried := g.clock()
		resp, err := x.ask(ctx, cancel, up, cred)
		switch {
		case err != nil:
			l.heard(t, unheard, time.Time{})
			return nil, err
		case !isLimited(resp):
			said := taken
			if resp.StatusCode >= 500 {
				said = unheard
			}
			l.heard(t, said, time.Time{})
			return resp, nil
		}
		m := x.peek(cancel, resp)
		if m.why(resp.StatusCode) == reasonNoCredit {
			l.heard(t, unheard, time.Time{})
			return resp, nil
		}
		x.limitedUntil = l.heard(t, limited, g.retryAt(resp, m))
		tooLong := x.limitedUntil.After(deadline)
		if tooLong && !x.dialect.waits || !tooLong && strings.EqualFold(resp.Header.Get("X-Should-Retry"), "false") {
			resp.Header.Set("X-Should-Retry", "false")
			return resp, nil
		}
		_ = resp.Body.Close()
		call := x.call
		call.Status, call.Reason, call.Usage = resp.StatusCode, "rate_limited", event.Usage{CostKnown: true}
		call.DurationMS = g.clock().Sub(tried).Milliseconds()
		x.s.emit(call)
		if tooLong {
			return nil, &limitedError{until: x.limitedUntil, said: fmt.Sprintf("HTTP %d: %s", resp.StatusCode, m.message)}
		}
	}
}

// peek reads what an error says, and leaves it to be read again.
func (x *exchange) peek(cancel context.CancelCauseFunc, resp *http.Response) *meter {
	idle := time.AfterFunc(x.s.gw.timeouts.Idle, func() { cancel(errIdle) })
	defer idle.Stop()
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what breaks off here breaks off there
	m := x.dialect.newMeter(resp.StatusCode, resp.Header.Get("Content-Type"))
	m.write(head)
	m.close()
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return m
}

// ask sends the request once.
func (x *exchange) ask(ctx context.Context, cancel context.CancelCauseFunc, up *url.URL, cred Credential) (*http.Response, error) {
	g := x.s.gw
	watchdog := time.AfterFunc(g.timeouts.Headers, func() { cancel(errHeaders) })
	defer watchdog.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, up.String(), bytes.NewReader(x.body))
	if err != nil {
		return nil, err
	}
	req.Header = requestHeaders(x.r.Header)
	x.dialect.authorize(req.Header, cred)
	return g.transport.RoundTrip(req)
}

// unsent answers where no answer of the API came.
func (x *exchange) unsent(ctx context.Context, host string, err error) {
	var late *limitedError
	switch {
	case errors.As(err, &late):
		x.refuse(refusal{status: http.StatusTooManyRequests, kind: "rate_limit_error", reason: "rate_limited",
			message: "herd-runner: " + err.Error(), retryAt: late.until})
	case x.r.Context().Err() != nil:
		x.call.Reason = "client_gone"
		x.end(nil, time.Time{}, "the agent ended the request")
	case errors.Is(context.Cause(ctx), errHeaders):
		x.fail(refusal{status: http.StatusGatewayTimeout, kind: "timeout_error", reason: "upstream_timeout",
			message: fmt.Sprintf("herd-runner: %s gave %v (%s)", host, context.Cause(ctx), x.s.gw.timeouts.Headers)})
	default:
		x.fail(refusal{status: http.StatusBadGateway, kind: "api_error", reason: "upstream",
			message: fmt.Sprintf("herd-runner: cannot reach the model API at %s: %v", host, err)})
	}
}
