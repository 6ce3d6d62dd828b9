package gateway

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestAnswersPassByteForByteAndAreCounted(t *testing.T) {
	up := fakeUpstream(t, "")
	for _, stream := range []string{"true", "false"} {
		g := newGateway(t, Options{Upstreams: at(up.URL + "/s/do=bash,in=1000,out=50/" + stream)})
		b := openBox(t, g, lane("a"), Limits{})
		body := `{ "model":"claude-sonnet-5", "stream":` + stream + `,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":"ä\u00e4"}]}`
		direct, err := http.Post(up.URL+"/s/do=bash,in=1000,out=50/"+stream+"/v1/messages?beta=true", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		want, err := io.ReadAll(direct.Body)
		direct.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		got := b.post(body)
		if got.status != 200 || got.body != string(want) || got.err != nil {
			t.Fatalf("stream %s: %d %q %v, want %q", stream, got.status, got.body, got.err, want)
		}
		if up.body[len(up.body)-1] != body {
			t.Errorf("the request changed on its way: %q", up.body[len(up.body)-1])
		}
		call := b.journal(1)[0]
		if call.Usage.InputTokens != 1000 || call.Usage.OutputTokens != 50 || call.Usage.Requests != 1 || call.StopReason != "tool_use" || call.Mode != "live" {
			t.Errorf("journal: %+v", call)
		}
		view := b.View()
		if want := (1000*2 + 50*10) / 1e6; view.Usage.CostUSD != want || !view.Usage.CostKnown || view.LastStatus != 200 || view.LastStop != "tool_use" {
			t.Errorf("view: %+v, want cost %v", view, want)
		}
	}
}

// THREATS 4.
func TestHeadersOfCredentialsAndHopsAreReplaced(t *testing.T) {
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Request-Id", "req_1")
		_, _ = io.WriteString(w, "{}")
	})
	extra := []string{"Cookie", "c=1", "X-Goog-Api-Key", "k", "Proxy-Authorization", "Basic x", "Connection", "X-Hop", "X-Hop", "1",
		"X-Forwarded-For", "1.2.3.4", "Anthropic-Beta", "a-1,b-2", "Anthropic-Version", "2023-06-01", "X-Claude-Code-Session-Id", "s", "Accept-Encoding", "gzip, br"}
	for _, tc := range []struct {
		name    string
		source  CredentialSource
		want    map[string]string
		missing []string
	}{
		{"api key", staticKey, map[string]string{"X-Api-Key": realKey, "Anthropic-Beta": "a-1,b-2"}, []string{"Authorization"}},
		{"login", staticLogin, map[string]string{"Authorization": "Bearer " + realKey, "Anthropic-Beta": "a-1,b-2," + oauthBeta}, []string{"X-Api-Key"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL), Credentials: tc.source}), lane("a"), Limits{})
			got := b.post(hello("x"), extra...)
			if got.status != 200 || got.header.Get("Request-Id") != "req_1" || got.header.Get("Set-Cookie") != "" {
				t.Fatalf("%+v", got)
			}
			h := up.seen[len(up.seen)-1].Header
			for k, v := range tc.want {
				if h.Get(k) != v {
					t.Errorf("%s: %q, want %q", k, h.Get(k), v)
				}
			}
			for _, k := range append(tc.missing, "Cookie", "X-Goog-Api-Key", "Proxy-Authorization", "X-Hop", "X-Forwarded-For") {
				if v := h.Get(k); v != "" {
					t.Errorf("%s reached the upstream: %q", k, v)
				}
			}
			for k, v := range map[string]string{"Anthropic-Version": "2023-06-01", "X-Claude-Code-Session-Id": "s", "Accept-Encoding": "identity"} {
				if h.Get(k) != v {
					t.Errorf("%s: %q, want %q", k, h.Get(k), v)
				}
			}
		})
	}
}

func TestEventsReachTheBoxBeforeTheAnswerEnds(t *testing.T) {
	release := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: ping\n")
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "data: {}\n\n")
	})
	b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
	resp, err := client().Do(b.request("POST", "/v1/messages", hello("x")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	if line, err := r.ReadString('\n'); line != "event: ping\n" {
		t.Fatalf("%q %v", line, err)
	}
	close(release)
	if rest, err := io.ReadAll(r); string(rest) != "data: {}\n\n" || err != nil {
		t.Fatalf("%q %v", rest, err)
	}
}

func TestUpstreamTroubleIsToldTruly(t *testing.T) {
	up := fakeUpstream(t, "")
	quick := Timeouts{Headers: 150 * time.Millisecond, Idle: 150 * time.Millisecond, Hold: -1}
	for _, tc := range []struct {
		script  string
		status  int
		reason  string
		message string
		broken  bool // the box sees the connection end early
	}{
		{script: "fail=529", status: 529, message: "Overloaded"},
		{script: "fail=400", status: 400, message: "fake bad request"},
		{script: "fail=reset", status: 502, reason: "upstream", message: "cannot reach the model API"},
		{script: "fail=hang", status: 504, reason: "upstream_timeout", message: "no answer within"},
		{script: "fail=hangstream", status: 200, reason: "upstream_idle", message: "the answer stalled", broken: true},
		{script: "fail=truncated", status: 200, reason: "upstream", message: "broke the answer off", broken: true},
		{script: "fail=sseerror", status: 200, reason: "stream_error", message: "Overloaded"},
		{script: "fail=malformed", status: 200},
		{script: "fail=empty", status: 200},
		{script: "fail=garbagejson", status: 200},
		{script: "fail=html", status: 502},
	} {
		t.Run(tc.script, func(t *testing.T) {
			b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/" + tc.script + "/r"), Timeouts: quick}), lane("a"), Limits{})
			got := b.post(hello("x"))
			if got.status != tc.status || (got.err != nil) != tc.broken {
				t.Errorf("the box saw %d, %v", got.status, got.err)
			}
			call, view := b.journal(1)[0], b.View()
			if call.Status != tc.status || call.Reason != tc.reason || view.LastStatus != tc.status || view.LastReason != tc.reason || !strings.Contains(view.Error, tc.message) {
				t.Errorf("journal %+v\nview %+v", call, view)
			}
			if tc.status == 200 && tc.script != "fail=truncated" && tc.script != "fail=hangstream" && call.Usage.CostKnown {
				t.Errorf("an answer without usage passes for one of known cost")
			}
		})
	}
}

// THREATS 4.
func TestRedirectsAndCompressionAreNotPassedOn(t *testing.T) {
	other := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {})
	for _, tc := range []struct {
		name, reason string
		handler      http.HandlerFunc
	}{
		{"redirect", "redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}},
		{"gzip", "encoding", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Encoding", "gzip") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, tc.handler)
			b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
			got := b.post(hello("x"))
			if got.status != 502 || got.header.Get("X-Should-Retry") != "false" || b.journal(1)[0].Reason != tc.reason {
				t.Errorf("%+v %+v", got, b.journal(1))
			}
		})
	}
	if other.requests() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestRateLimitSaysUntilWhen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		status int
		header [2]string
		want   time.Time
	}{
		{429, [2]string{"Retry-After", "7"}, now.Add(7 * time.Second)},
		{529, [2]string{"Retry-After", "Fri, 02 Jan 2026 04:00:00 GMT"}, time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)},
		{429, [2]string{"Anthropic-Ratelimit-Unified-Reset", "1767330000"}, time.Unix(1767330000, 0)},
		{429, [2]string{"Retry-After", "-1e400"}, now.Add(time.Second)}, // our own back-off
		{500, [2]string{"Retry-After", "7"}, time.Time{}},
	} {
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(tc.header[0], tc.header[1])
			w.WriteHeader(tc.status)
		})
		b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL), Clock: func() time.Time { return now }, Timeouts: Timeouts{Hold: -1}}), lane("a"), Limits{})
		b.post(hello("x"))
		if got := b.View().RetryAt; !got.Equal(tc.want) {
			t.Errorf("%d %v: %v, want %v", tc.status, tc.header, got, tc.want)
		}
	}
}

func TestAgentThatHangsUpStopsTheUpstream(t *testing.T) {
	ended := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	})
	b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	resp, err := client().Do(b.request("POST", "/v1/messages", hello("x")).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cancel()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the upstream still runs")
	}
	if call := b.journal(1)[0]; call.Reason != "client_gone" {
		t.Errorf("%+v", call)
	}
}

func TestDeadUpstream(t *testing.T) {
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	up.Close()
	b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
	u, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.post(hello("x")); got.status != 502 || !strings.Contains(got.body, u.Host) {
		t.Errorf("%+v", got)
	}
}
