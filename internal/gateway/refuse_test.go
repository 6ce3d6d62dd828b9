package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// THREATS 4.
func TestStrangeRequestsAreRefusedAndJournaled(t *testing.T) {
	up := fakeUpstream(t, "")
	g := newGateway(t, Options{Upstreams: at(up.URL)})
	other := openBox(t, g, lane("other"), Limits{})
	for _, tc := range []struct {
		name    string
		method  string
		path    string
		headers []string
		host    string
		body    string
		status  int
		reason  string
	}{
		{name: "no token", headers: []string{"X-Api-Key", ""}, status: 401, reason: "auth"},
		{name: "wrong token", headers: []string{"X-Api-Key", "sk-ant-herd-x"}, status: 401, reason: "auth"},
		{name: "another session's token", headers: []string{"X-Api-Key", other.Credential().Token}, status: 401, reason: "auth"},
		{name: "token without its scheme", headers: []string{"X-Api-Key", "", "Authorization", "TOKEN x"}, status: 401, reason: "auth"},
		{name: "another authorization beside the token", headers: []string{"Authorization", "Bearer " + realKey}, status: 401, reason: "auth"},
		{name: "another host", host: "api.anthropic.com", status: 403, reason: "host"},
		{name: "rebound host", host: "127.0.0.1.evil.example:80", status: 403, reason: "host"},
		{name: "upgrade", headers: []string{"Upgrade", "websocket"}, status: 426, reason: "upgrade"},
		{name: "another API", path: "/v1/responses", status: 404, reason: "path"},
		{name: "files", path: "/v1/files", status: 404, reason: "path"},
		{name: "dots", path: "/v1/messages/../files", status: 404, reason: "path"},
		{name: "method", method: "DELETE", status: 404, reason: "path"},
		{name: "not JSON", body: "x", status: 400, reason: "request"},
		{name: "no model", body: `{"messages":[]}`, status: 400, reason: "request"},
		{name: "two models", body: `{"model":"claude-haiku-4-5","mod\u0065l":"claude-opus-4-1"}`, status: 400, reason: "request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := openBox(t, g, lane("a"), Limits{})
			method, path, body := tc.method, tc.path, tc.body
			if method == "" {
				method = "POST"
			}
			if path == "" {
				path = "/v1/messages"
			}
			if body == "" {
				body = hello("x")
			}
			headers := append([]string(nil), tc.headers...)
			for i := range headers {
				headers[i] = strings.Replace(headers[i], "TOKEN", b.Credential().Token, 1)
			}
			r := b.request(method, path, body, headers...)
			r.Host = tc.host
			got := b.do(r)
			var e struct {
				Type  string
				Error struct{ Type, Message string }
			}
			if err := json.Unmarshal([]byte(got.body), &e); err != nil {
				t.Fatalf("%d %q: %v", got.status, got.body, err)
			}
			if got.status != tc.status || got.header.Get("X-Should-Retry") != "false" || e.Type != "error" || !strings.HasPrefix(e.Error.Message, "herd-runner: ") {
				t.Errorf("%d %v %s", got.status, got.header, got.body)
			}
			call, view := b.journal(1)[0], b.View()
			if call.Mode != "refused" || call.Reason != tc.reason || view.LastStatus != tc.status || view.LastReason != tc.reason {
				t.Errorf("journal %+v, view %+v", call, view)
			}
			if strings.Contains(fmt.Sprint(got, call, view), realKey[10:]) && tc.name != "another authorization beside the token" {
				t.Error("the real key shows")
			}
		})
	}
	if up.requests() != 0 {
		t.Errorf("%d refused requests reached the upstream", up.requests())
	}
}

// THREATS 4.
func TestProxyRequestsAreRefused(t *testing.T) {
	g := newGateway(t, Options{Upstreams: at("http://127.0.0.1:1")})
	for _, request := range []string{
		"CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: api.anthropic.com:443\r\n\r\n",
		"GET http://169.254.169.254/latest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	} {
		b := openBox(t, g, lane("a"), Limits{})
		resp := b.raw(request)
		if resp.StatusCode != 403 || b.journal(1)[0].Reason != "proxy" {
			t.Errorf("%q: %d", request, resp.StatusCode)
		}
	}
}

func TestHarmlessRequests(t *testing.T) {
	b := openBox(t, newGateway(t, Options{Upstreams: at("http://127.0.0.1:1")}), lane("a"), Limits{Models: []string{"claude-sonnet-5"}})
	if got := b.do(b.request("HEAD", "/", "", "X-Api-Key", "")); got.status != 200 {
		t.Errorf("HEAD /: %+v", got)
	}
	if got := b.do(b.request("GET", "/v1/models", "")); got.status != 200 || !strings.Contains(got.body, "claude-sonnet-5") {
		t.Errorf("models: %+v", got)
	}
	if v := b.View(); v.LastStatus != 0 || v.Usage.Requests != 0 {
		t.Errorf("they count: %+v", v)
	}
}

// THREATS 4.
func TestLimits(t *testing.T) {
	up := fakeUpstream(t, "")
	for _, tc := range []struct {
		name   string
		limits Limits
		model  string
		first  int // status of the first request
		second int
		reason string
	}{
		{"requests", Limits{Requests: 1}, "claude-sonnet-5", 200, 402, "budget_exhausted"},
		{"tokens", Limits{Tokens: 1000}, "claude-sonnet-5", 200, 402, "budget_exhausted"},
		{"cost", Limits{CostUSD: 0.002}, "claude-sonnet-5", 200, 402, "budget_exhausted"},
		{"cost not reached", Limits{CostUSD: 0.01}, "claude-sonnet-5", 200, 200, ""},
		{"cost of an unknown model", Limits{CostUSD: 1}, "llama-9", 403, 403, "model"},
		{"model", Limits{Models: []string{"claude-haiku-4-5"}}, "claude-sonnet-5", 403, 403, "model"},
		{"model spelled apart", Limits{Models: []string{"claude-haiku-4-5"}}, `claude-sonnet-5","Model":"claude-haiku-4-5`, 403, 403, "model"},
		{"none", Limits{}, "llama-9", 200, 200, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/in=1000,out=10/r")}), lane("a"), tc.limits)
			body := strings.Replace(hello("x"), "claude-sonnet-5", tc.model, 1)
			first := b.post(body)
			b.journal(1)
			second := b.post(body)
			call := b.journal(2)[1]
			if first.status != tc.first || second.status != tc.second || call.Reason != tc.reason {
				t.Fatalf("%d, %d, %+v", first.status, second.status, call)
			}
			if tc.second >= 400 && second.header.Get("X-Should-Retry") != "false" {
				t.Error("the CLI would retry")
			}
			view := b.View()
			if tc.name == "none" && view.Usage.CostKnown {
				t.Error("a model without a price has a known cost")
			}
			if tc.first == 200 && tc.second == 402 && view.Usage.Requests != 1 {
				t.Errorf("requests: %+v", view.Usage)
			}
		})
	}
}

func TestCountingTokensDecidesNothing(t *testing.T) {
	up := fakeUpstream(t, "")
	b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/do=text/r")}), lane("a"), Limits{Requests: 1})
	b.post(hello("x"))
	got := b.do(b.request("POST", "/v1/messages/count_tokens", hello("x")))
	if got.status != 200 || got.body != `{"input_tokens":1234}` {
		t.Fatalf("%+v", got)
	}
	b.journal(2)
	if v := b.View(); v.LastStop != "end_turn" || v.Usage.Requests != 1 || v.Usage.InputTokens != 100 {
		t.Errorf("%+v", v)
	}
}

// THREATS 2.
func TestClosedSessionServesNothing(t *testing.T) {
	up := fakeUpstream(t, "")
	b := openBox(t, newGateway(t, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if got := b.post(hello("x")); got.err == nil {
		t.Errorf("answered %d", got.status)
	}
}

func TestCloseEndsHangingExchanges(t *testing.T) {
	started := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
	})
	g := newGateway(t, Options{Upstreams: at(up.URL)})
	b := openBox(t, g, lane("a"), Limits{})
	done := make(chan answer, 1)
	go func() { done <- b.post(hello("x")) }()
	<-started
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-done; got.err == nil {
		t.Errorf("%+v", got)
	}
	if _, err := g.Open(SessionOptions{Lane: lane("b"), APIs: APIs()[:1]}); err == nil {
		t.Error("a closed gateway opens sessions")
	}
}

func TestOversizedHeadersAndBodies(t *testing.T) {
	b := openBox(t, newGateway(t, Options{Upstreams: at("http://127.0.0.1:1")}), lane("a"), Limits{})
	if got := b.post(hello("x"), "X-Big", strings.Repeat("x", 128<<10)); got.status != 431 && got.err == nil {
		t.Errorf("headers: %+v", got.status)
	}
	r := b.request("POST", "/v1/messages", "")
	r.Body = io.NopCloser(strings.NewReader(strings.Repeat(" ", maxRequestBody+10)))
	r.ContentLength = -1
	if got := b.do(r); got.status != 413 && got.err == nil {
		t.Errorf("body: %+v", got.status)
	}
}
