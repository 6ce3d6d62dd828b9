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
