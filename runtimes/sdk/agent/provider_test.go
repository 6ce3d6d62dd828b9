package agent

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// patient is a provider that notes its waits instead of waiting.
func patient(t *testing.T, url string, env ...string) (*provider, *[]time.Duration) {
	t.Helper()
	p, err := newProvider(sdk.Anthropic, newEnvironment(append(env, sdk.EnvBaseURL+"="+url, sdk.EnvAPIKey+"=k"), sdk.Anthropic))
	if err != nil {
		t.Fatal(err)
	}
	waits := &[]time.Duration{}
	p.sleep = func(_ context.Context, d time.Duration) error {
		*waits = append(*waits, d)
		return nil
	}
	return p, waits
}

func hello() question {
	return question{model: "m", messages: []message{{Role: roleUser, Parts: []part{textPart("hi")}}}}
}

func TestRetriesAreBoundedAndBackOff(t *testing.T) {
	var script []reply
	for range maxAttempts {
		script = append(script, fails(529, "Overloaded"))
	}
	s := serve(t, script...)
	p, waits := patient(t, s.URL)
	var said []string
	_, err := p.complete(context.Background(), hello(), maxAttempts, func(text string) { said = append(said, text) })
	var f *failure
	if !errors.As(err, &f) || f.cause != event.CauseRateLimited {
		t.Errorf("%v", err)
	}
	ms := time.Millisecond
	if diff := cmp.Diff([]time.Duration{500 * ms, 1000 * ms, 2000 * ms, 4000 * ms, 8000 * ms, 16000 * ms}, *waits); diff != "" {
		t.Error(diff)
	}
	if len(said) != 6 || said[0] != "retry 1 of 6 in 500ms: HTTP 529: Overloaded" {
		t.Errorf("%q", said)
	}
}

func TestTheServersWishIsHonoured(t *testing.T) {
	s := serve(t, fails(429, "slow down", "retry-after", "7"), fails(400, "odd", "x-should-retry", "true", "retry-after-ms", "250"), says("ok"))
	p, waits := patient(t, s.URL)
	if _, err := p.complete(context.Background(), hello(), maxAttempts, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]time.Duration{7 * time.Second, 250 * time.Millisecond}, *waits); diff != "" {
		t.Error(diff)
	}
}

func TestAnErrorInsideAStream(t *testing.T) {
	raw := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"words\"}}\n\n"
	for typ, want := range map[string]event.Cause{
		"overloaded_error": event.CauseRateLimited, "rate_limit_error": event.CauseRateLimited,
		"api_error": event.CauseInfrastructure, "authentication_error": event.CauseAuth, "invalid_request_error": event.CauseExitCode,
	} {
		s := serve(t, reply{raw: strings.Replace(raw, "%s", typ, 1)})
		p, _ := patient(t, s.URL)
		_, err := p.complete(context.Background(), hello(), 1, func(string) {})
		var f *failure
		if !errors.As(err, &f) || f.cause != want || !strings.Contains(f.message, "words") {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestAStalledStreamIsTriedAgain(t *testing.T) {
	begun := make(chan struct{})
	first := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first {
			says("awake").write(w)
			return
		}
		first = false
		w.Header().Set("content-type", "text/event-stream")
		_, _ = w.Write([]byte("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\n"))
		w.(http.Flusher).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	p, _ := patient(t, s.URL)
	p.idle = 200 * time.Millisecond
	var said []string
	msg, err := p.complete(context.Background(), hello(), 2, func(text string) { said = append(said, text) })
	if err != nil || msg.message.Parts[0].Text != "awake" {
		t.Fatalf("%v, %v", msg, err)
	}
	<-begun
	if len(said) != 1 || !strings.Contains(said[0], "stalled") {
		t.Errorf("%q", said)
	}
}

func TestNoServer(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	p, waits := patient(t, s.URL)
	_, err := p.complete(context.Background(), hello(), 3, func(string) {})
	var f *failure
	if !errors.As(err, &f) || f.cause != event.CauseInfrastructure || len(*waits) != 2 {
		t.Errorf("%v after %d waits", err, len(*waits))
	}
}

func TestOAuthIsABearerToken(t *testing.T) {
	s := serve(t, says("ok"))
	p, err := newProvider(sdk.Anthropic, newEnvironment([]string{sdk.EnvBaseURL + "=" + s.URL, sdk.EnvOAuthToken + "=tok"}, sdk.Anthropic))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.complete(context.Background(), hello(), 1, func(string) {}); err != nil {
		t.Fatal(err)
	}
	h := s.headers[0]
	if h.Get("authorization") != "Bearer tok" || h.Get("x-api-key") != "" || !strings.Contains(h.Get("anthropic-beta"), "oauth") {
		t.Errorf("headers: %v", h)
	}
}
