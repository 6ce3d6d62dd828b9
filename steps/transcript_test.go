package steps_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
)

// filed is a scripted agent that also writes what it says, a line each, to
// files that it names *.said in the box's temporary directory.
type filed struct{ *scripted }

func (f filed) SessionFiles(task runtimes.Task) []sandbox.Follow {
	return []sandbox.Follow{{Root: task.Box.Temp, Pattern: "*.said"}}
}

func (filed) DecodeSession(runtimes.Task) runtimes.SessionDecoder { return filedDecoder{} }

type filedDecoder struct{}

func (filedDecoder) Line(_ runtimes.SessionFile, line []byte) []event.Message {
	return []event.Message{{Kind: event.MessageText, Text: string(line)}}
}

func (filedDecoder) Key(event.Message) string { return "" }

func prepareFiled(t *testing.T, src, script string) *execution {
	rt := filed{&scripted{scripts: []string{script}}}
	e := prepareAgent(t, rt.scripted, src)
	e.options.Runtime = func(runtimes.Config) (runtimes.Runtime, error) { return rt, nil }
	return e
}

// said is what the agent said, in order.
func (e *execution) said() []string {
	var all []string
	for _, ev := range e.events.events {
		if ev.Type == event.Agent && ev.Message.Kind == event.MessageText {
			all = append(all, ev.Message.Text)
		}
	}
	return all
}

const oneFiled = "jobs:\n  a: {steps: [{id: s, prompt: x}]}\n"

// TestBothSourcesOfATranscript (RUNTIME-06): what the output does not say, the
// session file does, and nothing is told twice. The file alone is no success.
func TestBothSourcesOfATranscript(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		script string
		want   []string
		cause  event.Cause
	}{
		"both":            {`echo one | tee $RUNNER_TEMP/a.said; echo two | tee -a $RUNNER_TEMP/a.said; echo "result ok"`, []string{"one", "two"}, ""},
		"the output only": {`echo one; echo "result ok"`, []string{"one"}, ""},
		"the file only":   {`echo one >$RUNNER_TEMP/a.said; echo "result ok" >>$RUNNER_TEMP/a.said`, []string{"one", "result ok"}, event.CauseNoResult},
		"killed with half of the output lost": {`echo one >$RUNNER_TEMP/a.said; echo two >>$RUNNER_TEMP/a.said; echo one; kill -9 $$`,
			[]string{"one", "two"}, event.CauseExitCode},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := prepareFiled(t, oneFiled, tt.script)
			e.run()
			if out := e.finished("a/s"); out.Cause != tt.cause {
				t.Errorf("%+v", out)
			}
			if diff := cmp.Diff(tt.want, e.said()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSessionWritesAreLife (FR-012): an agent that is silent but for its session
// file has not stalled.
func TestSessionWritesAreLife(t *testing.T) {
	t.Parallel()
	e := prepareFiled(t, oneFiled, `for i in 1 2 3 4 5 6; do echo $i >>$RUNNER_TEMP/a.said; sleep 0.5; done; echo "result ok"`)
	e.options.Stall = 2 * time.Second
	e.run()
	if out := e.finished("a/s"); out.Cause != "" {
		t.Errorf("%+v", out)
	}
	if got := strings.Join(e.said(), ""); got != "123456" {
		t.Errorf("said %q", got)
	}
}
