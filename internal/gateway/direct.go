package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

// ForAgent gives the real credential of an API as an agent gets it that calls the
// API itself (docker.auth: env), past the gateway. The operator has allowed it.
func ForAgent(ctx context.Context, source CredentialSource, getenv func(string) string, api string) (runtimes.Credential, error) {
	c, err := source(ctx, api)
	if err != nil {
		return runtimes.Credential{}, err
	}
	if c.upstream != nil {
		return runtimes.Credential{}, &CredentialError{
			Problem: fmt.Sprintf("the login in %s is for %s, which takes it from its own program only, and no agent can have it in a variable", c.Origin, c.upstream.Host),
			Hint:    "set OPENAI_API_KEY, or leave docker.auth out: the gateway can use it",
		}
	}
	return runtimes.Credential{Kind: c.Kind, Token: c.Value, BaseURL: UpstreamsFromEnvironment(getenv)[api]}, nil
}

// LoginForAgent gives the file of Claude Code's login as an agent gets it
// (docker.auth: mount), and the token in it. What renews the login is left out:
// who renews it logs the person out, so it never enters a box.
func LoginForAgent(getenv func(string) string, home string) (cred runtimes.Credential, token string, err error) {
	path := filepath.Join(cmp.Or(getenv("CLAUDE_CONFIG_DIR"), filepath.Join(home, ".claude")), ".credentials.json")
	c, data, err := fromClaudeLogin(path, time.Now())
	if err != nil {
		return cred, "", err
	}
	var file struct {
		Login map[string]any `json:"claudeAiOauth"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return cred, "", fmt.Errorf("read Claude login: %w", err)
	}
	kept := map[string]any{}
	for _, name := range []string{"accessToken", "expiresAt", "scopes", "subscriptionType", "rateLimitTier"} {
		if v, ok := file.Login[name]; ok {
			kept[name] = v
		}
	}
	login, err := json.Marshal(map[string]any{"claudeAiOauth": kept})
	return runtimes.Credential{Kind: "login", Login: string(login), BaseURL: UpstreamsFromEnvironment(getenv)[runtimes.APIAnthropic]}, c.Value, err
}
