package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

func TestCredentialsComeFromTheEnvironmentThenTheLogin(t *testing.T) {
	home := t.TempDir()
	login := filepath.Join(home, ".claude", ".credentials.json")
	if err := os.MkdirAll(filepath.Dir(login), 0o755); err != nil {
		t.Fatal(err)
	}
	hour := time.Now().Add(time.Hour).UnixMilli()
	valid := fmt.Sprintf(`{"claudeAiOauth":{"accessToken":"from-file","refreshToken":"never","expiresAt":%d}}`, hour)
	for _, tc := range []struct {
		name string
		env  map[string]string
		file string
		want Credential
		err  string
	}{
		{name: "api key wins", env: map[string]string{"ANTHROPIC_API_KEY": " k\n", "CLAUDE_CODE_OAUTH_TOKEN": "o"}, want: Credential{Kind: APIKey, Value: "k", Origin: "ANTHROPIC_API_KEY"}},
		{name: "auth token", env: map[string]string{"ANTHROPIC_AUTH_TOKEN": "t"}, want: Credential{Kind: OAuth, Value: "t", Origin: "ANTHROPIC_AUTH_TOKEN"}},
		{name: "oauth token", env: map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": "o"}, file: valid, want: Credential{Kind: OAuth, Value: "o", Origin: "CLAUDE_CODE_OAUTH_TOKEN", Beta: oauthBeta}},
		{name: "login", file: valid, want: Credential{Kind: OAuth, Value: "from-file", Origin: login, Beta: oauthBeta}},
		{name: "expired login", file: strings.Replace(valid, fmt.Sprint(hour), "1000", 1), err: "claude /login"},
		{name: "no login in the file", file: `{}`, err: "holds no Claude login"},
		{name: "broken file", file: `{`, err: "holds no Claude login"},
		{name: "nothing", err: "ANTHROPIC_API_KEY"},
		{name: "a line break inside", env: map[string]string{"ANTHROPIC_API_KEY": "a\nX-Evil: 1"}, err: "control character"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.RemoveAll(login); err != nil {
				t.Fatal(err)
			}
			if tc.file != "" {
				if err := os.WriteFile(login, []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := FromEnvironment(func(k string) string { return tc.env[k] }, home)(context.Background(), runtimes.APIAnthropic)
			var hint *CredentialError
			switch {
			case tc.err == "" && (err != nil || got != tc.want):
				t.Errorf("%+v %v", got, err)
			case tc.err != "" && (!errors.As(err, &hint) || !strings.Contains(err.Error(), tc.err)):
				t.Errorf("%v, want %q", err, tc.err)
			}
		})
	}
}

func TestPreflightAndOpenNeedACredentialButReplayDoesNot(t *testing.T) {
	none := FromEnvironment(func(string) string { return "" }, t.TempDir())
	g := newGateway(t, Options{Credentials: none})
	if err := g.Preflight(context.Background(), APIs()[:1]); err == nil {
		t.Error("preflight passes without a credential")
	}
	if _, err := g.Open(SessionOptions{Lane: lane("a"), APIs: APIs()[:1]}); err == nil {
		t.Error("a session opens without a credential")
	}
	replay := newGateway(t, Options{Mode: Replay, Dir: record(t, "alpha")})
	if err := replay.Preflight(context.Background(), APIs()[:1]); err != nil {
		t.Error(err)
	}
	b := openBox(t, replay, lane("alpha"), Limits{})
	if c := b.Credential(); c.Kind != APIKey || !strings.HasPrefix(c.Token, "sk-ant-herd-") {
		t.Errorf("%+v", c)
	}
}

func TestPlaceholdersAreOfTheRealKindAndNeverTheSame(t *testing.T) {
	g := newGateway(t, Options{Credentials: staticLogin})
	a, b := openBox(t, g, lane("a"), Limits{}), openBox(t, g, lane("b"), Limits{})
	if c := a.Credential(); c.Kind != OAuth || !strings.HasPrefix(c.Token, "sk-ant-oat01-herd-") || c == b.Credential() {
		t.Errorf("%+v %+v", c, b.Credential())
	}
}

// A login that expires while a step runs ends it with a hint, without retries.
func TestCredentialLostInMidRun(t *testing.T) {
	up := fakeUpstream(t, "")
	asked := 0
	g := newGateway(t, Options{Upstreams: at(up.URL), Credentials: func(ctx context.Context, api string) (Credential, error) {
		if asked++; asked > 1 {
			return Credential{}, &CredentialError{Problem: "the login expired", Hint: "run claude /login"}
		}
		return staticKey(ctx, api)
	}})
	b := openBox(t, g, lane("a"), Limits{})
	got := b.post(hello("x"))
	if got.status != 401 || got.header.Get("X-Should-Retry") != "false" || !strings.Contains(b.View().Error, "run claude /login") || b.View().LastReason != "auth" {
		t.Errorf("%+v %+v", got, b.View())
	}
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"mode":             {Mode: "tape", Credentials: staticKey},
		"credentials":      {Mode: Live},
		"directory":        {Mode: Record, Credentials: staticKey},
		"expected http(s)": {Mode: Live, Credentials: staticKey, Upstreams: at("ftp://x")},
		"without user":     {Mode: Live, Credentials: staticKey, Upstreams: at("https://u:p@x")},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestCredentialsOfOpenAIAndGemini(t *testing.T) {
	home := t.TempDir()
	login := filepath.Join(home, ".codex", "auth.json")
	if err := os.MkdirAll(filepath.Dir(login), 0o755); err != nil {
		t.Fatal(err)
	}
	jwt := func(expires int64) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expires)) + ".sig"
	}
	hour := jwt(time.Now().Add(time.Hour).Unix())
	chatGPTLogin := func(token string) string {
		return fmt.Sprintf(`{"OPENAI_API_KEY":null,"tokens":{"access_token":%q,"refresh_token":"never","account_id":"acc"}}`, token)
	}
	for _, tc := range []struct {
		name, api string
		env       map[string]string
		file      string
		want      Credential // but for the upstream
		upstream  string
		err       string
	}{
		{name: "key", api: "openai", env: map[string]string{"OPENAI_API_KEY": "k", "CODEX_API_KEY": "c"}, want: Credential{Kind: APIKey, Value: "k", Origin: "OPENAI_API_KEY"}},
		{name: "Codex's key", api: "openai", env: map[string]string{"CODEX_API_KEY": "c"}, file: chatGPTLogin(hour), want: Credential{Kind: APIKey, Value: "c", Origin: "CODEX_API_KEY"}},
		{name: "key of a login", api: "openai", file: `{"OPENAI_API_KEY":"f"}`, want: Credential{Kind: APIKey, Value: "f", Origin: login}},
		{name: "ChatGPT login", api: "openai", file: chatGPTLogin(hour), want: Credential{Kind: OAuth, Value: hour, Origin: login, account: "acc"}, upstream: chatGPT},
		{name: "expired", api: "openai", file: chatGPTLogin(jwt(1000)), err: "run `codex` once"},
		{name: "no expiry to read", api: "openai", file: chatGPTLogin("opaque"), want: Credential{Kind: OAuth, Value: "opaque", Origin: login, account: "acc"}, upstream: chatGPT},
		{name: "account that breaks out", api: "openai", file: strings.Replace(chatGPTLogin(hour), `"acc"`, `"a\r\nX: 1"`, 1), err: "control character"},
		{name: "nothing in the file", api: "openai", file: `{"tokens":{}}`, err: "holds no Codex login"},
		{name: "broken file", api: "openai", file: `{`, err: "codex login"},
		{name: "no OpenAI", api: "openai", err: "set OPENAI_API_KEY"},
		{name: "Gemini", api: "gemini", env: map[string]string{"GEMINI_API_KEY": "g", "GOOGLE_API_KEY": "h"}, want: Credential{Kind: APIKey, Value: "g", Origin: "GEMINI_API_KEY"}},
		{name: "Google", api: "gemini", env: map[string]string{"GOOGLE_API_KEY": "h"}, want: Credential{Kind: APIKey, Value: "h", Origin: "GOOGLE_API_KEY"}},
		{name: "no Gemini", api: "gemini", err: "set GEMINI_API_KEY"},
		{name: "no such API", api: "cobol", err: `no API "cobol"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := os.RemoveAll(login); err != nil {
				t.Fatal(err)
			}
			if tc.file != "" {
				if err := os.WriteFile(login, []byte(tc.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := FromEnvironment(func(k string) string { return tc.env[k] }, home)(context.Background(), tc.api)
			upstream := ""
			if got.upstream != nil {
				upstream, got.upstream = got.upstream.String(), nil
			}
			if tc.err == "" && (err != nil || got != tc.want || upstream != tc.upstream) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%+v %s %v", got, upstream, err)
			}
		})
	}
}

// A ChatGPT login goes to ChatGPT, with its account, and nowhere else.
func TestALoginIsBoundToItsPlace(t *testing.T) {
	up := fakeUpstream(t, "")
	place, err := url.Parse(up.URL + "/s/do=text/r/backend-api/codex")
	if err != nil {
		t.Fatal(err)
	}
	login := func(context.Context, string) (Credential, error) {
		return Credential{Kind: OAuth, Value: realKey, Origin: "auth.json", upstream: place, account: "acc"}, nil
	}
	s := speeches()[1]
	b := s.open(t, newGateway(t, Options{Credentials: login}), Limits{})
	if got := s.post(b, s.ask("x", true)); got.status != 200 {
		t.Fatalf("%+v", got)
	}
	if r := up.seen[0]; r.URL.Path != place.Path+"/responses" || r.Header.Get("Authorization") != "Bearer "+realKey || r.Header.Get("Chatgpt-Account-Id") != "acc" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	elsewhere := []struct {
		bases map[string]string
		base  string
	}{{at("https://proxy.example"), ""}, {nil, "https://proxy.example"}}
	for _, e := range elsewhere {
		g := newGateway(t, Options{Credentials: login, Upstreams: e.bases})
		_, err := g.Open(SessionOptions{Lane: lane("a"), APIs: []string{"openai"}, BaseURL: e.base})
		if err == nil || !strings.Contains(err.Error(), "not for proxy.example; set OPENAI_API_KEY") {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// DOCKER-03: what an agent gets that calls its vendor itself.
// THREATS 2.
func TestCredentialsForAgents(t *testing.T) {
	home := t.TempDir()
	for name, data := range map[string]string{
		".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"at","refreshToken":"never","expiresAt":4102444800000,"scopes":["user:inference"],"new":"unknown"},"mcpOAuth":{"x":"never"}}`,
		".codex/auth.json":          `{"tokens":{"access_token":"opaque","refresh_token":"never","account_id":"acc"}}`,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(name string) string {
		return map[string]string{"ANTHROPIC_BASE_URL": "https://models.example"}[name]
	}
	source := FromEnvironment(getenv, home)

	got, err := ForAgent(t.Context(), source, getenv, runtimes.APIAnthropic)
	if err != nil || got.Kind != OAuth || got.Token != "at" || got.BaseURL != "https://models.example" || got.Login != "" {
		t.Errorf("%+v %v", got, err)
	}
	got, token, err := LoginForAgent(getenv, home)
	if err != nil || token != "at" || got.Kind != "login" || got.Token != "" || got.BaseURL != "https://models.example" {
		t.Errorf("%+v %q %v", got, token, err)
	}
	if want := `{"claudeAiOauth":{"accessToken":"at","expiresAt":4102444800000,"scopes":["user:inference"]}}`; got.Login != want {
		t.Errorf("the login is %s, want %s", got.Login, want)
	}
	var hint *CredentialError
	if _, err := ForAgent(t.Context(), source, getenv, runtimes.APIOpenAI); !errors.As(err, &hint) || !strings.Contains(err.Error(), "chatgpt.com") {
		t.Errorf("a ChatGPT login: %v", err)
	}
	if _, _, err := LoginForAgent(getenv, t.TempDir()); !errors.As(err, &hint) {
		t.Errorf("no login: %v", err)
	}
}
