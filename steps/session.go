package steps

import (
	"fmt"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow"
)

// Sessions keeps the conversations of agent steps that others go on with. Safe
// for concurrent use.
type Sessions interface {
	// Save keeps what the patterns paths name below home, a directory of this machine that
	// nothing uses any more, as the session of a step. Where it is passing it is
	// not kept longer than the run. found is false where nothing lies there.
	Save(leg, step, home string, paths []string, passing bool) (found bool, err error)
	// Load puts a saved session into home, in place of what they name there.
	Load(leg, step, home string, paths []string) error
}

// keptSession is the conversation of a step that has ended.
type keptSession struct {
	id    string
	leg   string // as Sessions knows it
	step  string
	state []string // runtimes.Description.SessionState
	host  bool
	why   string // it is none; empty: it is one
}

// sessionSources are the steps whose sessions others go on with.
func sessionSources(w *workflow.Workflow) map[*workflow.Step]bool {
	sources := map[*workflow.Step]bool{}
	for _, j := range w.Jobs {
		for _, s := range j.Steps {
			if source := w.SessionSource(j, s); source != nil {
				sources[source] = true
			}
		}
	}
	return sources
}

// keepSession keeps the session of an agent step that has ended, for the steps
// that go on with it.
func (s *stepRun) keepSession() {
	if s.frame != nil || !s.talkedOn[s.step] {
		return
	}
	k := keptSession{id: s.agent.lastSession, leg: s.prefix + s.leg.leg.ID, step: s.id(), state: s.agent.describe.SessionState, host: s.agent.onHost}
	switch {
	case k.id == "" || s.agent.home == "":
		k.why = "it ended before it had one"
	default:
		found, err := s.Sessions.Save(k.leg, k.step, s.agent.home, k.state, s.agent.direct)
		if err != nil {
			k.why = err.Error()
		} else if !found {
			k.why = "its agent left none in its HOME"
		}
	}
	s.leg.mu.Lock()
	defer s.leg.mu.Unlock()
	if s.leg.sessions == nil {
		s.leg.sessions = map[string]keptSession{}
	}
	s.leg.sessions[strings.ToLower(s.step.ID)] = k
}

// earlier gives the session that the step goes on with; nil where it begins its
// own.
func (s *stepRun) earlier(rt runtimes.Description, onHost bool) (*keptSession, error) {
	named := workflow.SessionOf(s.step)
	if named.Step == "" {
		return nil, nil
	}
	if s.frame != nil {
		return nil, fmt.Errorf("session: a step of an action begins its own")
	}
	leg := s.leg
	if named.Job != "" && !strings.EqualFold(named.Job, s.node.Job.ID) {
		st := s.job(named.Job)
		if st == nil || len(st.legs) != 1 {
			return nil, fmt.Errorf("session: job %s did not run: there is no session of its step %s to go on with", named.Job, named.Step)
		}
		leg = st.legs[0]
	}
	leg.mu.Lock()
	k, ok := leg.sessions[strings.ToLower(named.Step)]
	leg.mu.Unlock()
	switch {
	case !ok:
		return nil, fmt.Errorf("session: step %s did not run: there is no session to go on with", named.Step)
	case k.why != "":
		return nil, fmt.Errorf("session: step %s has no session to go on with: %s", named.Step, k.why)
	case k.host != onHost:
		return nil, fmt.Errorf("session: step %s ran %s: a session cannot go from a box to the host, or back", named.Step, whereRan(k.host))
	case !slices.Equal(k.state, rt.SessionState):
		return nil, fmt.Errorf("session: step %s ran with another agent, whose sessions runtime %s cannot read", named.Step, rt.Name)
	}
	return &k, nil
}

func whereRan(host bool) string {
	if host {
		return "on the host"
	}
	return "in a box"
}

// goOn makes the task one that goes on with an earlier session, whose files it
// puts into the box's HOME. A retry that has a session of its own goes on with
// that.
func (s *stepRun) goOn(task *runtimes.Task, from *keptSession, info sandbox.Info) error {
	switch {
	case s.agent.session != "":
		task.Prompt, task.Resume = continuePrompt, s.agent.session
	case from != nil:
		if info.HostHome == "" {
			return &sandbox.Error{Kind: sandbox.KindConfig, Op: "go on with a session", Err: fmt.Errorf("the box's HOME is not on this machine")}
		}
		if err := s.Sessions.Load(from.leg, from.step, info.HostHome, from.state); err != nil {
			return fmt.Errorf("go on with the session of %s: %w", from.step, err)
		}
		task.Resume, task.Fork = from.id, task.Config.Session == runtimes.SessionFork
		if s.attempt == 1 {
			how := "goes on with"
			if task.Fork {
				how = "goes on with a copy of"
			}
			s.emit(event.Event{Type: event.Notice, Note: &event.Note{Level: "notice", Message: fmt.Sprintf("%s the session of %s/%s", how, from.leg, from.step)}})
		}
	}
	return nil
}
