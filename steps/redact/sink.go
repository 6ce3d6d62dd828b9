package redact

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/herd-runner/herd-runner/internal/event"
)

// Sink returns a Sink that gives next every event with the secrets of m masked
// in all that a workflow or a process can write: texts, names, outputs, messages
// and output. Ids, kinds and the project's own paths stay. What a step's output
// holds back comes before the event that ends the step (or its attempt, its job,
// the run). Events it is given are not changed.
func Sink(m *Masker, next event.Sink) event.Sink {
	return &sink{masker: m, next: next, outputs: map[outputKey]*output{}}
}

type outputKey struct{ job, step, stream string }

// output is one stream of one step. Its lock is held while what it gives goes
// on, so that the stream keeps its order.
type output struct {
	mu     sync.Mutex
	stream *Stream
	event  event.Event // that the stream's bytes go out with
}

type sink struct {
	masker *Masker
	next   event.Sink

	mu      sync.Mutex
	outputs map[outputKey]*output
}

func (s *sink) Emit(e event.Event) {
	switch e.Type {
	case event.Output:
		s.output(e)
		return
	case event.StepFinished, event.StepRetry:
		s.flush(e, func(k outputKey) bool { return k.job == e.Job && k.step == e.Step })
	case event.JobFinished:
		s.flush(e, func(k outputKey) bool { return k.job == e.Job })
	case event.RunFinished:
		s.flush(e, func(outputKey) bool { return true })
	}
	s.next.Emit(s.masked(e))
}

func (s *sink) output(e event.Event) {
	key := outputKey{e.Job, e.Step, e.Stream}
	s.mu.Lock()
	o := s.outputs[key]
	if o == nil {
		o = &output{}
		o.stream = NewStream(s.masker, func(p []byte) {
			out := o.event
			out.Data = p
			s.next.Emit(out)
		})
		s.outputs[key] = o
	}
	s.mu.Unlock()

	o.mu.Lock()
	defer o.mu.Unlock()
	data := e.Data
	o.event = s.masked(e)
	o.stream.Write(data)
}

// flush gives out what the streams of these keys hold back and forgets them. end
// is the event that ends them.
func (s *sink) flush(end event.Event, of func(outputKey) bool) {
	s.mu.Lock()
	var ended []*output
	for key, o := range s.outputs {
		if of(key) {
			ended = append(ended, o)
			delete(s.outputs, key)
		}
	}
	s.mu.Unlock()
	for _, o := range ended {
		o.mu.Lock()
		o.event.Time, o.event.Seq = end.Time, 0
		o.stream.Flush()
		o.mu.Unlock()
	}
}

// masked returns e without secrets; its Data is left out.
func (s *sink) masked(e event.Event) event.Event {
	m := s.masker
	e.Data = nil
	e.Name, e.Text = m.String(e.Name), m.String(e.Text)
	e.Run = masked(e.Run, func(r *event.RunInfo) {
		r.Workflow, r.Event = m.String(r.Workflow), m.String(r.Event)
		r.Args = maskedList(m, r.Args)
	})
	e.StepInfo = masked(e.StepInfo, func(i *event.StepInfo) {
		i.Runtime, i.Engine, i.Model, i.File = m.String(i.Runtime), m.String(i.Engine), m.String(i.Model), m.String(i.File)
	})
	e.Box = masked(e.Box, func(b *event.BoxInfo) { b.Image = m.String(b.Image) })
	e.Message = masked(e.Message, func(msg *event.Message) {
		msg.Text, msg.Tool, msg.Model = m.String(msg.Text), m.String(msg.Tool), m.String(msg.Model)
		msg.CallID, msg.Parent, msg.SessionID = m.String(msg.CallID), m.String(msg.Parent), m.String(msg.SessionID)
		msg.Input = maskedJSON(m, msg.Input)
	})
	e.Egress = masked(e.Egress, func(c *event.EgressCall) {
		c.Method, c.Host, c.Entry = m.String(c.Method), m.String(c.Host), m.String(c.Entry)
		c.Message, c.Hint = m.String(c.Message), m.String(c.Hint)
	})
	e.Exchange = masked(e.Exchange, func(c *event.ModelCall) {
		c.Path, c.Model = m.String(c.Path), m.String(c.Model)
		c.Reason, c.StopReason = m.String(c.Reason), m.String(c.StopReason)
	})
	e.Note = masked(e.Note, func(n *event.Note) {
		n.Message, n.Title, n.File, n.Hint = m.String(n.Message), m.String(n.Title), m.String(n.File), m.String(n.Hint)
	})
	e.Condition = masked(e.Condition, func(c *event.ConditionInfo) {
		c.Source, c.File, c.Error, c.Tree = m.String(c.Source), m.String(c.File), m.String(c.Error), maskedPart(m, c.Tree)
	})
	e.Outcome = masked(e.Outcome, func(o *event.Outcome) {
		o.Message, o.Hint, o.SessionID = m.String(o.Message), m.String(o.Hint), m.String(o.SessionID)
		var outputs, env []string
		o.Outputs, outputs = maskedMap(m, o.Outputs)
		o.Env, env = maskedMap(m, o.Env)
		o.Withheld = slices.Concat(o.Withheld, outputs, env)
		if path := maskedList(m, o.Path); !slices.Equal(path, o.Path) {
			o.Path, o.Withheld = path, append(o.Withheld, "path")
		}
		o.Work = maskedWork(m, o)
	})
	return e
}

func maskedPart(m *Masker, p *event.ConditionPart) *event.ConditionPart {
	return masked(p, func(p *event.ConditionPart) {
		p.Source, p.Value, p.Error = m.String(p.Source), m.String(p.Value), m.String(p.Error)
		parts := p.Parts
		p.Parts = nil
		for _, part := range parts {
			p.Parts = append(p.Parts, maskedPart(m, part))
		}
	})
}

// masked changes a copy of what p points to.
func masked[T any](p *T, change func(*T)) *T {
	if p == nil {
		return nil
	}
	c := *p
	change(&c)
	return &c
}

func maskedList(m *Masker, list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, m.String(s))
	}
	return out
}

// maskedMap also names what it masked.
func maskedMap(m *Masker, values map[string]string) (out map[string]string, changed []string) {
	if values == nil {
		return nil, nil
	}
	out = make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		name, v := m.String(key), m.String(values[key])
		if name != key || v != values[key] {
			changed = append(changed, name)
		}
		out[name] = v
	}
	return out, changed
}

// maskedWork is the work of an outcome; what is of no use masked is withheld.
func maskedWork(m *Masker, o *event.Outcome) []event.Work {
	var out []event.Work
	withheld := false
	for _, w := range o.Work {
		safe := event.Work{Name: m.String(w.Name), Branch: m.String(w.Branch), Commit: w.Commit, Changed: maskedList(m, w.Changed)}
		withheld = withheld || safe.Name != w.Name || safe.Branch != w.Branch || !slices.Equal(safe.Changed, w.Changed)
		out = append(out, safe)
	}
	if withheld {
		o.Withheld = append(o.Withheld, "work")
	}
	return out
}

// maskedJSON keeps what is JSON so: where a secret stood outside of a string, as
// a number, the whole becomes a string. A secret that JSON may write in many
// ways is looked for in what the strings mean as well.
func maskedJSON(m *Masker, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	out := m.Bytes(raw)
	var v any
	if json.Unmarshal(out, &v) == nil {
		if changed, meant := maskedValue(m, v); changed {
			if again, err := json.Marshal(meant); err == nil {
				return again
			}
		}
		return json.RawMessage(out)
	}
	text, err := json.Marshal(string(out))
	if err != nil {
		return json.RawMessage(`"` + Mask + `"`)
	}
	return text
}

func maskedValue(m *Masker, v any) (changed bool, out any) {
	switch v := v.(type) {
	case string:
		masked := m.String(v)
		return masked != v, masked
	case []any:
		for i, item := range v {
			c, masked := maskedValue(m, item)
			v[i], changed = masked, changed || c
		}
	case map[string]any:
		for key, item := range v {
			c, masked := maskedValue(m, item)
			v[key] = masked
			if name := m.String(key); name != key {
				delete(v, key)
				v[name], c = masked, true
			}
			changed = changed || c
		}
	}
	return changed, v
}
