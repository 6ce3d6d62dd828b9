package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

const tellToken = `tr '\0' '\n' </proc/$PPID/environ | grep ^ANTHROPIC_`

// THREATS 2, 14: an agent's box that is used again has its HOME, and nothing of
// the credential it had before: a new guest, a new token, and the old one opens
// nothing.
func TestReusedAgentBoxGetsFreshCredentials(t *testing.T) {
	t.Parallel()
	model := newModel(t, fmt.Sprintf(`
scenarios:
  - name: tell
    prompt: Tell your token
    turns:
      - calls: [{name: "Bash|bash", input: {command: %q, description: tell}}]
      - text: Told.
`, tellToken+`; echo x >>"$HOME/count"; wc -l <"$HOME/count"`))
	m := newMachine(t, model.asked("sk-ant-api03-"+strings.Repeat("r3alKey", 8))...)
	dir := newProject(t, map[string]string{"README.md": "# Toy\n"})
	const workflow = `
on: workflow_dispatch
jobs:
  a:
    steps:
      - id: tell
        prompt: Tell your token
        workspace: ro
        docker: {network: none, reuse: true}
        runtime: {type: sdk, engine: anthropic, model: claude-sonnet-4-5}
`
	file := filepath.Join(t.TempDir(), "flow.yml")
	write(t, file, workflow)
	var boxes, tokens, said [2]string
	for run := range 2 {
		wait := model.hold(afterTool)
		p := m.start(t, "run", "--json", "-C", dir, file)
		boxes[run] = p.awaitBox("a", "tell")
		wait.wait(t, p)
		told := p.await("the agent's token", func(e event.Event) bool { return e.Type == event.Agent && e.Message.Kind == event.MessageToolResult })
		var base string
		for line := range strings.Lines(told.Message.Text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch name {
			case "ANTHROPIC_API_KEY":
				tokens[run] = value
			case "ANTHROPIC_BASE_URL":
				base = value
			default:
				said[run] = name
			}
		}
		if tokens[run] == "" || base == "" {
			t.Fatalf("the agent does not tell its token:\n%s", told.Message.Text)
		}
		if run == 1 {
			const ask = `curl -s -m 10 -o /dev/null -w '%%{http_code}' -H 'x-api-key: %s' -H 'content-type: application/json' %s/v1/messages -d '{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}'`
			if got := m.engine.exec(t, boxes[1], fmt.Sprintf(ask, tokens[0], base), ""); got != "401" {
				t.Errorf("the token of the run before: HTTP %s, want 401", got)
			}
			if got := m.engine.exec(t, boxes[1], "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'", ""); strings.Contains(got, tokens[0]) || !strings.Contains(got, tokens[1]) {
				t.Errorf("the box's environments:\n%s", got)
			}
		}
		wait.release()
		p.wait().wantCode(t, 0)
	}
	if boxes[0] != boxes[1] || said != [2]string{"1", "2"} {
		t.Errorf("it was not used again: boxes %v, said %v", boxes, said)
	}
	if tokens[0] == tokens[1] {
		t.Error("both runs have the same token")
	}
	m.call(t, "box", "rm", "--all").wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}

// THREATS 1: the box of an agent that is kept to look into has neither the real
// key nor a placeholder in force, for the person who enters it and on the disk.
func TestKeptAgentBoxHoldsNoKey(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-api03-K3pt-RealKey-7c1bd0e94fa2-QqZzXx0077EE"
	model := newModel(t, fmt.Sprintf(curious, lookEverywhere))
	m := newMachine(t, model.asked(key)...)
	dir := newRepository(t, map[string]string{"README.md": "# Toy\n"})
	r := m.run(t, dir, strings.Replace(curiousWorkflow, "{network: none}", "{network: none, ephemeral: false}", 1)).wantCode(t, 0)
	boxes := m.boxList(t)
	if len(boxes) != 2 {
		t.Fatalf("kept: %+v", boxes)
	}
	secret := needles(key)
	for _, b := range boxes {
		_, raw := m.engine.inspect(t, b.ID)
		wantNone(t, "docker inspect", raw, secret)
		seen := m.call(t, "box", "exec", b.ID[:12], "--", "sh", "-c", `env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n'; find / -xdev -type f -readable -size -256k -not -path '/proc/*' -not -path '/sys/*' -not -path '/usr/*' 2>/dev/null | xargs -r -d '\n' cat 2>/dev/null; curl -s -m 3 http://127.0.0.1:1/ || echo nothing listens`).wantCode(t, 0)
		wantNone(t, "box "+b.Job, seen.stdout, secret)
		if !strings.Contains(seen.stdout, "nothing listens") || strings.Contains(seen.stdout, "\nANTHROPIC_API_KEY=") {
			t.Errorf("%s: %s", b.Job, tail(seen.stdout))
		}
		wantNoneIn(t, b.Session, secret)
	}
	wantNone(t, "stdout", r.stdout, secret)
	m.call(t, "box", "rm", "--all").wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}
