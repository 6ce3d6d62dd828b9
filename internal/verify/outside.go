package verify

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/herd-runner/herd-runner/sandbox"
)

// handle tries what is aimed at the runner itself.
func (r *running) handle(ctx context.Context, t Target, box sandbox.Box, a Attack, f facts) answer {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	switch a.Name {
	case "survivors":
		return r.leaveProcesses(ctx, t, box, a, f)
	case "endless-line":
		return r.readLine(ctx, t, box, f)
	case "terminal-escapes":
		return r.showEscapes(ctx, t, box, f)
	}
	return r.collect(ctx, t, box, f)
}

// leaveProcesses stops a process that has left others behind, and looks for them.
func (r *running) leaveProcesses(ctx context.Context, t Target, box sandbox.Box, a Attack, f facts) answer {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan []byte, 1)
	done := make(chan error, 1)
	go func() {
		_, err := box.Exec(inner, r.process(t, box, a.probe, f, &firstLine{got: first}))
		done <- err
	}()
	select {
	case <-first:
	case err := <-done:
		return unable("the processes could not be started: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		return unable("%v", err)
	}
	a.probe = "survivors"
	return r.try(ctx, t, box, a, f)
}

// maxPiece is what the runner is given of output at once, in bytes.
const maxPiece = 1 << 20

// sized counts output and the largest piece of it.
type sized struct{ all, largest int }

func (w *sized) Write(p []byte) (int, error) {
	w.all += len(p)
	w.largest = max(w.largest, len(p))
	return len(p), nil
}

func (r *running) readLine(ctx context.Context, t Target, box sandbox.Box, f facts) answer {
	out := &sized{}
	exit, err := box.Exec(ctx, r.process(t, box, "endless-line", f, out))
	switch {
	case err != nil || exit.Code != 0:
		return unable("exit %d: %v", exit.Code, err)
	case out.all != endless:
		return hole("%d bytes of %d arrived", out.all, endless)
	case out.largest > maxPiece:
		return hole("a piece of %d bytes", out.largest)
	}
	return held("%d MiB in pieces of at most %d KiB", out.all>>20, out.largest>>10)
}

// endless is the length of the line without an end, in bytes.
const endless = 64 << 20

func (r *running) showEscapes(ctx context.Context, t Target, box sandbox.Box, f facts) answer {
	out := &bounded{limit: answerSize}
	if exit, err := box.Exec(ctx, r.process(t, box, "terminal-escapes", f, out)); err != nil || exit.Code != 0 || out.b.Len() == 0 {
		return unable("exit %d: %v", exit.Code, err)
	}
	shown := r.Clean(out.b.String())
	for _, c := range shown {
		if c < 0x20 || c >= 0x7f && c < 0xa0 || c == '\u202e' {
			return hole("%U is shown as it is", c)
		}
	}
	if !utf8.ValidString(shown) {
		return hole("invalid UTF-8 is shown")
	}
	return held("shown as %q", shown)
}

// collect asks for what is no file.
func (r *running) collect(ctx context.Context, t Target, box sandbox.Box, f facts) answer {
	const limit = 64 << 10
	p := r.process(t, box, "collected-links", f, &bounded{limit: answerSize})
	for _, name := range []string{"zero", "loop", "beside", "pipe"} {
		p.Collect = append(p.Collect, sandbox.Collect{Path: f.Temp + "/herd-verify-" + name, Limit: limit})
	}
	exit, err := box.Exec(ctx, p)
	switch {
	case err != nil || exit.Code != 0:
		return unable("exit %d: %v", exit.Code, err)
	case exit.Stopped:
		return hole("it hangs")
	}
	for name, data := range exit.Collected {
		if len(data) > limit {
			return hole("%d bytes of %s", len(data), filepath.Base(name))
		}
		if bytes.Contains(data, []byte(f.BesideText)) {
			return hole("%s leads to a file of this machine", filepath.Base(name))
		}
	}
	return held("%d of 4 were taken, at most %d KiB each", len(exit.Collected), limit>>10)
}

// ownNamespaces are the runner's; nil where there are none.
func ownNamespaces() map[string]string {
	if runtime.GOOS != "linux" {
		return nil
	}
	own := map[string]string{}
	for _, name := range sandboxNamespaces {
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return nil
		}
		own[name] = link
	}
	return own
}

// Project is a stand-in for the person's: what boxes do to it does no harm, and
// is seen.
type Project struct {
	Dir string // the project itself

	beside, besideText, recordText string
	mountPoints                    []string
	before                         map[string]string
	waiting                        []remembered
}

type remembered struct {
	attack string
	target Target
	seen   string
}

// NewProject makes a stand-in below dir, a new empty directory, owned by uid and
// gid: a repository with records, and a file beside it.
func NewProject(dir string, uid, gid int) (*Project, error) {
	p := &Project{
		Dir: filepath.Join(dir, "project"), beside: filepath.Join(dir, "beside", "private"),
		besideText: "beside " + rand.Text(), recordText: "record " + rand.Text(),
		mountPoints: []string{"/herd/git", "/herd/git-objects"},
	}
	git := filepath.Join(p.Dir, ".git")
	files := map[string]string{
		filepath.Join(git, "HEAD"):                                        "ref: refs/heads/main\n",
		filepath.Join(git, "config"):                                      "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
		filepath.Join(git, "hooks", "README"):                             "hooks of the project\n",
		filepath.Join(p.Dir, "README"):                                    "A project to attack.\n",
		filepath.Join(p.Dir, ".herd", "runs", "earlier", "journal.jsonl"): p.recordText + "\n",
		p.beside: p.besideText + "\n",
	}
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(git, d), 0o755); err != nil {
			return nil, err
		}
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if err := own(dir, uid, gid); err != nil {
		return nil, err
	}
	p.before = p.snapshot()
	return p, nil
}

func own(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || os.Getuid() != 0 {
			return err
		}
		return os.Lchown(name, uid, gid)
	})
}

// snapshot tells what no box may change: the repository, the records, and what
// is beside the project.
func (p *Project) snapshot() map[string]string {
	all := map[string]string{}
	for what, dir := range map[string]string{"git": filepath.Join(p.Dir, ".git"), "records": filepath.Join(p.Dir, ".herd", "runs", "earlier"), "links-left-behind": filepath.Dir(p.beside)} {
		h := sha256.New()
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if what == "git" && brought(dir, name) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			fmt.Fprintf(h, "%q %v\n", name, d.Type())
			if d.Type().IsRegular() {
				b, err := os.ReadFile(name)
				fmt.Fprintf(h, "%q %v\n", b, err)
			}
			return nil
		})
		all[what] = fmt.Sprintf("%x %v", h.Sum(nil), err)
	}
	return all
}

// brought says whether a name in .git is of a branch that work comes back as, and
// of its objects, which change nothing else; where other objects are looked for
// (objects/info) is no such.
func brought(git, name string) bool {
	rel, err := filepath.Rel(git, name)
	if err != nil {
		return false
	}
	first, rest, _ := strings.Cut(filepath.ToSlash(rel), "/")
	return first == "objects" && rest != "" && rest != "info" && !strings.HasPrefix(rest, "info/") ||
		rel == "refs/heads/herd" || rel == "logs"
}

func (p *Project) remember(attack string, t Target, seen string) {
	p.waiting = append(p.waiting, remembered{attack, t, seen})
}

// afterwards lets the runner do with the project what it does after a run, and
// looks at what became of it.
func (r *running) afterwards(targets []Target) error {
	done := make(chan error, 1)
	go func() { done <- r.Finish() }()
	hangs := false
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("bring back what boxes did: %w", err)
		}
	case <-time.After(probeTime):
		hangs = true
	}
	now := r.Project.snapshot()
	for _, a := range Attacks() {
		for _, w := range r.Project.waiting {
			if w.attack != a.Name {
				continue
			}
			got := held("unchanged here; %s", w.seen)
			switch {
			case hangs:
				got = hole("bringing back what boxes did hangs")
			case now[a.Name] != r.Project.before[a.Name]:
				got = hole("changed on this machine; %s", w.seen)
			}
			r.found(a, w.target, got)
		}
	}
	order := map[string]int{}
	for i, t := range targets {
		order[t.Name] = i
	}
	slices.SortStableFunc(r.findings, func(a, b Finding) int { return order[a.Box] - order[b.Box] })
	return nil
}

// Remove takes the stand-in away.
func (p *Project) Remove() error {
	err := os.RemoveAll(filepath.Dir(p.Dir))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return err
}
