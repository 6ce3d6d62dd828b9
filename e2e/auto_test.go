package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// TestRuntimeAuto (FUTURE-01): what `runtime: auto` is depends on the credentials
// and on the image, is decided before the run, said in its record, and the same in
// a replay without credentials.
func TestRuntimeAuto(t *testing.T) {
	t.Parallel()
	needEveryEngine(t)
	flow := func(image string) string {
		return `
on: workflow_dispatch
defaults: {docker: {image: "` + image + `", network: none}, workspace: ro}
jobs:
  a:
    steps:
      - {id: one, prompt: Say hello., runtime: auto}
      - {id: two, prompt: And again., runtime: {type: auto, session: {fork: one}}}
`
	}
	model := newModel(t, "")
	for _, tt := range []struct{ key, image, typ, engine, passed string }{
		{"ANTHROPIC_API_KEY", everyEngine, "cli", "claude", "cli/codex: "},
		{"OPENAI_API_KEY", everyEngine, "cli", "codex", "cli/claude: "},
		{"OPENAI_API_KEY", "herd-runner/agent:claude", "sdk", "openai", "cli/codex: the image herd-runner/agent:claude has not its program"},
		{"GEMINI_API_KEY", everyEngine, "sdk", "gemini", "cli/gemini: step two, which shares its session, can not have one that reads it"},
	} {
		var env []string
		for _, v := range model.everyModel("do=text") {
			if !strings.Contains(v, "API_KEY=") || strings.HasPrefix(v, tt.key+"=") {
				env = append(env, v)
			}
		}
		dir := newRepository(t, map[string]string{"a.txt": "a\n"})
		var bare *machine
		if tt.key == "OPENAI_API_KEY" {
			bare = newMachine(t)
		}
		cassette := filepath.Join(t.TempDir(), "cassette")
		for _, run := range []struct {
			m    *machine
			args []string
			why  string
		}{
			{newMachine(t, env...), []string{"--record", cassette}, "api-key from " + tt.key},
			{bare, []string{"--replay", cassette}, "the cassette has its answers"},
		} {
			if run.m == nil {
				continue
			}
			r := run.m.run(t, dir, flow(tt.image), run.args...).wantCode(t, 0)
			said := ""
			for _, e := range r.events {
				switch {
				case e.Type == event.StepFinished && (e.StepInfo.Runtime != tt.typ || e.StepInfo.Engine != tt.engine):
					t.Errorf("%v: %s ran with %s/%s, want %s/%s", run.args, e.Step, e.StepInfo.Runtime, e.StepInfo.Engine, tt.typ, tt.engine)
				case e.Type == event.Notice && strings.Contains(e.Note.Message, "runtime auto is"):
					said += e.Note.Message + "\n"
				}
			}
			for _, want := range []string{"step one: runtime auto is " + tt.typ + "/" + tt.engine + ": ", "step two: ", "session-fork", run.why} {
				if !strings.Contains(said, want) {
					t.Errorf("%v: its record says %q, not %q", run.args, said, want)
				}
			}
			if run.why != "the cassette has its answers" && !strings.Contains(said, tt.passed) {
				t.Errorf("it says %q, not %q", said, tt.passed)
			}
		}
	}
}
