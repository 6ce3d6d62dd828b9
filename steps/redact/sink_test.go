package redact

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
)

const secret = "s3cr\"et-value"

// recorder keeps what it is given; Data is copied as the contract wants.
type recorder struct {
	mu     sync.Mutex
	events []event.Event
}

func (r *recorder) Emit(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Data = append([]byte(nil), e.Data...)
	r.events = append(r.events, e)
}

func (r *recorder) output(job, step, stream string) string {
	var out strings.Builder
	for _, e := range r.events {
		if e.Type == event.Output && e.Job == job && e.Step == step && e.Stream == stream {
			out.Write(e.Data)
		}
	}
	return out.String()
}

func TestSinkMasksEveryString(t *testing.T) {
	text := "<" + secret + ">"
	quoted, err := json.Marshal(map[string]any{"cmd": text, "n": 1})
	if err != nil {
		t.Fatal(err)
	}
	e := event.Event{
		Type: event.Agent, Job: "job", Step: "step", Name: text, Text: text,
		Run:      &event.RunInfo{ID: "id", Workflow: text, Event: text, Args: []string{"a", text}},
		StepInfo: &event.StepInfo{Kind: "run", Runtime: text, Engine: text, Model: text, File: text},
		Box:      &event.BoxInfo{Backend: "docker", Image: text},
		Message:  &event.Message{Kind: event.MessageToolCall, Text: text, Tool: text, Input: quoted, Model: text},
		Exchange: &event.ModelCall{Path: text, Model: text, Reason: text, StopReason: text},
		Note:     &event.Note{Level: "error", Message: text, Title: text, File: text, Hint: text},
		Outcome: &event.Outcome{Outcome: "failure", Message: text, Hint: text, Outputs: map[string]string{"a": text, text: "b"},
			Env: map[string]string{"e": text, "plain": "x"}, Path: []string{text}, Work: []event.Work{{Name: text, Branch: text, Changed: []string{text}}}},
	}
	before := fmt.Sprintf("%+v %+v %+v", e.Run, e.Message, e.Outcome)
	var got recorder
	Sink(maskerOf(secret), &got).Emit(e)
	data, err := json.Marshal(got.events[0])
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "et-value") {
		t.Errorf("a secret came through: %s", data)
	}
	if n := strings.Count(string(data), `<***>`) + strings.Count(string(data), `\u003c***\u003e`); n != 32 {
		t.Errorf("%d masks, want 32: %s", n, data)
	}
	if after := fmt.Sprintf("%+v %+v %+v", e.Run, e.Message, e.Outcome); before != after {
		t.Error("the event that was given has been changed")
	}
	if got := got.events[0].Outcome.Withheld; !slices.Equal(got, []string{"<***>", "a", "e", "path", "work"}) {
		t.Errorf("withheld: %q", got)
	}
	if g := got.events[0]; g.Job != "job" || g.Run.ID != "id" || g.Note.Level != "error" || g.Outcome.Outputs["a"] != "<***>" {
		t.Errorf("%+v", g)
	}
}

func TestSinkKeepsJSON(t *testing.T) {
	m := maskerOf("1234567", "päss\"wörd")
	for in, want := range map[string]string{
		``: ``, `{"a":1}`: `{"a":1}`, `{"n":1234567}`: `"{\"n\":***}"`, `{"a":"x1234567"}`: `{"a":"x***"}`,
		`["p\u00e4ss\u0022w\u00F6rd"]`: `["***"]`, `{"p\u00E4ss\"wörd":{"b":[2]}}`: `{"***":{"b":[2]}}`,
	} {
		if got := string(maskedJSON(m, json.RawMessage(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestSinkMasksOutputAcrossEvents(t *testing.T) {
	var got recorder
	m := maskerOf("s3cret-value")
	s := Sink(m, &got)
	write := func(job, step, stream, data string) {
		s.Emit(event.Event{Type: event.Output, Job: job, Step: step, Stream: stream, Attempt: 2, Data: []byte(data)})
	}
	write("j", "a", "stdout", "x s3cret")
	write("j", "a", "stderr", "-value s3c")
	write("j", "b", "stdout", "s3cret")
	write("k", "a", "stdout", "-value")
	write("j", "a", "stdout", "-value y s3")
	end := time.Unix(100, 0)
	s.Emit(event.Event{Type: event.StepFinished, Job: "j", Step: "a", Time: end, Outcome: &event.Outcome{Outcome: "success"}})
	last := len(got.events) - 1
	if got.events[last].Type != event.StepFinished {
		t.Errorf("the last event is %+v", got.events[last])
	}
	for _, c := range []struct{ job, step, stream, want string }{
		{"j", "a", "stdout", "x *** y s3"}, {"j", "a", "stderr", "-value s3c"}, {"j", "b", "stdout", ""}, {"k", "a", "stdout", "-value"},
	} {
		if out := got.output(c.job, c.step, c.stream); out != c.want {
			t.Errorf("%v: %q, want %q", c, out, c.want)
		}
	}
	held := got.events[last-1]
	if !held.Time.Equal(end) || held.Attempt != 2 || held.Job != "j" || held.Step != "a" {
		t.Errorf("what was held back came with %+v", held)
	}
	s.Emit(event.Event{Type: event.RunFinished})
	if out := got.output("j", "b", "stdout"); out != "s3cret" {
		t.Errorf("at the end of the run: %q", out)
	}
	if n := len(s.(*sink).outputs); n != 0 {
		t.Errorf("%d streams are kept after the run", n)
	}
}

func TestSinkIsSafeForConcurrentUse(t *testing.T) {
	var got recorder
	m := New()
	s := Sink(m, &got)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			step := fmt.Sprint("step", i)
			token := fmt.Sprintf("token-%d-abcdef", i)
			m.Add(token)
			for range 50 {
				for _, piece := range []string{"x ", token[:5], token[5:], "\n"} {
					s.Emit(event.Event{Type: event.Output, Job: "j", Step: step, Stream: "stdout", Data: []byte(piece)})
				}
			}
			s.Emit(event.Event{Type: event.StepFinished, Job: "j", Step: step})
		}()
	}
	wait.Wait()
	want := strings.Repeat("x ***\n", 50)
	for i := range 8 {
		if diff := cmp.Diff(want, got.output("j", fmt.Sprint("step", i), "stdout")); diff != "" {
			t.Error(diff)
		}
	}
}
