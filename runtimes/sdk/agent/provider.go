package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

const (
	maxAttempts            = 7
	attemptsBeforeFallback = 3
	// idleTimeout ends a request whose stream says nothing.
	idleTimeout = 5 * time.Minute
	// maxRetryAfter is the longest wait the server may ask for; a longer one
	// is for the workflow's retry.
	maxRetryAfter = 60 * time.Second
	maxBackoff    = 16 * time.Second
)

// vendor is the client of one vendor's API. It asks once: a stream that breaks
// after its headers must be tried again too, so all retries are the provider's.
type vendor interface {
	// ask sends q and gives the whole answer; alive is called for each piece of
	// it. An error of the API is an *apiFailure, a stream that ends before the
	// answer does is errShort.
	ask(ctx context.Context, q question, alive func()) (response, error)
	// modelID is the API's name for a model as a workflow names it; of "" it is
	// that of the default.
	modelID(name string) string
}

// provider is a vendor's API behind the gateway, with its patience.
type provider struct {
	vendor
	sleep func(ctx context.Context, d time.Duration) error
	idle  time.Duration
}

func newProvider(engine string, env environment) (*provider, error) {
	v, err := newVendor(engine, env)
	if err != nil {
		return nil, err
	}
	return &provider{vendor: v, sleep: sleep, idle: idleTimeout}, nil
}

func newVendor(engine string, env environment) (vendor, error) {
	switch engine {
	case sdk.Anthropic:
		return newAnthropic(env)
	case sdk.OpenAI:
		return newOpenAI(env)
	case sdk.Gemini:
		return newGemini(env)
	}
	return nil, fmt.Errorf("unknown engine %q: runner and box must use the same build", engine)
}

// noCredential is the failure where none of the variables is set.
func noCredential(names ...string) error {
	return &failure{event.CauseAuth, "no credential: " + strings.Join(names, " or ") + " is not set",
		"`herd-runner doctor` says which credential is missing and how to get it"}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// complete asks for one answer, up to attempts times. retrying hears of each
// failure that is tried again.
func (p *provider) complete(ctx context.Context, q question, attempts int, retrying func(string)) (response, error) {
	for attempt := 1; ; attempt++ {
		r, err := p.once(ctx, q)
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return response{}, ctx.Err()
		}
		f := classify(err)
		wait := f.wait(attempt)
		if !f.retry || attempt >= attempts || wait > maxRetryAfter {
			return response{}, f
		}
		retrying(fmt.Sprintf("retry %d of %d in %s: %s", attempt, attempts-1, wait.Round(100*time.Millisecond), f.message))
		if err := p.sleep(ctx, wait); err != nil {
			return response{}, err
		}
	}
}

var (
	errIdle  = errors.New("the model's answer stalled")
	errShort = errors.New("the model's answer broke off")
)

func (p *provider) once(ctx context.Context, q question) (response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(p.idle, func() { cancel(errIdle) })
	defer watchdog.Stop()
	r, err := p.ask(ctx, q, func() { watchdog.Reset(p.idle) })
	if errors.Is(context.Cause(ctx), errIdle) {
		return response{}, errIdle
	}
	return r, err
}

// apiFailure is a failure of a request.
type apiFailure struct {
	failure
	status int // 0: no answer
	retry  bool
	after  time.Duration // the server's wish; 0: none
}

func (f *apiFailure) Unwrap() error { return &f.failure }

// wait is how long to wait before the next attempt.
func (f *apiFailure) wait(attempt int) time.Duration {
	if f.after > 0 {
		return f.after
	}
	return min(500*time.Millisecond<<min(attempt-1, 10), maxBackoff)
}

// overloaded says whether another model may do better.
func overloaded(err error) bool {
	var f *apiFailure
	return errors.As(err, &f) && (f.status == 529 || f.status == 503 || f.status == 404)
}

// classify is the failure of a request that did not give an answer.
func classify(err error) *apiFailure {
	var f *apiFailure
	if errors.As(err, &f) {
		return f
	}
	message := "no connection to the model: " + err.Error()
	if errors.Is(err, errIdle) || errors.Is(err, errShort) {
		message = err.Error()
	}
	return &apiFailure{failure: failure{event.CauseInfrastructure, shorten(message), "the connection to the model broke: run again"}, retry: true}
}

// maxSaid bounds a vendor's error message in bytes.
const maxSaid = 2048

func shorten(said string) string {
	if len(said) > maxSaid {
		return strings.ToValidUTF8(said[:maxSaid], "") + "…"
	}
	return said
}

// apiError is an error the API gave: its HTTP status, the headers of the answer
// (nil: it came inside a stream) and the vendor's words.
func apiError(status int, header http.Header, said string) *apiFailure {
	if said = shorten(said); said == "" {
		said = http.StatusText(status)
	}
	f := &apiFailure{status: status, after: retryAfter(header)}
	f.retry = status == 408 || status == 409 || status == 429 || status >= 500
	switch header.Get("x-should-retry") {
	case "true":
		f.retry = true
	case "false":
		f.retry = false
	}
	f.message = fmt.Sprintf("HTTP %d: %s", status, said)
	switch {
	case status == 401, status == 403:
		f.cause, f.hint = event.CauseAuth, "`herd-runner doctor` tests the credential"
	case status == 402:
		f.cause, f.hint = event.CauseBudget, "top up the account at the vendor"
	case status == 429, status == 529:
		f.cause, f.hint = event.CauseRateLimited, "wait and run again, or add `retry: {max: 2, on: [rate_limited]}` to the step"
	case status == 404:
		f.cause, f.hint = event.CauseExitCode, "set `model:` in `runtime:` to one that the account may use"
	case status >= 500:
		f.cause, f.hint = event.CauseInfrastructure, "run again; the vendor's status page says whether there is an outage"
	default:
		f.cause = event.CauseExitCode
	}
	return f
}

// retryAfter reads the server's wish in seconds or milliseconds; dates are not
// used by the APIs.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	if s, err := strconv.ParseFloat(h.Get("retry-after"), 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	return 0
}
