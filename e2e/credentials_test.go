package e2e

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// lookEverywhere is what a curious agent does to find a key.
const lookEverywhere = `env; tr '\0' '\n' </proc/self/environ; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\0' '\n'; ` +
	`find /workspace /herd /tmp /run /home /root -xdev -type f -readable -size -64k 2>/dev/null | head -500 | xargs -r -d '\n' cat 2>/dev/null | head -c 20000; echo searched`

const curious = `
scenarios:
  - name: search
    prompt: Find the key
    turns:
      - calls: [{name: "Bash|bash", input: {command: %q, description: look}}]
      - text: There is none.
`

const curiousWorkflow = `
on: workflow_dispatch
defaults:
  workspace: ro
  docker: {network: none}
jobs:
  claude:
    steps:
      - {id: look, prompt: Find the key, runtime: {type: cli, engine: claude, model: sonnet}}
  sdk:
    steps:
      - {id: look, prompt: Find the key, runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}}
`

// TestRealKeyStaysOutside follows a distinctive key through a recorded run: the
// model gets it, and nothing else ever does.
// THREATS 1.
func TestRealKeyStaysOutside(t *testing.T) {
	for _, test := range []struct {
		name, variable, key, header string
	}{
		{"API key", "ANTHROPIC_API_KEY", "sk-ant-api03-Dist1nct-RealKey-7c1bd0e94fa2-QqZzXx0099AA", "X-Api-Key"},
		{"OAuth token", "CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-Dist1nct-RealTok-5e88aa13bc07-WwYyVv4411BB", "Authorization"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			model := newModel(t, fmt.Sprintf(curious, lookEverywhere))
			waits := []*hold{model.hold(afterTool, fromClaude), model.hold(afterTool, fromSDK)}
			m := newMachine(t, "ANTHROPIC_BASE_URL="+model.url, test.variable+"="+test.key)
			dir := newRepository(t, map[string]string{"README.md": "# Toy\n"})
			cassettes := filepath.Join(t.TempDir(), "cassettes")
			p := m.startRun(t, dir, curiousWorkflow, "--record", cassettes)

			secret := needles(test.key)
			boxes := []string{p.awaitBox("claude", "look"), p.awaitBox("sdk", "look")}
			for _, wait := range waits {
				wait.wait(t, p)
			}
			for _, id := range boxes {
				c, raw := m.engine.inspect(t, id)
				wantNone(t, "docker inspect", raw, secret)
				// The patterns come on stdin: nothing of ours in the box names them.
				found := m.engine.exec(t, id, `grep -rlaF -f - --exclude-dir=proc --exclude-dir=sys / $(ls /proc/[0-9]*/environ /proc/[0-9]*/cmdline) 2>/dev/null
					echo searched`, strings.Join(secret, "\n")+"\n")
				if found != "searched\n" {
					t.Errorf("the key is in the box:\n%s", found)
				}
				if os.Getuid() == 0 {
					// Process 1 hides from the box's user; not from us.
					for _, file := range []string{"environ", "cmdline"} {
						wantNone(t, "process 1's "+file, read(t, fmt.Sprintf("/proc/%d/%s", c.State.Pid, file)), secret)
					}
				}
			}
			for _, wait := range waits {
				wait.release()
			}
			r := p.wait().wantCode(t, 0)

			wantNone(t, "stdout", r.stdout, secret)
			wantNone(t, "stderr", r.stderr, secret)
			wantNoneIn(t, filepath.Join(dir, ".herd"), secret)
			wantNoneIn(t, cassettes, secret)
			wantNoneIn(t, dir, secret)
			wantNoneIn(t, m.state, secret)
			for _, job := range []string{"claude", "sdk"} {
				if got := r.toolResults(job, "look"); !strings.Contains(got, "searched") || !strings.Contains(got, "PATH=") {
					t.Errorf("%s: the agent's own search did not run:\n%s", job, got)
				}
			}
			wantSentTo(t, model, test.header, test.key)
			m.wantNothingLeft(t, dir)
		})
	}
}

// TestLoginOnTheHostIsMasked: a step without a box can read the person's login;
// what it prints of it is written nowhere.
// THREATS 1.
func TestLoginOnTheHostIsMasked(t *testing.T) {
	t.Parallel()
	const token = "sk-ant-oat01-L0gin-OfThePerson-93ab77e0c1d5-TtRrEe2288CC"
	model := newModel(t, fmt.Sprintf(curious, "true"))
	m := newMachine(t, "ANTHROPIC_BASE_URL="+model.url)
	write(t, filepath.Join(filepath.Dir(m.state), ".claude/.credentials.json"), `{"claudeAiOauth": {"accessToken": "`+token+`", "expiresAt": 4102444800000}}`)
	dir := newProject(t, nil)
	r := m.run(t, dir, `
on: workflow_dispatch
defaults: {docker: false}
jobs:
  host:
    steps:
      - id: print
        run: |
          cat "$HOME/.claude/.credentials.json"; sed 's/.*accessToken": "//; s/".*//' "$HOME/.claude/.credentials.json" | base64 -w0
  agent:
    steps:
      - {id: look, prompt: Find the key, docker: {network: none}, workspace: ro, runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}}
`, "--allow", "host").wantCode(t, 0)
	if got := r.output("host", "print"); !strings.Contains(got, "***") || !strings.Contains(got, "accessToken") {
		t.Errorf("the step printed %q", got)
	}
	wantNone(t, "stdout", r.stdout, needles(token))
	wantNoneIn(t, filepath.Join(dir, ".herd"), needles(token))
	for _, asked := range model.requests() {
		if asked.Method == "POST" && asked.Headers["Authorization"] != "Bearer "+token {
			t.Errorf("the model was asked with %q", asked.Headers["Authorization"])
		}
	}
}

// wantSentTo asserts that the model saw the real key, and no placeholder.
func wantSentTo(t *testing.T, m *model, header, key string) {
	t.Helper()
	asked := 0
	for _, r := range m.requests() {
		if r.Method != "POST" {
			continue
		}
		asked++
		want := map[string]string{header: strings.TrimPrefix("Bearer "+key, map[string]string{"X-Api-Key": "Bearer "}[header])}
		for _, h := range []string{"X-Api-Key", "Authorization"} {
			if r.Headers[h] != want[h] {
				t.Errorf("%s %s: header %s is %q, want %q", r.Method, r.URL, h, r.Headers[h], want[h])
			}
		}
	}
	if asked < 4 {
		t.Errorf("the model was asked %d times, want at least 4", asked)
	}
}

// needles are the forms that a key could hide in.
func needles(key string) []string {
	reversed := []byte(key)
	slices.Reverse(reversed)
	forms := []string{
		key, string(reversed), url.QueryEscape(key), hex.EncodeToString([]byte(key)),
		key[:len(key)/2], key[len(key)/2:],
	}
	// Base64 of a text that holds the key, at each of the three alignments;
	// the borders depend on the neighbours.
	for shift := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + key))
		forms = append(forms, text[4:len(text)-4])
	}
	slices.Sort(forms)
	forms = slices.Compact(forms)
	// The beginning alone is what all keys have in common.
	return slices.DeleteFunc(forms, func(s string) bool { return len(s) < 16 })
}

func wantNone(t *testing.T, where, text string, secret []string) {
	t.Helper()
	for _, s := range secret {
		if i := strings.Index(text, s); i >= 0 {
			t.Errorf("%s holds the key as %q: …%s…", where, s, text[max(0, i-80):min(len(text), i+len(s)+40)])
		}
	}
}

func wantNoneIn(t *testing.T, dir string, secret []string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		wantNone(t, "the name of "+name, name, secret)
		if d.Type().IsRegular() {
			files++
			wantNone(t, name, read(t, name), secret)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if files == 0 {
		t.Errorf("no file in %s: there is nothing to look into", dir)
	}
}

// TestPlaceholderIsWorthNothingElsewhere lets one agent try another's token.
// THREATS 2, 8.
func TestPlaceholderIsWorthNothingElsewhere(t *testing.T) {
	t.Parallel()
	const tell = `tr '\0' '\n' </proc/$PPID/environ | grep ^ANTHROPIC_ | sort; env | grep ^ANTHROPIC_ | sort -u`
	model := newModel(t, fmt.Sprintf(`
scenarios:
  - name: victim
    prompt: Tell your token
    turns:
      - calls: [{name: "Bash|bash", input: {command: %q, description: tell}}]
      - text: Told.
`, tell))
	wait := model.hold(afterTool)
	m := newMachine(t, model.asked("sk-ant-api03-"+strings.Repeat("r3alKey", 8))...)
	dir := newProject(t, map[string]string{"README.md": "# Toy\n"})
	p := m.startRun(t, dir, `
on: workflow_dispatch
defaults:
  workspace: ro
  docker: {network: none}
  runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
jobs:
  a: {steps: [{id: a, prompt: Tell your token}]}
  b: {steps: [{id: b, prompt: Tell your token}]}
`)
	ids := map[string]string{"a": p.awaitBox("a", "a"), "b": p.awaitBox("b", "b")}
	token, url := map[string]string{}, map[string]string{}
	for job := range ids {
		e := p.await("tokens of "+job, func(e event.Event) bool {
			return e.Type == event.Agent && e.Job == job && e.Message.Kind == event.MessageToolResult
		})
		for line := range strings.Lines(e.Message.Text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch name {
			case "ANTHROPIC_API_KEY":
				token[job] = value
			case "ANTHROPIC_BASE_URL":
				url[job] = value
			}
		}
		if token[job] == "" || url[job] == "" {
			t.Fatalf("agent %s does not tell its token:\n%s", job, e.Message.Text)
		}
	}
	wait.wait(t, p)
	if token["a"] == token["b"] {
		t.Fatal("both agents have the same token")
	}
	ask := func(box, base, token string) string {
		return m.engine.exec(t, box, fmt.Sprintf(`curl -s -m 10 -o /dev/null -w '%%{http_code}' -H 'x-api-key: %s' -H 'content-type: application/json' %s/v1/messages -d '{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}' || echo " no connection"`, token, base), "")
	}
	if got := ask(ids["b"], url["b"], token["a"]); got != "401" {
		t.Errorf("a's token at b's gateway: HTTP %s, want 401", got)
	}
	if got := ask(ids["b"], url["b"], "nonsense"); got != "401" {
		t.Errorf("a made-up token: HTTP %s, want 401", got)
	}
	if got := ask(ids["b"], url["b"], token["b"]); got != "400" {
		t.Errorf("b's own token: HTTP %s, want the model's own 400 for an unscripted prompt", got)
	}
	wait.release()
	p.wait().wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}
