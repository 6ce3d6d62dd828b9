package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// limitedUpstream limits requests for a second from the first one on, and at
// most so many at once afterwards.
func limitedUpstream(t *testing.T, lasts time.Duration) (*upstream, *sync.Map) {
	t.Helper()
	answers := &sync.Map{}
	var mu sync.Mutex
	var until time.Time
	return newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if until.IsZero() {
			until = time.Now().Add(lasts)
		}
		left := time.Until(until)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if left > 0 {
			answers.Store(time.Now(), 429)
			w.Header().Set("Retry-After", fmt.Sprintf("%.1f", left.Seconds()+0.1))
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`))
			return
		}
		answers.Store(time.Now(), 200)
		_, _ = w.Write([]byte(`{"type":"message","stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}`))
	}), answers
}

// A limit that ends soon is waited out by the gateway: none of 20 agents at
// once sees it, the API is not stormed, and who waits says so.
func TestAStormIsWaitedOut(t *testing.T) {
	up, _ := limitedUpstream(t, time.Second)
	g := newGateway(t, Options{Upstreams: at(up.URL)})
	var wg sync.WaitGroup
	var mu sync.Mutex
	waits := 0
	for i := range 20 {
		b := openBoxOf(t, g, SessionOptions{APIs: APIs()[:1], Lane: lane(fmt.Sprint("s", i)), Waiting: func(w event.Wait) {
			mu.Lock()
			defer mu.Unlock()
			waits++
			if w.Reason != event.WaitRateLimit || w.Model != "claude-sonnet-5" {
				t.Errorf("%+v", w)
			}
		}})
		wg.Go(func() {
			if got := b.post(hello("x")); got.status != 200 {
				t.Errorf("%+v", got)
			}
		})
	}
	wg.Wait()
	if n := up.requests(); n < 21 || n > 45 {
		t.Errorf("20 agents made %d requests", n)
	}
	if waits < 19 {
		t.Errorf("%d told that they wait", waits)
	}
	// Another credential is not slowed by it, nor is this one any more.
	began := time.Now()
	if got := openBox(t, g, lane("later"), Limits{}).post(hello("x")); got.status != 200 || time.Since(began) > time.Second {
		t.Errorf("%+v after %v", got, time.Since(began))
	}
}

// A limit that lasts longer than a request can wait is passed on, at once, for
// all sessions of the credential, with until when.
func TestALongLimitIsPassedOn(t *testing.T) {
	up, _ := limitedUpstream(t, time.Hour)
	g := newGateway(t, Options{Upstreams: at(up.URL)})
	first := openBox(t, g, lane("first"), Limits{})
	if got := first.post(hello("x")); got.status != 429 || got.header.Get("X-Should-Retry") != "false" || !strings.Contains(got.body, "slow down") {
		t.Errorf("%+v", got)
	}
	second := openBox(t, g, lane("second"), Limits{})
	got := second.post(hello("x"))
	if got.status != 429 || got.header.Get("X-Should-Retry") != "false" || !strings.HasPrefix(got.header.Get("Retry-After"), "36") || !strings.Contains(got.body, "limits requests of this credential until 2") {
		t.Errorf("%+v", got)
	}
	for _, b := range []*box{first, second} {
		b.journal(1)
		if v := b.View(); v.LastStatus != 429 || time.Until(v.RetryAt) < 59*time.Minute {
			t.Errorf("%+v", v)
		}
	}
	if up.requests() != 1 {
		t.Errorf("the API was asked %d times", up.requests())
	}
}

// Codex and OpenCode would wait for such a limit in silence, Gemini CLI would ask
// on: they are told in an answer after which they end.
func TestALongLimitEndsEveryCLI(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		up, _ := limitedUpstream(t, time.Hour)
		b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL)}), Limits{})
		got := s.post(b, s.ask("x", true))
		call, v := b.journal(1)[0], b.View()
		if call.Status != 429 || got.header.Get("X-Should-Retry") != "false" || !strings.Contains(v.Error, "slow down") || time.Until(v.RetryAt) < 59*time.Minute {
			t.Errorf("%+v\n%+v\n%+v", got, call, v)
		}
		if passed := got.status == 429; passed != (s.dialect == &messages) || (got.header.Get("Retry-After") != "") != passed {
			t.Errorf("%+v", got)
		}
	})
}

// No request waits beyond the end of its step, and what a held request heard is
// journaled.
func TestWaitsEndWithTheStep(t *testing.T) {
	up, _ := limitedUpstream(t, 10*time.Second)
	g := newGateway(t, Options{Upstreams: at(up.URL)})
	b := openBoxOf(t, g, SessionOptions{APIs: APIs()[:1], Lane: lane("a"), Deadline: time.Now().Add(time.Second)})
	if got := b.post(hello("x")); got.status != 429 {
		t.Errorf("%+v", got)
	}
	up, _ = limitedUpstream(t, time.Second)
	b = openBox(t, newGateway(t, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
	b.post(hello("x"))
	calls := b.journal(2)
	if calls[0].Status != 429 || calls[0].Reason != "rate_limited" || calls[0].Usage.Requests != 0 || calls[1].Status != 200 {
		t.Errorf("%+v", calls)
	}
}

// Budgets of sessions that share a key are one, and the refusal names it.
func TestSharedBudgets(t *testing.T) {
	up := fakeUpstream(t, "")
	g := newGateway(t, Options{Upstreams: at(up.URL + "/s/do=text,in=1000,out=10/r")})
	job := []Budget{{"job a", `job "a"`, Amounts{Tokens: 2000}}, {"run", "the run", Amounts{Turns: 100}}}
	one := openBox(t, g, lane("one"), Limits{Budgets: job})
	two := openBox(t, g, lane("two"), Limits{Budgets: job})
	if a, b := one.post(hello("x")), two.post(hello("x")); a.status != 200 || b.status != 200 {
		t.Fatalf("%+v %+v", a, b)
	}
	one.journal(1)
	two.journal(1)
	got := one.post(hello("x"))
	one.journal(2)
	if got.status != 402 || !strings.Contains(got.body, `the budget of job \"a\" is exhausted: 2020 tokens of 2000`) {
		t.Errorf("%+v", got)
	}
	left, err := g.Left(job)
	if err != nil || *left.Tokens != 0 || *left.Turns != 98 || left.CostUSD != nil {
		t.Errorf("%+v %v", left, err)
	}
	if v := one.View(); v.LastReason != "budget_exhausted" {
		t.Errorf("%+v", v)
	}
}

// The operator's day holds for runs that say nothing of budgets; a model
// without a price would get past it.
func TestTheDayIsKept(t *testing.T) {
	up := fakeUpstream(t, "")
	dir := filepath.Join(t.TempDir(), "budget")
	open := func() *Gateway {
		return newGateway(t, Options{Upstreams: at(up.URL + "/s/do=text,in=1000,out=100/r"), Day: openDay(t, dir, Amounts{CostUSD: 0.008}, nil)})
	}
	g := open()
	b := openBox(t, g, lane("a"), Limits{})
	for i := range 2 {
		if got := b.post(hello("x")); got.status != 200 {
			t.Fatalf("%+v", got)
		}
		b.journal(i + 1)
	}
	if got := b.post(strings.Replace(hello("x"), "claude-sonnet-5", "llama-9", 1)); got.status != 403 || !strings.Contains(got.body, "the day") {
		t.Errorf("a model without a price: %+v", got)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	b = openBox(t, open(), lane("a"), Limits{})
	if got := b.post(hello("x")); got.status != 200 {
		t.Errorf("$0.006 of 0.008: %+v", got)
	}
	b.journal(1)
	if got := b.post(hello("x")); got.status != 402 || !strings.Contains(got.body, "the day (the operator's policy)") {
		t.Errorf("%+v", got)
	}
}

// A CLI that asks again and again where a stream is empty is stopped, and told
// why.
func TestEndlessLoopsEnd(t *testing.T) {
	up := fakeUpstream(t, "")
	b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/fail=empty/r")}), lane("a"), Limits{})
	for range maxFruitless {
		if got := b.post(hello("x")); got.status != 200 {
			t.Fatalf("%+v", got)
		}
	}
	b.journal(maxFruitless)
	got := b.post(hello("x"))
	b.journal(maxFruitless + 1)
	if v := b.View(); got.status != 400 || v.LastReason != "no_progress" || !strings.Contains(v.Error, "50 requests in a row without an answer of the model (the last one: HTTP 200 with nothing in it)") {
		t.Errorf("%+v %+v", got, v)
	}
	b = openBox(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/fail=empty/r")}), lane("a"), Limits{Unanswered: 2})
	for n, want := range []int{200, 200, 400} {
		if got := b.post(hello("x")); got.status != want {
			t.Errorf("request %d of 2 allowed: %+v", n+1, got)
		}
		b.journal(n + 1)
	}
	// Where the API fails, that is the cause.
	b = openBox(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/fail=500/r")}), lane("a"), Limits{})
	for range maxFruitless + 1 {
		b.post(hello("x"))
	}
	b.journal(maxFruitless + 1)
	if v := b.View(); v.LastStatus != 500 {
		t.Errorf("%+v", v)
	}
}

// THREATS 4.
func TestTheOperatorsWordOnModels(t *testing.T) {
	up := fakeUpstream(t, "")
	g := newGateway(t, Options{Upstreams: at(up.URL + "/s/do=text/r"), Permit: func(model string) error {
		if model == "claude-sonnet-5" {
			return errors.New("rule models")
		}
		return nil
	}})
	b := openBox(t, g, lane("a"), Limits{})
	if got := b.post(hello("x")); got.status != 403 || !strings.Contains(got.body, "rule models") || b.View().LastReason != "model" {
		t.Errorf("%+v", got)
	}
	if got := b.post(strings.Replace(hello("x"), "sonnet-5", "haiku-4-5", 1)); got.status != 200 {
		t.Errorf("%+v", got)
	}
}

// FUTURE-02: what a login pays for costs nothing by request.
func TestTheBasisOfACost(t *testing.T) {
	up := fakeUpstream(t, "")
	for _, tc := range []struct {
		source CredentialSource
		want   string
	}{{staticKey, event.BasisAPI}, {staticLogin, event.BasisSubscription}} {
		b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/do=text/r"), Credentials: tc.source}), lane("a"), Limits{})
		b.post(hello("x"))
		if call := b.journal(1)[0]; call.Usage.CostBasis != tc.want || call.Usage.CostUSD == 0 || b.View().Usage.CostBasis != tc.want {
			t.Errorf("%+v, want %s", call.Usage, tc.want)
		}
	}
}
