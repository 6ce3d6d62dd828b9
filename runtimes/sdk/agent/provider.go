package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

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

// provider is Anthropic's Messages API behind the gateway. The SDK's own
// retries are off: a stream that breaks after its headers must be retried too.
type provider struct {
	messages anthropic.MessageService
	sleep    func(ctx context.Context, d time.Duration) error
	idle     time.Duration
}

func newProvider(env environment) (*provider, error) {
	opts := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithMaxRetries(0)}
	if base := env.values[sdk.EnvBaseURL]; base != "" {
		opts = append(opts, option.WithBaseURL(base))
	}
	switch key, token := env.values[sdk.EnvAPIKey], env.values[sdk.EnvOAuthToken]; {
	case key != "":
		opts = append(opts, option.WithAPIKey(key))
	case token != "":
		opts = append(opts, option.WithAuthToken(token), option.WithHeader("anthropic-beta", "oauth-2025-04-20"))
	default:
		return nil, &failure{event.CauseAuth, "no credential: neither ANTHROPIC_API_KEY nor CLAUDE_CODE_OAUTH_TOKEN is set",
			"`herd-runner doctor` says which credential is missing and how to get it"}
	}
	client := anthropic.NewClient(opts...)
	return &provider{messages: client.Messages, sleep: sleep, idle: idleTimeout}, nil
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

// complete asks for one message, up to attempts times. retrying hears of each
// failure that is tried again.
func (p *provider) complete(ctx context.Context, params anthropic.MessageNewParams, attempts int, retrying func(string)) (*anthropic.Message, error) {
	for attempt := 1; ; attempt++ {
		msg, err := p.once(ctx, params)
		if err == nil {
			return msg, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		f := classify(err)
		wait := f.wait(attempt)
		if !f.retry || attempt >= attempts || wait > maxRetryAfter {
			return nil, f
		}
		retrying(fmt.Sprintf("retry %d of %d in %s: %s", attempt, attempts-1, wait.Round(100*time.Millisecond), f.message))
		if err := p.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

var (
	errIdle  = errors.New("the model's answer stalled")
	errShort = errors.New("the model's answer broke off")
)

func (p *provider) once(ctx context.Context, params anthropic.MessageNewParams) (*anthropic.Message, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(p.idle, func() { cancel(errIdle) })
	defer watchdog.Stop()
	stream := p.messages.NewStreaming(ctx, params)
	defer stream.Close()
	msg, stopped := &anthropic.Message{}, false
	for stream.Next() {
		watchdog.Reset(p.idle)
		e := stream.Current()
		stopped = stopped || e.Type == "message_stop"
		if err := msg.Accumulate(e); err != nil {
			return nil, fmt.Errorf("%w: %w", errShort, err)
		}
	}
	switch err := stream.Err(); {
	case errors.Is(context.Cause(ctx), errIdle):
		return nil, errIdle
	case err != nil:
		return nil, err
	case !stopped || msg.StopReason == "":
		return nil, errShort
	}
	return msg, nil
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

func classify(err error) *apiFailure {
	var api *anthropic.Error
	if !errors.As(err, &api) {
		message := "no connection to the model: " + err.Error()
		if errors.Is(err, errIdle) || errors.Is(err, errShort) {
			message = err.Error()
		}
		return &apiFailure{failure: failure{event.CauseInfrastructure, message, "the connection to the model broke: run again"}, retry: true}
	}
	f := &apiFailure{status: api.StatusCode}
	if f.status < 400 { // an error inside a stream
		f.status = streamStatus(string(api.Type()))
	}
	said := errorMessage(api)
	f.retry = f.status == 408 || f.status == 409 || f.status == 429 || f.status >= 500
	if api.Response != nil {
		switch api.Response.Header.Get("x-should-retry") {
		case "true":
			f.retry = true
		case "false":
			f.retry = false
		}
		f.after = retryAfter(api.Response.Header)
	}
	f.message = fmt.Sprintf("HTTP %d: %s", f.status, said)
	switch {
	case f.status == 401, f.status == 403:
		f.cause, f.hint = event.CauseAuth, "`herd-runner doctor` tests the credential"
	case f.status == 402:
		f.cause, f.hint = event.CauseBudget, "top up the account at the vendor"
	case f.status == 429, f.status == 529:
		f.cause, f.hint = event.CauseRateLimited, "wait and run again, or add `retry: {max: 2, on: [rate_limited]}` to the step"
	case f.status == 404:
		f.cause, f.hint = event.CauseExitCode, "set `model:` in `runtime:` to one that the account may use"
	case f.status >= 500:
		f.cause, f.hint = event.CauseInfrastructure, "run again; the vendor's status page says whether there is an outage"
	default:
		f.cause = event.CauseExitCode
	}
	return f
}

// streamStatus is the HTTP status that the type of an error stands for.
func streamStatus(typ string) int {
	switch typ {
	case "overloaded_error":
		return 529
	case "rate_limit_error":
		return 429
	case "authentication_error":
		return 401
	case "permission_error":
		return 403
	case "invalid_request_error":
		return 400
	}
	return 500
}

// errorMessage is the vendor's own words, cut to 2 KiB.
func errorMessage(api *anthropic.Error) string {
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	text := api.RawJSON()
	if json.Unmarshal([]byte(text), &body) == nil && body.Error.Message != "" {
		text = body.Error.Message
	}
	if len(text) > 2048 {
		text = strings.ToValidUTF8(text[:2048], "") + "…"
	}
	if text == "" {
		text = http.StatusText(api.StatusCode)
	}
	return text
}

// retryAfter reads the server's wish in seconds or milliseconds; dates are not
// used by the API.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("retry-after-ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	if s, err := strconv.ParseFloat(h.Get("retry-after"), 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	return 0
}

// modelID turns the short names of models into the API's.
func modelID(name string) anthropic.Model {
	switch name {
	case "", "sonnet":
		return anthropic.ModelClaudeSonnet5_5
	case "opus":
		return anthropic.ModelClaudeOpus5_5
	case "haiku":
		return anthropic.ModelClaudeHaiku5_5
	}
	return name
}

// maxOutput is the output limit to ask for, in tokens.
func maxOutput(model string) int64 {
	switch {
	case strings.HasPrefix(model, "claude-3-5"):
		return 8192
	case strings.HasPrefix(model, "claude-3-7"):
		return 32000
	case strings.HasPrefix(model, "claude-3-"):
		return 4096
	case strings.HasPrefix(model, "claude-"):
		return 32000
	}
	return 8192
}
