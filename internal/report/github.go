package report

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// groupMax bounds what is held back of a step, in bytes: then a part of its
// group is shown before the step has ended.
const groupMax = 64 << 10

// GitHub is the sink for a run inside GitHub Actions. What a step prints stands
// in a group of its own, shown when the step ends, since steps run at the same
// time; commands in it are not obeyed. Failures and notes become annotations.
// It is safe for concurrent use. Close it.
type GitHub struct {
	out    *out
	opts   GitHubOptions
	random io.Reader
	fold   journal.Fold
	steps  map[[2]string]*group
}

// group renders one step through a Terminal of its own.
type group struct {
	job, step, name string
	part            int
	text            bytes.Buffer
	view            *Terminal
}

// GitHubOptions say how a GitHub shows things.
type GitHubOptions struct {
	Color bool
	// Project is the project's directory as seen from the repository, whose files
	// GitHub shows annotations at: "" or "." for the same.
	Project string
}

// NewGitHub makes a GitHub that writes to w.
func NewGitHub(w io.Writer, o GitHubOptions) *GitHub { return newGitHub(w, o, rand.Reader) }

// newGitHub reads the tokens that fence off untrusted output from random, which
// must be hard to guess.
func newGitHub(w io.Writer, o GitHubOptions, random io.Reader) *GitHub {
	return &GitHub{out: newOut(w), opts: o, random: random, steps: map[[2]string]*group{}}
}

// Emit shows e.
func (g *GitHub) Emit(e event.Event) {
	g.out.mu.Lock()
	defer g.out.mu.Unlock()
	g.fold.Add(e)
	switch e.Type {
	case event.Annotation, event.Notice:
		if e.Note != nil {
			g.note(*e.Note)
		}
	case event.RunFinished:
		g.finish(e)
	default:
		if e.From != "" {
			if whole := g.fold.Job(e.Job).From != ""; e.Outcome != nil && whole == (e.Step == "") {
				g.fenced(label(e.Job, e.Step) + ": taken over from run " + oneLine(e.From, 40))
			}
		} else if e.Step != "" {
			g.toGroup(e)
		} else if e.Type == event.JobFinished {
			g.jobFinished(e)
		}
	}
	g.out.commit()
}

func (g *GitHub) toGroup(e event.Event) {
	key := [2]string{e.Job, e.Step}
	s := g.steps[key]
	if s == nil {
		s = &group{job: e.Job, step: e.Step, name: e.Step}
		s.view = NewTerminal(&s.text, TerminalOptions{Color: g.opts.Color, Plain: true})
		s.view.bare = true
		info := g.fold.Info()
		s.view.fold.Add(event.Event{Type: event.RunStarted, Run: &info})
		g.steps[key] = s
	}
	if e.Type == event.StepStarted && e.Name != "" {
		s.name = e.Name
	}
	s.view.Emit(e)
	if e.Type == event.StepFinished {
		delete(g.steps, key)
		g.show(s, true)
		g.stepFinished(e)
	} else if e.Type == event.Output {
		s.view.out.mu.Lock()
		held := s.text.Len() + len(s.view.out.buf)
		s.view.out.mu.Unlock()
		if held > groupMax {
			g.show(s, false)
		}
	}
}

func (g *GitHub) show(s *group, last bool) {
	s.view.out.mu.Lock()
	s.view.out.flush()
	s.view.out.timer.Stop()
	s.view.out.armed = false
	text := s.text.String()
	s.text.Reset()
	s.view.out.mu.Unlock()
	title := label(s.job, s.step)
	if s.name != s.step {
		title += " " + oneLine(s.name, 80)
	}
	if s.part++; s.part > 1 || !last {
		title += fmt.Sprintf(" (part %d)", s.part)
	}
	g.command("group", nil, title)
	g.fenced(text)
	g.command("endgroup", nil, "")
}

func (g *GitHub) showAll() {
	for _, key := range slices.SortedFunc(maps.Keys(g.steps), compareSteps) {
		g.show(g.steps[key], true)
	}
	clear(g.steps)
}

// fenced writes untrusted text between a pair of tokens it cannot know; GitHub
// obeys no command in between.
func (g *GitHub) fenced(text string) {
	var token [16]byte
	if _, err := io.ReadFull(g.random, token[:]); err != nil {
		if g.out.err == nil {
			g.out.err = fmt.Errorf("make a token: %w", err)
		}
		return
	}
	word := "end-" + hex.EncodeToString(token[:])
	g.command("stop-commands", nil, word)
	g.out.buf = append(g.out.buf, text...)
	if text != "" && !strings.HasSuffix(text, "\n") {
		g.out.buf = append(g.out.buf, '\n')
	}
	g.command(word, nil, "")
}

func (g *GitHub) stepFinished(e event.Event) {
	st := g.fold.Step(e.Job, e.Step)
	if e.Outcome == nil || e.Outcome.Outcome != "failure" {
		return
	}
	level := "error"
	if st.Status == journal.Success {
		level = "warning"
	}
	g.note(event.Note{Level: level, Title: e.Job + "/" + e.Step + ": " + result(st.Status, e.Outcome),
		Message: orElse(e.Outcome.Message, "the step failed"), Hint: e.Outcome.Hint, File: st.Info.File, Line: st.Info.Line})
}

func (g *GitHub) jobFinished(e event.Event) {
	if o := e.Outcome; o != nil && o.Outcome == "failure" && o.Message != "" {
		g.note(event.Note{Level: "error", Title: e.Job, Message: o.Message, Hint: o.Hint, File: g.fold.Info().File})
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func (g *GitHub) finish(e event.Event) {
	g.showAll()
	s := g.fold.State()
	g.fenced("\n" + stepTable(s, paint(g.opts.Color), e.Time) + "\n" + closing(s, paint(g.opts.Color), e.Time) + "\n")
	if o := e.Outcome; o != nil && o.Outcome == "failure" && o.Message != "" {
		g.note(event.Note{Level: "error", Message: o.Message, Hint: o.Hint, File: s.Info.File})
	}
	g.out.flush()
}

func (g *GitHub) note(n event.Note) {
	level := n.Level
	switch level {
	case "error", "warning", "notice", "debug":
	default:
		level = "notice"
	}
	message := n.Message
	if n.Hint != "" {
		message += "\nhint: " + n.Hint
	}
	var props [][2]string
	add := func(key, value string) {
		if value != "" && level != "debug" {
			props = append(props, [2]string{key, value})
		}
	}
	numbered := func(key string, n int) {
		if n > 0 {
			add(key, fmt.Sprint(n))
		}
	}
	if n.File != "" && !path.IsAbs(n.File) {
		n.File = path.Join(g.opts.Project, n.File)
	}
	add("file", n.File)
	numbered("line", n.Line)
	numbered("endLine", n.EndLine)
	numbered("col", n.Column)
	add("title", n.Title)
	g.command(level, props, message)
}

// command writes a workflow command, escaped as GitHub unescapes it.
func (g *GitHub) command(name string, props [][2]string, data string) {
	g.out.buf = append(g.out.buf, "::"+name...)
	for i, p := range props {
		sep := ","
		if i == 0 {
			sep = " "
		}
		g.out.buf = append(g.out.buf, sep+p[0]+"="+property(p[1])...)
	}
	g.out.buf = append(g.out.buf, "::"+commandData(data)+"\n"...)
}

func commandData(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(strings.ToValidUTF8(s, "\uFFFD"))
}

func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(commandData(s))
}

// Close shows what is pending and gives the first error of writing.
func (g *GitHub) Close() error {
	g.out.mu.Lock()
	g.showAll()
	g.out.mu.Unlock()
	return g.out.close()
}
