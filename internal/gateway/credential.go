package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

// The kinds of credentials. CLIs behave differently by kind.
const (
	APIKey = "api-key"
	OAuth  = "oauth" // a login's token
)

// Credential is a real credential. It never leaves the runner's process but
// towards the upstream.
type Credential struct {
	Kind   string
	Value  string
	Origin string // where it was found, for the person
	// Beta is the anthropic-beta flag a request with this credential needs.
	Beta string

	upstream *url.URL // the only place the credential is good for; nil: any
	account  string   // of a ChatGPT login
}

// oauthBeta marks requests with a Claude login's token.
const oauthBeta = "oauth-2025-04-20"

// CredentialSource gives the credential to use now for an API. It is asked for
// every request, so that a login renewed elsewhere is picked up, and must be
// safe for concurrent use.
type CredentialSource func(ctx context.Context, api string) (Credential, error)

// CredentialError says why there is no credential and what to do.
type CredentialError struct {
	Problem string
	Hint    string
}

func (e *CredentialError) Error() string { return e.Problem + "; " + e.Hint }

// FromEnvironment looks at the variables of the API's vendor, then at the login
// file of the vendor's own CLI in home, which it reads anew each time and never
// refreshes: that would rotate the login and log the person out.
//
//   - Anthropic: ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, CLAUDE_CODE_OAUTH_TOKEN,
//     Claude Code's login (in CLAUDE_CONFIG_DIR or ~/.claude)
//   - OpenAI: OPENAI_API_KEY, CODEX_API_KEY, Codex's login (in CODEX_HOME or
//     ~/.codex), which is a key of its own or a ChatGPT login
//   - Gemini: GEMINI_API_KEY, GOOGLE_API_KEY
func FromEnvironment(getenv func(string) string, home string) CredentialSource {
	return func(_ context.Context, api string) (Credential, error) {
		switch api {
		case runtimes.APIAnthropic:
			return anthropicCredential(getenv, home)
		case runtimes.APIOpenAI:
			return openaiCredential(getenv, home)
		case runtimes.APIGemini:
			return geminiCredential(getenv)
		}
		return Credential{}, fmt.Errorf("the model gateway knows no API %q", api)
	}
}

func anthropicCredential(getenv func(string) string, home string) (Credential, error) {
	c, err := firstVariable(getenv,
		Credential{Kind: APIKey, Origin: "ANTHROPIC_API_KEY"},
		Credential{Kind: OAuth, Origin: "ANTHROPIC_AUTH_TOKEN"},
		Credential{Kind: OAuth, Origin: "CLAUDE_CODE_OAUTH_TOKEN", Beta: oauthBeta})
	if c.Value != "" || err != nil {
		return c, err
	}
	dir := cmp.Or(getenv("CLAUDE_CONFIG_DIR"), filepath.Join(home, ".claude"))
	c, _, err = fromClaudeLogin(filepath.Join(dir, ".credentials.json"), time.Now())
	return c, err
}

// firstVariable fills in the first of the credentials whose variable is set.
func firstVariable(getenv func(string) string, of ...Credential) (Credential, error) {
	for _, c := range of {
		if c.Value = strings.TrimSpace(getenv(c.Origin)); c.Value != "" {
			return c, c.check()
		}
	}
	return Credential{}, nil
}

// UpstreamsFromEnvironment are the base URLs that the vendors' own variables
// name: ANTHROPIC_BASE_URL and the like.
func UpstreamsFromEnvironment(getenv func(string) string) map[string]string {
	bases := map[string]string{}
	for _, api := range APIs() {
		bases[api] = getenv(vendorOf(api).baseVar)
	}
	return bases
}

// check refuses values that would break out of a header.
func (c Credential) check() error {
	if strings.ContainsFunc(c.Value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &CredentialError{Problem: c.Origin + " holds a space or control character", Hint: "set it again"}
	}
	return nil
}

// fromClaudeLogin also gives the whole file.
func fromClaudeLogin(path string, now time.Time) (Credential, []byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Credential{}, nil, &CredentialError{Problem: "no credential for Anthropic's API",
			Hint: "set ANTHROPIC_API_KEY, or CLAUDE_CODE_OAUTH_TOKEN (from `claude setup-token`), or log in with `claude /login`; --replay DIR needs none"}
	}
	if err != nil {
		return Credential{}, nil, &CredentialError{Problem: fmt.Sprintf("read Claude login: %v", err), Hint: "set ANTHROPIC_API_KEY"}
	}
	var file struct {
		Login struct {
			AccessToken string `json:"accessToken"`
			ExpiresAt   int64  `json:"expiresAt"` // Unix milliseconds
		} `json:"claudeAiOauth"`
	}
	c := Credential{Kind: OAuth, Origin: path, Beta: oauthBeta}
	if json.Unmarshal(data, &file) != nil || file.Login.AccessToken == "" {
		return Credential{}, nil, &CredentialError{Problem: path + " holds no Claude login", Hint: "run `claude /login`, or set ANTHROPIC_API_KEY"}
	}
	if at := time.UnixMilli(file.Login.ExpiresAt); file.Login.ExpiresAt > 0 && !now.Before(at) {
		return Credential{}, nil, &CredentialError{Problem: fmt.Sprintf("the Claude login in %s expired at %s", path, at.UTC().Format(time.RFC3339)),
			Hint: "run `claude` once (or `claude /login`) to renew it, or set ANTHROPIC_API_KEY"}
	}
	c.Value = file.Login.AccessToken
	return c, data, c.check()
}
