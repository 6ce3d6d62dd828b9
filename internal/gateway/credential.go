package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The kinds of credentials. CLIs behave differently by kind.
const (
	APIKey = "api-key" // x-api-key
	OAuth  = "oauth"   // Authorization: Bearer
)

// Credential is a real credential. It never leaves the runner's process but
// towards the upstream.
type Credential struct {
	Kind   string
	Value  string
	Origin string // where it was found, for the person
	// Beta is the anthropic-beta flag a request with this credential needs.
	Beta string
}

// oauthBeta marks requests with a Claude login's token.
const oauthBeta = "oauth-2025-04-20"

// CredentialSource gives the credential to use now. It is asked for every
// request, so that a login renewed elsewhere is picked up, and must be safe for
// concurrent use.
type CredentialSource func(ctx context.Context) (Credential, error)

// CredentialError says why there is no credential and what to do.
type CredentialError struct {
	Problem string
	Hint    string
}

func (e *CredentialError) Error() string { return e.Problem + "; " + e.Hint }

// FromEnvironment looks, in this order, at ANTHROPIC_API_KEY,
// ANTHROPIC_AUTH_TOKEN, CLAUDE_CODE_OAUTH_TOKEN and the Claude CLI's own login
// file in home (or CLAUDE_CONFIG_DIR), which it reads anew each time and never
// refreshes: that would rotate the login and log the person out.
func FromEnvironment(getenv func(string) string, home string) CredentialSource {
	return func(context.Context) (Credential, error) {
		for _, c := range []Credential{
			{Kind: APIKey, Origin: "ANTHROPIC_API_KEY"},
			{Kind: OAuth, Origin: "ANTHROPIC_AUTH_TOKEN"},
			{Kind: OAuth, Origin: "CLAUDE_CODE_OAUTH_TOKEN", Beta: oauthBeta},
		} {
			if c.Value = strings.TrimSpace(getenv(c.Origin)); c.Value != "" {
				return c, c.check()
			}
		}
		dir := getenv("CLAUDE_CONFIG_DIR")
		if dir == "" {
			dir = filepath.Join(home, ".claude")
		}
		return fromLogin(filepath.Join(dir, ".credentials.json"), time.Now())
	}
}

// check refuses values that would break out of a header.
func (c Credential) check() error {
	if strings.ContainsFunc(c.Value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return &CredentialError{Problem: c.Origin + " holds a space or control character", Hint: "set it again"}
	}
	return nil
}

func fromLogin(path string, now time.Time) (Credential, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Credential{}, &CredentialError{Problem: "no credential for Anthropic's API",
			Hint: "set ANTHROPIC_API_KEY, or CLAUDE_CODE_OAUTH_TOKEN (from `claude setup-token`), or log in with `claude /login`; --replay DIR needs none"}
	}
	if err != nil {
		return Credential{}, &CredentialError{Problem: fmt.Sprintf("read Claude login: %v", err), Hint: "set ANTHROPIC_API_KEY"}
	}
	var file struct {
		Login struct {
			AccessToken string `json:"accessToken"`
			ExpiresAt   int64  `json:"expiresAt"` // Unix milliseconds
		} `json:"claudeAiOauth"`
	}
	c := Credential{Kind: OAuth, Origin: path, Beta: oauthBeta}
	if json.Unmarshal(data, &file) != nil || file.Login.AccessToken == "" {
		return Credential{}, &CredentialError{Problem: path + " holds no Claude login", Hint: "run `claude /login`, or set ANTHROPIC_API_KEY"}
	}
	if at := time.UnixMilli(file.Login.ExpiresAt); file.Login.ExpiresAt > 0 && !now.Before(at) {
		return Credential{}, &CredentialError{Problem: fmt.Sprintf("the Claude login in %s expired at %s", path, at.UTC().Format(time.RFC3339)),
			Hint: "run `claude` once (or `claude /login`) to renew it, or set ANTHROPIC_API_KEY"}
	}
	c.Value = file.Login.AccessToken
	return c, c.check()
}
