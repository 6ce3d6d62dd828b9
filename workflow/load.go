package workflow

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ReadFile gives a file of the project. The path is relative to the project's
// top and has slashes; where there is no such file the error is fs.ErrNotExist.
type ReadFile func(path string) ([]byte, error)

// Bounds on what one workflow may use.
const (
	maxNested   = 10      // levels, of actions in actions and of workflows in workflows, as at GitHub
	maxExpanded = 100_000 // steps of actions and jobs of called workflows, each use counted
)

// Load is Validate of a workflow file and of all it uses: composite actions and
// reusable workflows of the project, which it gets from read. With a nil read
// those are not looked at, and not run. Problems come file by file, those of
// the workflow itself first.
func Load(file string, src []byte, read ReadFile) (*Workflow, *Plan, []Problem) {
	w, problems := Parse(file, src)
	if w == nil {
		return nil, nil, problems
	}
	l := newLoader(read)
	l.report(file, problems)
	if read != nil {
		l.workflow(w, []string{path.Clean(file)})
		l.permissions(grant{w: w}, map[grant]bool{})
	}
	w.Sources = l.sources
	l.report(file, Check(w))
	if problems = l.problems(); HasErrors(problems) {
		return w, nil, problems
	}
	plan, more := NewPlan(w, "")
	l.report(file, more)
	return w, plan, l.problems()
}

// LoadAction checks a file that is an action, and the actions that it uses. It
// gives a workflow without jobs, to show the problems with; nil where the file
// is no action.
func LoadAction(file string, src []byte, read ReadFile) (*Workflow, []Problem) {
	root, problems := readYAML(file, src)
	if root == nil || !isAction(root) {
		return nil, nil
	}
	l := newLoader(read)
	l.report(file, problems)
	l.composite(&Step{Uses: root}, file, &openedFile{src: src, root: root}, nil)
	return &Workflow{File: file, Src: src, Sources: l.sources}, l.problems()
}

func newLoader(read ReadFile) *loader {
	return &loader{read: read, opened: map[string]*openedFile{}, workflows: map[string]*Workflow{}, found: map[string][]Problem{}, sources: map[string][]byte{}}
}

// loader reads what a workflow uses.
type loader struct {
	read      ReadFile
	opened    map[string]*openedFile
	workflows map[string]*Workflow // called ones by path
	sources   map[string][]byte
	expanded  int

	order []string // files with problems
	found map[string][]Problem
}

// openedFile is a file that was looked for.
type openedFile struct {
	src  []byte
	root *Value // nil: it could not be read as YAML
	err  error
}

func (l *loader) report(file string, ps []Problem) {
	if _, known := l.found[file]; !known {
		l.order = append(l.order, file)
	}
	l.found[file] = append(l.found[file], ps...)
}

// at reports something about v, in the file that it was read from.
func (l *loader) at(v *Value, rule, hint, format string, args ...any) {
	c := collector{file: v.File()}
	c.errorf(v, rule, hint, format, args...)
	l.report(c.file, c.problems)
}

func (l *loader) problems() []Problem {
	var all []Problem
	byFile := map[string][]Problem{}
	for _, file := range l.order {
		for _, p := range l.found[file] {
			if _, known := byFile[p.File]; !known && !slices.Contains(l.order, p.File) {
				l.order = append(l.order, p.File)
			}
			byFile[p.File] = append(byFile[p.File], p)
		}
	}
	for _, file := range l.order {
		all = append(all, sortProblems(byFile[file])...)
	}
	return all
}

// open reads a file once.
func (l *loader) open(file string) *openedFile {
	if f := l.opened[file]; f != nil {
		return f
	}
	f := &openedFile{}
	l.opened[file] = f
	if f.src, f.err = l.read(file); f.err != nil {
		return f
	}
	l.sources[file] = f.src
	var problems []Problem
	f.root, problems = readYAML(file, f.src)
	l.report(file, problems)
	return f
}

// workflow loads what the jobs and steps of w use. chain are the files that call
// each other down to w.
func (l *loader) workflow(w *Workflow, chain []string) {
	for _, job := range w.Jobs {
		l.call(job, chain)
		l.steps(job.Steps, nil)
	}
}

func (l *loader) steps(steps []*Step, chain []string) {
	for _, s := range steps {
		if s.Uses != nil && strings.HasPrefix(s.Uses.Text, "./") {
			l.action(s, chain)
		}
	}
}

// action loads the action that a step uses. chain are the files of the actions
// that use each other down to the step.
func (l *loader) action(s *Step, chain []string) {
	dir, ok := localPath(s.Uses.Text)
	if !ok || l.expanded > maxExpanded {
		return
	}
	file := path.Join(dir, "action.yml")
	f := l.open(file)
	if errors.Is(f.err, fs.ErrNotExist) {
		other := path.Join(dir, "action.yaml")
		if o := l.open(other); !errors.Is(o.err, fs.ErrNotExist) {
			file, f = other, o
		}
	}
	switch {
	case errors.Is(f.err, fs.ErrNotExist):
		l.at(s.Uses, "uses", "the path is that of a directory, from the project's top", "there is no action: %s is missing", file)
		return
	case f.err != nil:
		l.at(s.Uses, "uses", "", "the action cannot be read: %v", f.err)
		return
	case slices.Contains(chain, file):
		l.at(s.Uses, "uses", "remove one of these uses", "actions use each other: %s", cyclePath(append(slices.Clone(chain), file)))
		return
	case len(chain) == maxNested:
		l.at(s.Uses, "limit", "", "actions use each other more than %d levels deep", maxNested)
		return
	case f.root == nil:
		return
	}
	l.composite(s, file, f, chain)
}

// composite reads the action in file for the step that uses it.
func (l *loader) composite(s *Step, file string, f *openedFile, chain []string) {
	a := &Action{File: file, Dir: path.Dir(file), job: &Job{ID: "action", Pos: f.root.Pos}}
	p := &fileParser{collector: collector{file: file}}
	p.action(a, f.root, s)
	l.report(file, p.problems)
	s.Action = a
	if l.expanded += len(a.Steps); l.expanded > maxExpanded {
		l.at(s.Uses, "limit", "use fewer of them", "the workflow uses actions with more than %d steps altogether", maxExpanded)
		return
	}
	l.steps(a.Steps, append(slices.Clone(chain), file))
	l.report(file, checkAction(a))
}
