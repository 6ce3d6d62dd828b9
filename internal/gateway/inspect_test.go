package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInspect(t *testing.T) {
	lanes, err := Inspect(record(t, "beta", "alpha"))
	if err != nil {
		t.Fatal(err)
	}
	if len(lanes) != 2 || lanes[0].Lane.Step != "alpha" || len(lanes[0].Exchanges) != 2 {
		t.Fatalf("%+v", lanes)
	}
	e := lanes[0].Exchanges[1]
	if filepath.Base(e.File) != "main-002.json" || e.Agent != "main" || e.Dialect != "messages" || e.Kind != "main" || e.Model != "claude-sonnet-5" ||
		e.Status != 200 || e.StopReason != "end_turn" || e.Usage.InputTokens != 20 || e.Usage.OutputTokens != 6 || e.Turn[0] != "tool result 1 (Bash):" {
		t.Errorf("%+v", e)
	}
	if _, err := Inspect(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no recordings") {
		t.Error(err)
	}
}

func TestLeaks(t *testing.T) {
	a := strings.Repeat("a1B2", 12)
	for text, want := range map[string]string{
		"key " + realKey:                         "an Anthropic key or token",
		"sk-proj-" + a:                           "an OpenAI key",
		"sk-" + a:                                "an OpenAI key",
		"AIza" + a[:35]:                          "a Google key",
		"ghp_" + a[:36]:                          "a GitHub token",
		"github_pat_" + a:                        "a GitHub token",
		"AKIAABCDEFGHIJKLMNOP":                   "an AWS key id",
		`-----BEGIN RSA PRIVATE KEY-----`:        "a private key",
		`authorization: Bearer ` + a:             "a bearer token",
		"https://ann:hunter2@host.example/x.git": "a password in a URL",
		"eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM." + a:  "a JSON web token",
		"sk-short, AIzaShort, ghp_, Bearer ***":  "",
		"https://host.example:8080/a@b":          "",
		"https://ann:***@host.example/x.git":     "",
		"task-" + a:                              "",
	} {
		dir := record(t, "alpha")
		file := filepath.Join(lane("alpha").path(dir), "main-001.json")
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(data), "alpha", text, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		leaks, err := Leaks(dir)
		switch {
		case err != nil:
			t.Fatal(err)
		case want == "" && len(leaks) > 0:
			t.Errorf("%q: %+v", text, leaks)
		case want != "" && (len(leaks) != 1 || leaks[0].Looks != want || leaks[0].File != file || leaks[0].Line < 2 || strings.Contains(leaks[0].Begin, text)):
			t.Errorf("%q: %+v, want %s", text, leaks, want)
		}
	}
}
