package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Modes of a clone.
const (
	Isolated = "isolated"
	Copy     = "copy"
)

// CloneOptions say what Clone makes.
type CloneOptions struct {
	Mode string // Isolated or Copy
	Name string // who works in it, for people: "fix (a.txt)"
	// Merge is what the clone holds beside the project; Isolated only.
	Merge []Work
}

// Work is what was made in an isolated clone.
type Work struct {
	Name   string // who made it
	Branch string // in the person's repository; empty: nothing was changed
	Commit string
	// Patch is the whole change as text, empty where it is larger than MaxPatch.
	Patch   string
	Changed []string // paths, sorted
	Notices []string // what was left out and why, for the person
}

// MaxPatch bounds a patch in bytes.
const MaxPatch = 1 << 20

// Conflict says that the work of several jobs does not merge.
type Conflict struct{ Message, Hint string }

func (e *Conflict) Error() string { return e.Message }

// Clone is a workspace apart from the project. Box may be called concurrently,
// the other methods one at a time and while no box of the clone is open.
type Clone struct {
	w        *Workspace
	mode     string
	name     string
	slug     string
	dir      string // holds tree, git, saved
	uid, gid int

	store   *store // nil: of Copy
	base    string // the commit of the project that it began with
	start   string // base with what was merged into it
	tree    string // of start
	stamps  stamps // of the files when the steps got them
	saved   stamps // of the files when they were saved
	lenders []string

	mu     sync.Mutex
	onHost bool // the steps that work in it have no box
	used   bool
}

// Clone makes a workspace of its own. A *Conflict is the workflow's failure, any
// other error one of the machine.
func (w *Workspace) Clone(ctx context.Context, o CloneOptions) (*Clone, error) {
	if err := w.prepareClones(); err != nil {
		return nil, fmt.Errorf("workspace %s: %w", o.Mode, err)
	}
	c := &Clone{w: w, mode: o.Mode, name: o.Name, slug: w.slug(o.Name), uid: w.uid, gid: w.gid}
	c.dir = filepath.Join(w.clones, c.slug)
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("workspace %s: %w", o.Mode, err)
	}
	fill := c.makeCopy
	if o.Mode == Isolated {
		fill = func() error { return c.makeIsolated(ctx, o.Merge) }
	}
	if err := fill(); err != nil {
		err = errors.Join(err, os.RemoveAll(c.dir))
		var conflict *Conflict
		if errors.As(err, &conflict) {
			return nil, conflict
		}
		return nil, fmt.Errorf("workspace %s: %w", o.Mode, err)
	}
	return c, nil
}

// prepareClones makes the directory of the run's clones, once.
func (w *Workspace) prepareClones() error {
	w.clonesOnce.Do(func() {
		state := filepath.Dir(filepath.Dir(w.runDir))
		all := filepath.Join(state, clonesDir)
		w.clones = filepath.Join(all, filepath.Base(w.runDir))
		w.clonesErr = func() error {
			if err := os.Mkdir(all, 0o755); err != nil && !os.IsExist(err) {
				return err
			}
			if st, err := os.Lstat(all); err != nil || !st.IsDir() {
				return fmt.Errorf("%s is not a directory: remove it, herd-runner keeps workspaces there", all)
			}
			if err := os.Mkdir(w.clones, 0o755); err != nil {
				return err
			}
			if user := w.gitUser(); user != nil {
				return os.Lchown(w.clones, int(user.Uid), int(user.Gid))
			}
			return nil
		}()
	})
	return w.clonesErr
}

// clonesDir is where clones are, below .herd.
const clonesDir = "workspaces"

func (w *Workspace) openedStore() (*store, error) {
	w.storeOnce.Do(func() { w.store, w.storeErr = w.openStore(filepath.Join(w.clones, "store.git")) })
	return w.store, w.storeErr
}

// slug is a name for directories and branches, different for each clone of the
// run also where case does not count.
func (w *Workspace) slug(name string) string {
	s := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.':
			return r
		}
		return '-'
	}, name), "-.")
	for old := ""; old != s; {
		old = s
		s = strings.NewReplacer("--", "-", "..", ".", ".-", "-", "-.", "-").Replace(s)
	}
	s = strings.TrimSuffix(strings.TrimRight(s[:min(len(s), 80)], "-."), ".lock")
	if s == "" {
		s = "job"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slugs == nil {
		w.slugs = map[string]bool{"store.git": true}
	}
	unique := s
	for n := 2; w.slugs[strings.ToLower(unique)]; n++ {
		unique = s + "-" + strconv.Itoa(n)
	}
	w.slugs[strings.ToLower(unique)] = true
	return unique
}

func (c *Clone) treeDir() string { return filepath.Join(c.dir, "tree") }
func (c *Clone) gitDir() string  { return filepath.Join(c.dir, "git") }

// Root is the clone's directory on the host.
func (c *Clone) Root() string { return c.treeDir() }

// makeIsolated checks the project out, with what is not committed and what is
// merged into it.
func (c *Clone) makeIsolated(ctx context.Context, merge []Work) error {
	s, err := c.w.openedStore()
	if err != nil {
		return err
	}
	c.store = s
	b, err := s.base(ctx, filepath.Join(s.dir, "scratch", c.slug))
	if err != nil {
		return err
	}
	c.base = b.commit
	if c.start, err = s.merge(ctx, c.name, c.base, merge); err != nil {
		return err
	}
	if c.tree, err = s.line(ctx, "rev-parse", c.start+"^{tree}"); err != nil {
		return err
	}
	if err := c.makeGit(s.project.dir, s.common, append([]string{filepath.Join(s.dir, "objects")}, s.lenders...)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(c.gitDir(), "index")); err != nil && !os.IsNotExist(err) {
		return err
	}
	own := "refs/heads/" + c.branch()
	for name, content := range map[string]string{"HEAD": "ref: " + own + "\n", own: c.start + "\n"} {
		name = filepath.Join(c.gitDir(), name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := os.Mkdir(c.treeDir(), 0o755); err != nil {
		return err
	}
	if err := c.w.giveTo(c.dir, s.as); err != nil {
		return err
	}
	checkout := s.repository
	checkout.workTree, checkout.index = c.treeDir(), filepath.Join(c.gitDir(), "index")
	if _, err := checkout.git(ctx, nil, "-c", "core.bare=false", "read-tree", "--reset", "-u", c.start); err != nil {
		return err
	}
	return c.ready()
}

// makeCopy copies the project, ignored files included.
func (c *Clone) makeCopy() error {
	if err := checkRoom(c.w.root, c.dir); err != nil {
		return err
	}
	if _, err := stage(c.w.root, c.treeDir(), c.uid, c.gid); err != nil {
		return err
	}
	gitdir, err := gitDir(c.w.project)
	if err != nil {
		return err
	}
	if gitdir != "" {
		common := commonDir(gitdir)
		if err := c.makeGit(gitdir, common, objectStores(filepath.Join(common, "objects"))); err != nil {
			return err
		}
	}
	return c.ready()
}

// makeGit fills the clone's private repository.
func (c *Clone) makeGit(gitDir, common string, lenders []string) error {
	c.lenders = lenders
	if err := fillGit(c.gitDir(), gitDir, common); err != nil {
		return err
	}
	// Who the files belong to and when that was changed says nothing.
	f, err := os.OpenFile(filepath.Join(c.gitDir(), "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("[core]\n\tcheckStat = minimal\n\ttrustctime = false\n")
	return errors.Join(err, f.Close())
}

// ready gives the clone to those who work in it.
func (c *Clone) ready() error {
	if err := os.Mkdir(filepath.Join(c.treeDir(), ".herd"), 0o755); err != nil && !os.IsExist(err) {
		return err
	}
	if c.lenders != nil {
		gitfile := filepath.Join(c.treeDir(), ".git")
		if err := os.Remove(gitfile); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.WriteFile(gitfile, []byte("gitdir: "+c.gitDir()+"\n"), 0o644); err != nil {
			return err
		}
	}
	if os.Getuid() == 0 {
		if err := chownTree(c.dir, c.uid, c.gid); err != nil {
			return err
		}
	}
	var err error
	c.stamps, err = stampTree(c.treeDir())
	return err
}

// branch is the name under which the work comes back.
func (c *Clone) branch() string { return "herd/" + filepath.Base(c.w.runDir) + "/" + c.slug }

// Box prepares the layout of a box, or of steps on the host, that work in the
// clone. Those in boxes and those on the host never share one: what a box wrote
// into the clone's .git would be obeyed by git on the host.
func (c *Clone) Box(onHost bool, leg, step string) (sandbox.Layout, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.used && c.onHost != onHost {
		return sandbox.Layout{}, &Conflict{
			Message: "steps in boxes and steps with `docker: false` cannot share the " + c.mode + " workspace of " + c.name,
			Hint:    "give the step a workspace of its own (`workspace: isolated` at the step), or move it to another job that merges this one",
		}
	}
	if !c.used && c.lenders != nil {
		stores := c.lenders
		if !onHost {
			stores = inBox(c.lenders)
		}
		if err := writeAlternates(c.gitDir(), stores); err != nil {
			return sandbox.Layout{}, err
		}
		if err := c.w.giveTo(filepath.Join(c.gitDir(), "objects/info"), &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.gid)}); err != nil && os.Getuid() == 0 {
			return sandbox.Layout{}, err
		}
	}
	c.used, c.onHost = true, onHost
	n := c.w.nextBox()
	if onHost {
		l, err := c.w.hostLayout(n, leg, step)
		l.Workdir = c.treeDir()
		l.Env = map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
		return l, err
	}
	l, err := c.w.boxLayout(n, c.treeDir(), false, leg, step)
	if err != nil || c.lenders == nil {
		return l, err
	}
	pointer := filepath.Join(c.dir, "gitfile")
	if err := os.WriteFile(pointer, []byte("gitdir: "+boxGit+"\n"), 0o644); err != nil {
		return l, err
	}
	if err := c.mountpoint(); err != nil {
		return l, err
	}
	mounts, err := c.w.lend(c.lenders)
	if err != nil {
		return l, err
	}
	l.Mounts = append(l.Mounts, mounts...)
	l.Mounts = append(l.Mounts, sandbox.Mount{Source: c.gitDir(), Target: boxGit}, sandbox.Mount{Source: pointer, Target: BoxDir + "/.git", ReadOnly: true})
	return l, nil
}

// mountpoint sees to it that the clone's .git is a file again, for the box's
// own to be laid over it.
func (c *Clone) mountpoint() error {
	root, err := os.OpenRoot(c.treeDir())
	if err != nil {
		return err
	}
	defer root.Close()
	if st, err := root.Lstat(".git"); err == nil && st.Mode().IsRegular() {
		return nil
	}
	if err := root.RemoveAll(".git"); err != nil {
		return err
	}
	return root.WriteFile(".git", []byte("gitdir: "+boxGit+"\n"), 0o644)
}

// Save keeps what the clone holds now, for Reset.
func (c *Clone) Save() error {
	saved := filepath.Join(c.dir, "saved")
	if err := os.RemoveAll(saved); err != nil {
		return err
	}
	if err := os.Mkdir(saved, 0o700); err != nil {
		return err
	}
	if err := checkRoom(c.treeDir(), c.dir); err != nil {
		return err
	}
	if _, err := stage(c.treeDir(), filepath.Join(saved, "tree"), c.uid, c.gid); err != nil {
		return err
	}
	var err error
	if c.saved, err = stampTree(c.treeDir()); err != nil || c.lenders == nil {
		return err
	}
	_, err = stageAll(c.gitDir(), filepath.Join(saved, "git"), c.uid, c.gid)
	return err
}

// Reset makes the clone what it was at the last Save.
func (c *Clone) Reset() error {
	saved := filepath.Join(c.dir, "saved")
	for _, d := range []string{c.treeDir(), c.gitDir()} {
		if err := os.RemoveAll(d); err != nil {
			return err
		}
	}
	if _, err := stage(filepath.Join(saved, "tree"), c.treeDir(), c.uid, c.gid); err != nil {
		return err
	}
	if c.lenders != nil {
		if _, err := stageAll(filepath.Join(saved, "git"), c.gitDir(), c.uid, c.gid); err != nil {
			return err
		}
	}
	before := c.stamps
	if err := c.ready(); err != nil {
		return err
	}
	// A file that was as at the start when it was saved still is.
	now := c.stamps
	c.stamps = before
	for name, stamp := range before {
		if c.saved[name] == stamp {
			c.stamps[name] = now[name]
		}
	}
	c.saved = now
	return nil
}

// Remove throws the clone away, unless the run keeps its workspaces.
func (c *Clone) Remove() error {
	if c.w.keep {
		return os.RemoveAll(filepath.Join(c.dir, "saved"))
	}
	return os.RemoveAll(c.dir)
}
