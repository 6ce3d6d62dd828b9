package gateway

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCredentialsFromACommand(t *testing.T) {
	dir := t.TempDir()
	now := time.Unix(1e9, 0)
	asked := func() int {
		data, _ := os.ReadFile(filepath.Join(dir, "asked"))
		return strings.Count(string(data), "\n")
	}
	sh := func(script string) CredentialCommand {
		return CredentialCommand{Argv: []string{"sh", "-c", "cd '" + dir + "'; " + script}, Kind: APIKey, Keep: 5 * time.Minute}
	}
	login := sh("echo sk-ant-oat-x")
	login.Kind = OAuth
	source := FromCommands(map[string]CredentialCommand{
		"openai":    sh("echo >>asked; echo ' key-1 '"),
		"anthropic": login,
	}, func() time.Time { return now }, func(context.Context, string) (Credential, error) { return Credential{Value: "environment"}, nil })

	for range 3 {
		c, err := source(t.Context(), "openai")
		if err != nil || c.Value != "key-1" || c.Kind != APIKey || c.Beta != "" || !strings.Contains(c.Origin, `"sh"`) {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if n := asked(); n != 1 {
		t.Errorf("it was asked %d times, want once in five minutes", n)
	}
	now = now.Add(5 * time.Minute)
	if _, err := source(t.Context(), "openai"); err != nil || asked() != 2 {
		t.Errorf("%v, asked %d times", err, asked())
	}
	if c, err := source(t.Context(), "anthropic"); err != nil || c.Kind != OAuth || c.Beta != oauthBeta {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := source(t.Context(), "gemini"); err != nil || c.Value != "environment" {
		t.Errorf("%+v, %v", c, err)
	}

	for script, want := range map[string]string{
		"echo noise >&2; echo locked >&2; echo s3cret; exit 3": "exit status 3: locked",
		"true":                                  "it printed nothing",
		"echo a; echo s3cret":                   "more than one line",
		"echo a s3cret":                         "holds a space",
		"head -c 100000 /dev/zero | tr '\\0' x": "more than one line",
		"sleep 60 & echo ok":                    "",
	} {
		s := FromCommands(map[string]CredentialCommand{"gemini": sh(script)}, time.Now, nil)
		began := time.Now()
		c, err := s(t.Context(), "gemini")
		if want == "" && (err == nil) == (c.Value == "") || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%s: %.100v, %v; want %q", script, c, err, want)
		}
		if time.Since(began) > 20*time.Second {
			t.Errorf("%s: it was waited for what it left behind", script)
		}
	}
	s := FromCommands(map[string]CredentialCommand{"gemini": {Argv: []string{"no-such-program-of-herd"}}}, time.Now, nil)
	if _, err := s(t.Context(), "gemini"); err == nil || !strings.Contains(err.Error(), "no-such-program-of-herd") || !strings.Contains(err.Error(), "policy.yml") {
		t.Errorf("%v", err)
	}
}
