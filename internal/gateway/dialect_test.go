package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

// speech is how an agent of a dialect asks, for tests over all of them.
type speech struct {
	dialect *dialect
	path    string
	plain   string // path of an answer that is no stream; empty: the same
	count   string // path that counts tokens; empty: there is none
	// ask is a request with a prompt and whether the answer is to stream; more
	// are rounds after the first: the call's id, and what the tool gave.
	ask func(prompt string, stream bool, more ...string) string
	// text is an event that holds a piece of text that grows.
	text func(piece string) string
	stop string // the reason of a scripted answer that ends
}

func speeches() []speech {
	return []speech{
		{
			dialect: &messages, path: "/v1/messages", count: "/v1/messages/count_tokens", stop: "end_turn",
			ask: func(prompt string, stream bool, more ...string) string {
				rounds := ""
				for _, m := range more {
					rounds += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"Bash","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":%q}]}`, m)
				}
				return fmt.Sprintf(`{"model":"m-1","stream":%v,"tools":[{"name":"Bash"}],"messages":[{"role":"user","content":%q}%s]}`, stream, prompt, rounds)
			},
			text: func(piece string) string {
				return fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n", piece)
			},
		},
		{
			dialect: &responses, path: "/v1/responses", count: "/v1/responses/input_tokens", stop: "completed",
			ask: func(prompt string, stream bool, more ...string) string {
				rounds := ""
				for _, m := range more {
					rounds += fmt.Sprintf(`,{"type":"reasoning","summary":[]},{"type":"function_call","call_id":"c","name":"shell","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":%q}`, m)
				}
				return fmt.Sprintf(`{"model":"m-1","stream":%v,"tools":[{"type":"function","name":"shell"}],"instructions":"i","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}%s]}`, stream, prompt, rounds)
			},
			text: func(piece string) string {
				return fmt.Sprintf("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"delta\":%q}\n\n", piece)
			},
		},
		{
			dialect: &chat, path: "/v1/chat/completions", stop: "stop",
			ask: func(prompt string, stream bool, more ...string) string {
				rounds := ""
				for _, m := range more {
					rounds += fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"shell","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":%q}`, m)
				}
				return fmt.Sprintf(`{"model":"m-1","stream":%v,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"shell"}}],"messages":[{"role":"system","content":"s"},{"role":"user","content":%q}%s]}`, stream, prompt, rounds)
			},
			text: func(piece string) string {
				return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", piece)
			},
		},
		{
			dialect: &generateContent, path: "/v1beta/models/m-1:streamGenerateContent?alt=sse", plain: "/v1beta/models/m-1:generateContent",
			count: "/v1beta/models/m-1:countTokens", stop: "STOP",
			ask: func(prompt string, _ bool, more ...string) string {
				rounds := ""
				for _, m := range more {
					rounds += fmt.Sprintf(`,{"role":"model","parts":[{"functionCall":{"name":"run_shell_command","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"run_shell_command","response":{"output":%q}}}]}`, m)
				}
				return fmt.Sprintf(`{"tools":[{"functionDeclarations":[{"name":"run_shell_command"}]}],"contents":[{"role":"user","parts":[{"text":%q}]}%s]}`, prompt, rounds)
			},
			text: func(piece string) string {
				return fmt.Sprintf("data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":%q}]}}]}\r\n\r\n", piece)
			},
		},
	}
}

// eachDialect runs a test for every wire format.
func eachDialect(t *testing.T, test func(t *testing.T, s speech)) {
	for _, s := range speeches() {
		t.Run(s.dialect.name, func(t *testing.T) { test(t, s) })
	}
}

// open opens a session of the dialect's API.
func (s speech) open(t testing.TB, g *Gateway, limits Limits) *box {
	return openBoxOf(t, g, SessionOptions{Lane: lane("s"), Limits: limits, APIs: []string{s.dialect.api}})
}

// at is the base URL with a script of the fake model. OpenAI's ends in /v1.
func (s speech) at(base string) map[string]string {
	return map[string]string{s.dialect.api: base + s.dialect.prefix}
}

func (s speech) request(b *box, path, body string, headers ...string) *http.Request {
	r := b.request(http.MethodPost, path, body, "X-Api-Key", "", "Authorization", "Bearer "+b.Credential().Token)
	if s.dialect == &generateContent {
		r.Header.Del("Authorization")
		r.Header.Set("X-Goog-Api-Key", b.Credential().Token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (s speech) post(b *box, body string, headers ...string) answer {
	return b.do(s.request(b, s.path, body, headers...))
}

func TestEveryDialectPassesByteForByteAndIsCounted(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		up := fakeUpstream(t, "")
		for _, stream := range []bool{true, false} {
			script := fmt.Sprintf("/s/do=text,in=1000,out=50,cached=600,thought=30/%v", stream)
			path := s.path
			if !stream && s.plain != "" {
				path = s.plain
			}
			b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL + script)}), Limits{})
			body := s.ask("ä\u00e4", stream)
			direct, err := http.Post(up.URL+script+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			want, err := io.ReadAll(direct.Body)
			direct.Body.Close()
			if err != nil || direct.StatusCode != 200 {
				t.Fatalf("%d %s %v", direct.StatusCode, want, err)
			}
			got := b.do(s.request(b, path, body))
			if got.status != 200 || got.body != string(want) || got.err != nil {
				t.Fatalf("stream %v: %d %q %v, want %q", stream, got.status, got.body, got.err, want)
			}
			if up.body[len(up.body)-1] != body {
				t.Errorf("the request changed on its way: %q", up.body[len(up.body)-1])
			}
			u := b.journal(1)[0].Usage
			if s.dialect != &messages { // whose numbers have tests of their own
				if u.InputTokens != 400 || u.CacheReadTokens != 600 || u.OutputTokens != 50 || u.ReasoningTokens != 30 {
					t.Errorf("stream %v: %+v", stream, u)
				}
			}
			call, view := b.journal(1)[0], b.View()
			if call.Model != "m-1" || call.Usage.Requests != 1 || call.StopReason != s.stop || view.API != s.dialect.api || view.LastReason != "" {
				t.Errorf("stream %v: %+v %+v", stream, call, view)
			}
		}
	})
}

// THREATS 4.
func TestEveryDialectGetsTheRealCredentialInItsPlace(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		up := fakeUpstream(t, "")
		b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL + "/s/xkey=" + realKey + "/r")}), Limits{})
		got := s.post(b, s.ask("x", true), "Openai-Organization", "org", "X-Goog-User-Project", "p", "Chatgpt-Account-Id", "a", "Cookie", "c")
		if got.status != 200 {
			t.Fatalf("%+v", got)
		}
		r := up.seen[0]
		if strings.Contains(fmt.Sprint(r.Header, r.URL), b.Credential().Token) {
			t.Errorf("the placeholder went upstream: %v", r.Header)
		}
		for _, k := range []string{"Openai-Organization", "X-Goog-User-Project", "Chatgpt-Account-Id", "Cookie"} {
			if r.Header.Get(k) != "" {
				t.Errorf("%s went upstream", k)
			}
		}
	})
}

func TestGeminisKeyMayStandInTheQuery(t *testing.T) {
	up := fakeUpstream(t, "")
	b := openBoxOf(t, newGateway(t, Options{Upstreams: at(up.URL + "/s/do=text,xkey=" + realKey + "/r")}), SessionOptions{Lane: lane("s"), APIs: []string{runtimes.APIGemini}})
	body := speeches()[3].ask("x", true)
	for _, tc := range []struct {
		query, header string
		status        int
	}{
		{"?alt=sse&key=TOKEN", "", 200},
		{"?key=TOKEN&alt=sse", "TOKEN", 200},
		{"?key=wrong&alt=sse", "TOKEN", 401},
		{"?key=TOKEN&k%65y=" + realKey, "", 401},
		{"?alt=sse", "", 401},
	} {
		fill := func(s string) string { return strings.ReplaceAll(s, "TOKEN", b.Credential().Token) }
		r := b.request("POST", "/v1beta/models/m-1:streamGenerateContent"+fill(tc.query), body, "X-Api-Key", "", "X-Goog-Api-Key", fill(tc.header))
		if got := b.do(r); got.status != tc.status {
			t.Errorf("%+v: %d %s", tc, got.status, got.body)
		}
	}
	for _, r := range up.seen {
		if r.URL.Query().Has("key") || !strings.Contains(r.URL.RawQuery, "alt=sse") {
			t.Errorf("upstream saw %s", r.URL)
		}
	}
}

// A refusal is in the vendor's shape, with a status that its CLIs do not ask
// again after: Codex and OpenCode stop at 400 only.
func TestRefusalsInTheVendorsShape(t *testing.T) {
	up := fakeUpstream(t, "")
	eachDialect(t, func(t *testing.T, s speech) {
		status := func(anthropic, gemini int) int {
			switch s.dialect.api {
			case runtimes.APIOpenAI:
				return 400
			case runtimes.APIGemini:
				return gemini
			}
			return anthropic
		}
		for _, tc := range []struct {
			name   string
			limits Limits
			change func(r *http.Request)
			status int
			reason string
		}{
			{"no token", Limits{}, func(r *http.Request) { r.Header = http.Header{} }, status(401, 401), "auth"},
			{"another's token", Limits{}, func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, status(401, 401), "auth"},
			{"another host", Limits{}, func(r *http.Request) { r.Host = "api.openai.com" }, status(403, 403), "host"},
			{"another path", Limits{}, func(r *http.Request) { r.URL.Path = "/v1/files" }, status(404, 404), "path"},
			{"model", Limits{Models: []string{"other"}}, nil, status(403, 403), "model"},
			{"no price", Limits{CostUSD: 1}, nil, status(403, 403), "model"},
			{"budget", Limits{Tokens: 1}, nil, status(402, 400), "budget_exhausted"},
			{"body", Limits{}, func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("[]")), 2 }, status(400, 400), "request"},
			{"websocket", Limits{}, func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, 426, "upgrade"},
		} {
			t.Run(tc.name, func(t *testing.T) {
				b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL + "/s/do=text/r")}), tc.limits)
				n := 1
				if tc.limits.Tokens > 0 {
					s.post(b, s.ask("x", true))
					b.journal(n)
					n++
				}
				r := s.request(b, s.path, s.ask("x", true))
				if tc.change != nil {
					tc.change(r)
				}
				got := b.do(r)
				var e struct {
					Type  string
					Error struct {
						Message string
						Type    string
						Code    any
						Status  string
					}
				}
				if err := json.Unmarshal([]byte(got.body), &e); err != nil {
					t.Fatalf("%d %q: %v", got.status, got.body, err)
				}
				if got.status != tc.status || got.header.Get("X-Should-Retry") != "false" || !strings.HasPrefix(e.Error.Message, "herd-runner: ") {
					t.Errorf("%d %v %s", got.status, got.header, got.body)
				}
				inShape := map[string]bool{
					runtimes.APIAnthropic: e.Type == "error" && e.Error.Type != "",
					runtimes.APIOpenAI:    e.Error.Type != "" && e.Error.Code == tc.reason,
					runtimes.APIGemini:    e.Error.Status != "" && e.Error.Code == float64(tc.status),
				}[s.dialect.api]
				if call := b.journal(n)[n-1]; !inShape || call.Reason != tc.reason || call.Mode != "refused" {
					t.Errorf("%s %+v", got.body, call)
				}
			})
		}
	})
}

func TestPathsOfEachDialect(t *testing.T) {
	for _, tc := range []struct {
		api, method, path string
		want              string // name of the dialect and the purpose
	}{
		{"anthropic", "POST", "/v1/messages", "messages 0"},
		{"anthropic", "POST", "/v1/responses", ""},
		{"openai", "POST", "/v1/responses", "responses 0"},
		{"openai", "POST", "/v1/responses/compact", "responses 1"},
		{"openai", "POST", "/v1/responses/input_tokens", "responses 2"},
		{"openai", "GET", "/v1/models", "responses 3"},
		{"openai", "POST", "/v1/chat/completions", "chat 0"},
		{"openai", "GET", "/v1/responses/resp_1", ""},
		{"openai", "DELETE", "/v1/responses", ""},
		{"openai", "POST", "/v1/files", ""},
		{"openai", "POST", "/v1/embeddings", ""},
		{"openai", "POST", "/responses", ""},
		{"gemini", "POST", "/v1beta/models/gemini-2.5-pro:generateContent", "gemini 0"},
		{"gemini", "POST", "/v1/models/gemini-2.5-pro:streamGenerateContent", "gemini 0"},
		{"gemini", "POST", "/v1beta/models/gemini-2.5-pro:countTokens", "gemini 2"},
		{"gemini", "GET", "/v1beta/models", "gemini 3"},
		{"gemini", "POST", "/v1beta/models/x:embedContent", ""},
		{"gemini", "POST", "/v1beta/models/../files:generateContent", ""},
		{"gemini", "POST", "/v1beta/models/a/b:generateContent", ""},
		{"gemini", "POST", "/v1beta/cachedContents", ""},
		{"gemini", "POST", "/upload/v1beta/files", ""},
	} {
		got := ""
		if d, e, ok := recognise(speaking([]string{tc.api}), tc.method, tc.path); ok {
			got = fmt.Sprintf("%s %d", d.name, e.purpose)
		}
		if got != tc.want {
			t.Errorf("%s %s of %s: %q, want %q", tc.method, tc.path, tc.api, got, tc.want)
		}
	}
}

func TestASessionMaySpeakSeveralAPIs(t *testing.T) {
	up := fakeUpstream(t, "")
	all := speeches()
	bases := map[string]string{}
	for _, s := range all {
		bases[s.dialect.api] = up.URL + "/s/do=text/r" + s.dialect.prefix
	}
	noGemini := func(ctx context.Context, api string) (Credential, error) {
		if api == runtimes.APIGemini {
			return Credential{}, &CredentialError{Problem: "no key", Hint: "set GEMINI_API_KEY"}
		}
		return staticKey(ctx, api)
	}
	b := openBoxOf(t, newGateway(t, Options{Upstreams: bases, Credentials: noGemini}), SessionOptions{Lane: lane("s"), APIs: APIs()})
	for _, s := range all {
		got := s.post(b, s.ask("x", true))
		if want := map[bool]int{true: 401, false: 200}[s.dialect == &generateContent]; got.status != want {
			t.Errorf("%s: %+v", s.dialect.name, got)
		}
	}
	b.journal(len(all))
	if v := b.View(); v.LastReason != "auth" || !strings.Contains(v.Error, "GEMINI_API_KEY") || v.API != runtimes.APIGemini {
		t.Errorf("%+v", v)
	}
	one := openBoxOf(t, newGateway(t, Options{Upstreams: bases}), SessionOptions{Lane: lane("s"), APIs: []string{runtimes.APIGemini}})
	if got := all[1].post(one, all[1].ask("x", true)); got.status == 200 || !strings.Contains(got.body, "speaks Gemini's API to the model gateway, not OpenAI's") {
		t.Errorf("%+v", got)
	}
	g := newGateway(t, Options{})
	for _, apis := range [][]string{nil, {"cobol"}} {
		if _, err := g.Open(SessionOptions{Lane: lane("s"), APIs: apis}); err == nil || !strings.Contains(err.Error(), "anthropic, openai, gemini") {
			t.Errorf("%v: %v", apis, err)
		}
	}
}

func TestModelsAreListedInTheVendorsShape(t *testing.T) {
	for api, path := range map[string]string{"anthropic": "/v1/models", "openai": "/v1/models", "gemini": "/v1beta/models"} {
		b := openBoxOf(t, newGateway(t, Options{}), SessionOptions{Lane: lane("s"), APIs: []string{api}, Limits: Limits{Models: []string{"a", "b"}}})
		got := b.do(b.request("GET", path, "", "X-Api-Key", "", "Authorization", "Bearer "+b.Credential().Token))
		var list struct {
			Data   []struct{ ID string }
			Models []struct{ Name string }
		}
		if err := json.Unmarshal([]byte(got.body), &list); err != nil || got.status != 200 {
			t.Fatalf("%s: %+v %v", api, got, err)
		}
		if api == "gemini" && (len(list.Models) != 2 || list.Models[1].Name != "models/b") || api != "gemini" && (len(list.Data) != 2 || list.Data[1].ID != "b") {
			t.Errorf("%s: %s", api, got.body)
		}
	}
}

// Codex tries a WebSocket first. That it is refused decides nothing.
func TestAWebSocketIsRefusedOnTheWay(t *testing.T) {
	up := fakeUpstream(t, "")
	s := speeches()[1]
	b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL + "/s/do=text/r")}), Limits{})
	upgrade := func() answer {
		return b.do(b.request("GET", "/v1/responses", "", "X-Api-Key", "", "Authorization", "Bearer "+b.Credential().Token, "Connection", "Upgrade", "Upgrade", "websocket"))
	}
	if got := upgrade(); got.status != 426 {
		t.Errorf("%+v", got)
	}
	s.post(b, s.ask("x", true))
	upgrade()
	b.journal(3)
	if v := b.View(); v.LastStatus != 200 || v.LastReason != "" || v.Usage.Requests != 1 {
		t.Errorf("%+v", v)
	}
	if up.requests() != 1 {
		t.Errorf("%d requests reached the upstream", up.requests())
	}
}

func TestRequestsNobodyCouldCount(t *testing.T) {
	up := fakeUpstream(t, "")
	background := strings.Replace(speeches()[1].ask("x", false), "{", `{"background":true,`, 1)
	silent := strings.Replace(speeches()[2].ask("x", true), `"stream_options":{"include_usage":true},`, "", 1)
	for _, tc := range []struct {
		name   string
		s      speech
		limits Limits
		body   string
		status int
	}{
		{"background", speeches()[1], Limits{}, background, 400},
		{"stream without counts, under a limit", speeches()[2], Limits{Tokens: 1000}, silent, 400},
		{"stream without counts", speeches()[2], Limits{}, silent, 200},
		{"another model in the body", speeches()[3], Limits{}, strings.Replace(speeches()[3].ask("x", true), "{", `{"model":"m-2",`, 1), 400},
	} {
		b := tc.s.open(t, newGateway(t, Options{Upstreams: tc.s.at(up.URL + "/s/do=text/r")}), tc.limits)
		got := tc.s.post(b, tc.body)
		b.journal(1)
		if got.status != tc.status || tc.status == 400 && b.View().LastReason != "request" || tc.status == 200 && b.View().Usage.CostKnown {
			t.Errorf("%s: %+v %+v", tc.name, got, b.View())
		}
	}
}

func TestCountingTokensIsFreeInEveryDialect(t *testing.T) {
	up := fakeUpstream(t, "")
	eachDialect(t, func(t *testing.T, s speech) {
		if s.count == "" {
			t.Skip("this wire format counts no tokens")
		}
		b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL + "/s/do=text/r")}), Limits{Requests: 1})
		s.post(b, s.ask("x", true))
		got := b.do(s.request(b, s.count, s.ask("x", false)))
		b.journal(2)
		if v := b.View(); got.status != 200 || !strings.Contains(got.body, "1234") || v.LastStop != s.stop || v.Usage.Requests != 1 || v.Usage.InputTokens != 100 {
			t.Errorf("%+v %+v", got, v)
		}
	})
}

func TestFailuresOfEveryDialectAreToldTruly(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		up := fakeUpstream(t, "")
		quick := Timeouts{Headers: 150 * time.Millisecond, Idle: 150 * time.Millisecond, Hold: -1}
		for _, tc := range []struct {
			script  string
			status  int
			reason  string
			message string
			broken  bool
		}{
			{"fail=429", 429, "", "rate limit", false},
			{"fail=400", 400, "", "fake bad request", false},
			{"fail=hang", 504, "upstream_timeout", "no answer within", false},
			{"fail=truncated", 200, "upstream", "broke the answer off", true},
			{"fail=hangstream", 200, "upstream_idle", "the answer stalled", true},
			{"fail=sseerror", 200, "stream_error", "Overloaded", false},
			{"fail=malformed", 200, "", "", false},
			{"fail=empty", 200, "", "", false},
			{"fail=garbagejson", 200, "", "", false},
			{"fail=html", 502, "", "", false},
		} {
			if tc.status == 429 && s.dialect.waits {
				tc.status, tc.reason = 400, "rate_limited"
			}
			b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL + "/s/" + tc.script + "/r"), Timeouts: quick}), Limits{})
			got := s.post(b, s.ask("x", true))
			call, view := b.journal(1)[0], b.View()
			if got.status != tc.status || (got.err != nil) != tc.broken || call.Reason != tc.reason || !strings.Contains(view.Error, tc.message) {
				t.Errorf("%s: %+v\n%+v\n%+v", tc.script, got, call, view)
			}
		}
	})
}

// The operator's aliases hold for what agents ask by themselves too: the name
// is replaced, every other byte stays.
func TestAliasesAreRewritten(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		var path, body string
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			path, body = r.URL.Path, string(data)
			w.WriteHeader(http.StatusBadRequest)
		})
		alias := func(name string) string {
			if name == "m-1" {
				return "vendor-model-2"
			}
			return name
		}
		permit := func(model string) error {
			if model != "vendor-model-2" {
				return fmt.Errorf("model %q is judged by the wrong name", model)
			}
			return nil
		}
		b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL), Model: alias, Permit: permit}), Limits{})
		ask := s.ask(`say "m-1", not \ "model":"m-1"`, true)
		s.post(b, ask)
		wantPath, wantBody := "/"+strings.SplitN(s.path, "?", 2)[0][1:], strings.Replace(ask, `"model":"m-1"`, `"model":"vendor-model-2"`, 1)
		if s.dialect == &generateContent {
			wantPath, wantBody = strings.Replace(wantPath, "m-1", "vendor-model-2", 1), ask
		}
		if !strings.HasSuffix(path, strings.TrimPrefix(wantPath, "/v1")) || body != wantBody {
			t.Errorf("the API was asked\n%s %s\nwant\n%s %s", path, body, wantPath, wantBody)
		}
		if call := b.journal(1)[0]; call.Model != "vendor-model-2" {
			t.Errorf("%+v", call)
		}
	})
}

// A stream that breaks off, or that the agent leaves, has not told what it used:
// what is known of it is an estimate, and said to be one.
func TestWhatBrokeOffIsEstimated(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		if s.dialect == &generateContent {
			return // each of its events tells the tokens up to now
		}
		for _, leaves := range []bool{false, true} {
			sent := make(chan struct{})
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for range 3 {
					_, _ = io.WriteString(w, s.text("word "))
				}
				w.(http.Flusher).Flush()
				close(sent)
				if leaves {
					<-r.Context().Done()
				}
				panic(http.ErrAbortHandler)
			})
			b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL)}), Limits{})
			body := s.ask("x", true)
			r := s.request(b, s.path, body)
			if leaves {
				ctx, leave := context.WithCancel(t.Context())
				resp, err := client().Do(r.WithContext(ctx))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, 3*len(s.text("word ")))); err != nil {
					t.Fatal(err)
				}
				leave()
				_ = resp.Body.Close()
			} else {
				b.do(r)
			}
			<-sent
			u := b.journal(1)[0].Usage
			if !u.Estimated || u.InputTokens != int64(len(body)/3+1) || u.OutputTokens != 3 {
				t.Errorf("leaves %v: %+v", leaves, u)
			}
		}
	})
}

func TestWhatTheVendorsErrorsSay(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name, body string
		of         int
		status     int
		reason     string
		retry      time.Duration
	}{
		{"OpenAI, no credit", `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, 1, 429, "no_credit", 0},
		{"OpenAI, bad key", `{"error":{"message":"Incorrect API key","type":"invalid_request_error","code":"invalid_api_key"}}`, 2, 401, "auth", 0},
		{"ChatGPT's limit", `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":90}}`, 1, 429, "rate_limited", 90 * time.Second},
		{"a code that is a number", `{"error":{"message":"x","code":7}}`, 2, 500, "", 0},
		{"Gemini, bad key", `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}`, 3, 400, "auth", 0},
		{"Gemini, limit", `{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"33s"}]}}`, 3, 429, "rate_limited", 33 * time.Second},
		{"Gemini, in a list", `[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]`, 3, 429, "rate_limited", time.Second}, // it does not say: our own back-off
	} {
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		})
		s := speeches()[tc.of]
		b := s.open(t, newGateway(t, Options{Upstreams: s.at(up.URL), Clock: func() time.Time { return now }, Timeouts: Timeouts{Hold: -1}}), Limits{})
		if got := s.post(b, s.ask("x", true)); tc.reason != "rate_limited" && (got.body != tc.body || got.status != tc.status) {
			t.Errorf("%s: %+v", tc.name, got)
		}
		b.journal(1)
		v := b.View()
		if v.LastReason != tc.reason || v.Error == "" || tc.retry == 0 && !v.RetryAt.IsZero() || tc.retry > 0 && !v.RetryAt.Equal(now.Add(tc.retry)) {
			t.Errorf("%s: %+v", tc.name, v)
		}
	}
}

func TestEveryDialectReplays(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		dir := t.TempDir()
		up := fakeUpstream(t, "")
		talk := func(b *box, took string) []answer {
			all := []answer{s.post(b, s.ask("write f", true)), s.post(b, s.ask("write f", true, "ok in "+took))}
			if s.plain != "" {
				all = append(all, b.do(s.request(b, s.plain, s.ask("a title", false))))
			}
			if s.count != "" {
				all = append(all, b.do(s.request(b, s.count, s.ask("write f", false))))
			}
			return all
		}
		rec := s.open(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: s.at(up.URL + "/s/cached=9/r")}), Limits{})
		want := talk(rec, "0.01s")
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		up.Close()
		rep := s.open(t, newGateway(t, Options{Mode: Replay, Dir: dir}), Limits{})
		got := talk(rep, "3.5s")
		for i := range want {
			if got[i].status != 200 || strings.TrimSpace(got[i].body) != strings.TrimSpace(want[i].body) {
				t.Errorf("answer %d: %+v\nwant %+v", i, got[i], want[i])
			}
		}
		rep.journal(len(want))
		a, b := rec.View(), rep.View()
		b.Usage.CostBasis = a.Usage.CostBasis // nothing is paid for a replay
		if a.Usage != b.Usage || a.LastStop != b.LastStop || a.Usage.Requests < 2 {
			t.Errorf("recorded %+v, replayed %+v", a, b)
		}
		no := s.post(rep, s.ask("write g", true))
		rep.journal(len(want) + 1)
		if no.status != 400 || !strings.Contains(no.body, "write g") || rep.View().LastReason != "replay_miss" {
			t.Errorf("another prompt: %+v", no)
		}
		// The same words in another wire format are another request.
		for _, other := range speeches() {
			if other.dialect == s.dialect {
				continue
			}
			b := other.open(t, newGateway(t, Options{Mode: Replay, Dir: dir}), Limits{})
			if got := other.post(b, other.ask("write f", true)); got.status != 400 || !strings.Contains(got.body, "recorded dialect "+s.dialect.name) {
				t.Errorf("%s: %+v", other.dialect.name, got)
			}
		}
	})
}

// THREATS 1.
func TestNoDialectRecordsASecretOrAPlace(t *testing.T) {
	eachDialect(t, func(t *testing.T, s speech) {
		dir := t.TempDir()
		half := len(realKey) / 2
		pieces := []string{"key " + realKey[:half], realKey[half:] + " in /home/x/pro", "j/a.go"}
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, p := range pieces {
				_, _ = io.WriteString(w, s.text(p))
			}
		})
		where := "<cwd>%s</cwd>"
		if s.dialect == &messages {
			where = "%s"
		}
		ask := func(dir string) string {
			body := s.ask("my key is "+realKey+" "+fmt.Sprintf(where, dir), true)
			if s.dialect == &messages {
				body = strings.Replace(body, "{", `{"system":"Working directory: `+dir+`",`, 1)
			}
			return body
		}
		rec := s.open(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: s.at(up.URL)}), Limits{})
		if got := s.post(rec, ask("/home/x/proj")); got.status != 200 || !strings.Contains(got.body, realKey[half:]) {
			t.Fatalf("%+v", got)
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		data := cassetteText(t, dir)
		for _, leak := range []string{realKey[:half], realKey[half:], rec.Credential().Token, "/home/x/pro"} {
			if strings.Contains(data, leak) {
				t.Errorf("%q in %s", leak, data)
			}
		}
		rep := s.open(t, newGateway(t, Options{Mode: Replay, Dir: dir}), Limits{})
		rep.scrubber.know(realKey) // as a run with the key would
		if got := s.post(rep, ask("/srv/elsewhere")); got.status != 200 || !strings.Contains(got.body, "in /srv/elsewhere/a.go") {
			t.Errorf("%+v", got)
		}
	})
}

// A sub-agent of Codex is a thread in its parent's session.
func TestSubagentsOfCodexHaveTheirOwnRecordings(t *testing.T) {
	dir := t.TempDir()
	up := fakeUpstream(t, "")
	s := speeches()[1]
	b := s.open(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: s.at(up.URL + "/s/do=text/r")}), Limits{})
	s.post(b, s.ask("a", true), "Session-Id", "one", "Thread-Id", "one")
	s.post(b, s.ask("b", true), "Session-Id", "one", "Thread-Id", "two")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main-001.json", "agent-1-001.json"} {
		if _, err := os.Stat(filepath.Join(lane("s").path(dir), name)); err != nil {
			t.Error(err)
		}
	}
}

func TestBaseURLOfASession(t *testing.T) {
	vendor, own := fakeUpstream(t, ""), fakeUpstream(t, "")
	s := speeches()[2]
	g := newGateway(t, Options{Upstreams: at(vendor.URL)})
	b := openBoxOf(t, g, SessionOptions{Lane: lane("s"), APIs: []string{runtimes.APIOpenAI}, BaseURL: own.URL + "/s/do=text/r/v1"})
	if got := s.post(b, s.ask("x", true)); got.status != 200 || vendor.requests() != 0 || own.seen[0].URL.Path != "/s/do=text/r/v1/chat/completions" {
		t.Errorf("%+v", got)
	}
	for want, o := range map[string]SessionOptions{
		"expected http(s)": {APIs: APIs()[:1], BaseURL: "ftp://x"},
		"several APIs":     {APIs: APIs(), BaseURL: own.URL},
	} {
		if _, err := g.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
