package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredentialCommands(t *testing.T) {
	for text, want := range map[string]string{
		"credentials: {openai: {command: [op, read, x], kind: oauth, minutes: 0}}": "",
		"credentials: {opena: {command: [op]}}":                                    `"opena": expected anthropic, openai or gemini`,
		"credentials: {openai: {}}":                                                "it needs command:",
		"credentials: {openai: {command: op}}":                                     "credentials",
		"credentials: {openai: {command: [op], kind: key}}":                        `kind: "key": expected api-key or oauth`,
		"credentials: {openai: {command: [op], minutes: -1}}":                      "minutes: -1: expected 0 to 1440",
		"credentials: {openai: {command: [op], minutes: .nan}}":                    "minutes: NaN",
	} {
		path := filepath.Join(t.TempDir(), "policy.yml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := Load(path, nil)
		switch {
		case want == "" && (err != nil || p.Credentials()["openai"].Kind != "oauth" || *p.Credentials()["openai"].Minutes != 0):
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
