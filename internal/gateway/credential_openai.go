package gateway

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// chatGPT is the only place that a ChatGPT login is good for.
const chatGPT = "https://chatgpt.com/backend-api/codex"

func openaiCredential(getenv func(string) string, home string) (Credential, error) {
	c, err := firstVariable(getenv,
		Credential{Kind: APIKey, Origin: "OPENAI_API_KEY"},
		Credential{Kind: APIKey, Origin: "CODEX_API_KEY"})
	if c.Value != "" || err != nil {
		return c, err
	}
	dir := cmp.Or(getenv("CODEX_HOME"), filepath.Join(home, ".codex"))
	return fromCodexLogin(filepath.Join(dir, "auth.json"), time.Now())
}

func geminiCredential(getenv func(string) string) (Credential, error) {
	c, err := firstVariable(getenv,
		Credential{Kind: APIKey, Origin: "GEMINI_API_KEY"},
		Credential{Kind: APIKey, Origin: "GOOGLE_API_KEY"})
	if c.Value != "" || err != nil {
		return c, err
	}
	return Credential{}, &CredentialError{Problem: "no credential for Gemini's API",
		Hint: "set GEMINI_API_KEY (a login of Gemini CLI is for another API and can not be used); --replay DIR needs none"}
}

// fromCodexLogin reads what `codex login` has left: an API key, or a ChatGPT
// login with a token that Codex renews when it runs.
func fromCodexLogin(path string, now time.Time) (Credential, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Credential{}, &CredentialError{Problem: "no credential for OpenAI's API",
			Hint: "set OPENAI_API_KEY, or log in with `codex login`; --replay DIR needs none"}
	}
	if err != nil {
		return Credential{}, &CredentialError{Problem: fmt.Sprintf("read Codex login: %v", err), Hint: "set OPENAI_API_KEY"}
	}
	var file struct {
		Key    string `json:"OPENAI_API_KEY"`
		Tokens struct {
			Access  string `json:"access_token"`
			Account string `json:"account_id"`
		} `json:"tokens"`
	}
	if json.Unmarshal(data, &file) != nil || file.Key == "" && file.Tokens.Access == "" {
		return Credential{}, &CredentialError{Problem: path + " holds no Codex login", Hint: "run `codex login`, or set OPENAI_API_KEY"}
	}
	if file.Key != "" {
		c := Credential{Kind: APIKey, Value: file.Key, Origin: path}
		return c, c.check()
	}
	if at := expiry(file.Tokens.Access); !at.IsZero() && !now.Before(at) {
		return Credential{}, &CredentialError{Problem: fmt.Sprintf("the ChatGPT login in %s expired at %s", path, at.UTC().Format(time.RFC3339)),
			Hint: "run `codex` once (or `codex login`) to renew it, or set OPENAI_API_KEY"}
	}
	base, err := url.Parse(chatGPT)
	if err != nil {
		return Credential{}, err
	}
	c := Credential{Kind: OAuth, Value: file.Tokens.Access, Origin: path, upstream: base, account: file.Tokens.Account}
	if err := (Credential{Value: c.account, Origin: path}).check(); err != nil {
		return Credential{}, err
	}
	return c, c.check()
}

// expiry is when a JWT expires; zero where it does not say.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	var claims struct {
		Expires int64 `json:"exp"` // Unix seconds
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil || claims.Expires <= 0 {
		return time.Time{}
	}
	return time.Unix(claims.Expires, 0)
}
