package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
)

// everyModel is the environment of a runner whose model, whatever its API,
// follows a script of package fakemodel.
func (m *model) everyModel(script string) []string {
	base := m.url + "/s/" + script + "/" + m.t.Name()
	return append(m.openAI(script, "sk-test"),
		"ANTHROPIC_BASE_URL="+base, "ANTHROPIC_API_KEY=sk-ant-test", "GOOGLE_GEMINI_BASE_URL="+base, "GEMINI_API_KEY=gemini-test")
}

// said is what an agent step did and said, each line of its own: a call by its
// tool's name.
func (r result) said(job, step string) []string {
	var all []string
	for _, e := range r.events {
		if e.Type != event.Agent || e.Job != job || e.Step != step {
			continue
		}
		switch e.Message.Kind {
		case event.MessageText:
			for line := range strings.Lines(e.Message.Text) {
				if line = strings.TrimSpace(line); line != "" {
					all = append(all, line)
				}
			}
		case event.MessageToolCall:
			all = append(all, "call "+e.Message.Tool)
		case event.MessageToolResult:
			all = append(all, "result "+strings.TrimSpace(e.Message.Text))
		}
	}
	return all
}

// TestTheSessionFileIsASecondSource (RUNTIME-03, RUNTIME-06, RUNTIME-07): the real
// CLIs in sealed boxes, with and without their stdout. Without it the transcript
// comes from what they write to their session files, and is the same; the step
// has no success all the same, because there was no result.
func TestTheSessionFileIsASecondSource(t *testing.T) {
	t.Parallel()
	needEveryEngine(t)
	model := newModel(t, "")
	m := newMachine(t, model.everyModel("cmd="+b64("echo hello > f.txt; cat f.txt")+",text="+b64("All done.\n\nf.txt says hello."))...)
	dir := newRepository(t, map[string]string{"a.txt": "a\n"})
	for name, engine := range map[string]string{"claude": "claude", "codex": "codex, model: gpt-5.6-sol", "gemini": "gemini, model: gemini-2.5-pro"} {
		bin := filepath.Join(dir, "silent", name)
		write(t, bin, "#!/bin/sh\nexec /usr/local/bin/"+name+" \"$@\" >/dev/null\n")
		if err := os.Chmod(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		r := m.run(t, dir, `
on: workflow_dispatch
defaults:
  docker: {image: "herd-runner/agent:all", network: none}
  runtime: {type: cli, engine: `+engine+`}
jobs:
  agent:
    steps:
      - id: loud
        prompt: Make the file.
      - id: silent
        prompt: Make the file.
        continue-on-error: true
        env: {PATH: "/workspace/silent:/usr/local/bin:/usr/bin:/bin"}
`).wantCode(t, 0)
		loud, silent := r.said("agent", "loud"), r.said("agent", "silent")
		if len(loud) < 4 {
			t.Errorf("%s: with stdout it said %q", name, loud)
		}
		if diff := cmp.Diff(loud, silent); diff != "" {
			t.Errorf("%s (-with stdout +without): %s", name, diff)
		}
		if out := r.step(t, "agent", "silent"); out.Cause != event.CauseNoResult || out.Usage == nil || out.Usage.OutputTokens != 40 {
			t.Errorf("%s: without stdout it ended as %+v", name, out)
		}
	}
}

// TestSessionsGoOnInOtherSteps: the real CLIs and the loop, each in sealed boxes
// of their own, go on with each other's conversations: resumed in the job, forked
// in the legs of the next. The model sees what was said before.
func TestSessionsGoOnInOtherSteps(t *testing.T) {
	t.Parallel()
	needEveryEngine(t)
	for name, engine := range map[string]string{
		"claude": "type: cli, engine: claude", "codex": "type: cli, engine: codex, model: gpt-5.6-sol",
		"opencode": "type: cli, engine: opencode", "gemini": "type: cli, engine: gemini, model: gemini-2.5-pro",
		"sdk": "type: sdk, engine: anthropic",
	} {
		model := newModel(t, "")
		m := newMachine(t, model.everyModel("do=text")...)
		dir := newRepository(t, map[string]string{"a.txt": "a\n"})
		forks := name != "gemini"
		use := "{fork: plan/more}"
		if !forks {
			use = "plan/more"
		}
		matrix := "strategy: {matrix: {part: [left, right]}}"
		if !forks {
			matrix = "strategy: {max-parallel: 1}"
		}
		r := m.run(t, dir, `
on: workflow_dispatch
defaults:
  docker: {image: "herd-runner/agent:all", network: none}
  runtime: {`+engine+`}
  workspace: ro
jobs:
  plan:
    steps:
      - {id: think, prompt: FIRST-WORDS}
      - {id: more, prompt: SECOND-WORDS, runtime: {session: think}}
  work:
    needs: plan
    `+matrix+`
    steps:
      - {id: do, prompt: THIRD-WORDS, runtime: {session: `+use+`}}
`).wantCode(t, 0)
		requests := model.bodies("THIRD-WORDS")
		if len(requests) == 0 {
			t.Errorf("%s: the last steps did not ask the model", name)
		}
		for _, body := range requests {
			for _, want := range []string{"FIRST-WORDS", "SECOND-WORDS"} {
				if n := strings.Count(body, want); n != 1 {
					t.Errorf("%s: the last step's model saw %s %d times", name, want, n)
				}
			}
		}
		first, second := r.step(t, "plan", "think"), r.step(t, "plan", "more")
		if first.SessionID == "" || first.SessionID != second.SessionID {
			t.Errorf("%s: session %q was resumed as %q", name, first.SessionID, second.SessionID)
		}
		if forks {
			left, right := r.step(t, "work (left)", "do"), r.step(t, "work (right)", "do")
			if left.SessionID == first.SessionID || left.SessionID == right.SessionID {
				t.Errorf("%s: the forks are %q and %q of %q", name, left.SessionID, right.SessionID, first.SessionID)
			}
			for _, step := range []string{"work (left)", "work (right)"} {
				if said := r.said(step, "do"); len(said) != 1 {
					t.Errorf("%s: %s said %q: what was said before is not its", name, step, said)
				}
			}
		}
		m.wantNothingLeft(t, dir)
		kept, err := filepath.Glob(filepath.Join(dir, ".herd/docker-sessions/*/*/*/*-session/home/.herd-*"))
		if err != nil || len(kept) != 2 {
			t.Errorf("%s: the sessions kept are %q, %v", name, kept, err)
		}
		wantNoFileWith(t, filepath.Join(dir, ".herd"), "sk-ant-test")
	}
}

// TestExampleSessions runs examples/workflows/sessions.yml with the real CLI.
func TestExampleSessions(t *testing.T) {
	t.Parallel()
	model := newModel(t, "")
	m := newMachine(t, model.everyModel("do=text")...)
	dir := newRepository(t, map[string]string{"README.md": "# Toy\n"})
	r := m.call(t, "run", "--json", "-C", dir, filepath.Join(built(t).root, "examples/workflows/sessions.yml")).wantCode(t, 0)
	if plan, read := r.step(t, "plan", "plan").SessionID, r.step(t, "plan", "read").SessionID; plan != read {
		t.Errorf("session %q was resumed as %q", read, plan)
	}
	for _, part := range []string{"changelog", "licence check"} {
		requests := model.bodies("about the " + part)
		if len(requests) != 1 || !strings.Contains(requests[0], "Plan how to add a changelog") {
			t.Errorf("%s: asked %d times, or without the plan", part, len(requests))
		}
	}
	m.wantNothingLeft(t, dir)
}

// bodies are the requests that hold word.
func (m *model) bodies(word string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for line := range strings.Lines(m.log.String()) {
		if strings.Contains(line, word) {
			all = append(all, line)
		}
	}
	return all
}
