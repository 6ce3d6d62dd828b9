// Package workspace prepares what boxes see of the project directory and brings
// their work back. It stands between the executor, which asks for a layout per
// box, and the person's own tree, which it never chowns and whose .git no box
// ever gets.
package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Where things are in every box.
const (
	BoxDir     = "/workspace"
	BoxTemp    = "/herd/temp"
	BoxHome    = "/herd/home"
	boxGit     = "/herd/git"
	boxObjects = "/herd/git-objects"
)

// rootlessUID is the user of boxes where the project belongs to root.
const rootlessUID = 1000

// Options say what Open prepares.
type Options struct {
	Project string // the person's directory
	RunDir  string // of this run, under Project/.herd; exists
	// Boxes says that some step runs in a box. Without it the steps work in
	// Project itself and nothing is prepared.
	Boxes bool
	// Keep leaves the workspaces apart from the project where they are, of the
	// newest keptRuns runs.
	Keep bool
	// Now is the clock of the commits that are made; nil: the machine's.
	Now func() time.Time
	// Apart has the steps work in a copy also where the project is not root's: what
	// their engine has of it comes and goes, and is not to meet what the person does.
	Apart bool
	// Later leaves all that looks at the project to Prepare: the run may have to
	// wait for another that works in it.
	Later bool
}

// Workspace is the project as the steps of one run see it. Safe for concurrent
// use, except Finish.
type Workspace struct {
	project, runDir string
	root            string
	uid, gid        int
	staged          manifest // nil: the steps work in the project itself
	isolated        bool     // some step runs in a box
	later           bool     // Prepare is yet to come
	madeGit         bool     // .git of the root is our empty mountpoint

	mu      sync.Mutex
	boxes   int
	homes   map[string]string // of agent steps, by leg and step
	temps   []string          // emptied ones on the host, for the next leg
	gitOnce sync.Once
	git     []sandbox.Mount
	gitErr  error

	keep       bool
	now        func() time.Time
	slugs      map[string]bool // of the clones, in lower case
	clones     string          // the directory that clones are in
	clonesOnce sync.Once
	clonesErr  error
	store      *store
	storeOnce  sync.Once
	storeErr   error
}

// Open prepares the workspace. A project that belongs to root is copied to a
// clone the runner owns, because no box runs as root, and so is one whose engine
// has other files; Finish brings the changes back. Errors are for the person.
func Open(o Options) (*Workspace, error) {
	project, err := filepath.Abs(o.Project)
	if err != nil {
		return nil, err
	}
	if project, err = filepath.EvalSymlinks(project); err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	w := &Workspace{project: project, runDir: o.RunDir, root: project, isolated: o.Boxes, later: o.Later, keep: o.Keep, now: o.Now}
	if w.now == nil {
		w.now = time.Now
	}
	if !o.Boxes {
		w.uid, w.gid = os.Getuid(), os.Getgid()
		if user := w.gitUser(); user != nil {
			w.uid, w.gid = int(user.Uid), int(user.Gid)
		}
		return w, nil
	}
	if w.uid, w.gid, err = Owner(project); err != nil {
		return nil, err
	}
	if w.uid == 0 {
		w.uid, w.gid = rootlessUID, rootlessUID
		o.Apart = true
	}
	if o.Apart {
		w.root = filepath.Join(w.runDir, stagedDir)
	}
	if w.later {
		return w, nil
	}
	return w, w.Prepare()
}

// Prepare does what Open left for later; it is called once, before anything else
// is asked of the workspace but Root. Finish without it changes nothing.
func (w *Workspace) Prepare() (err error) {
	w.later = false
	if !w.isolated {
		return nil
	}
	if w.root != w.project {
		if w.staged, err = stage(w.project, w.root, w.uid, w.gid); err != nil {
			return fmt.Errorf("workspace: copy %s for its boxes: %w", w.project, err)
		}
		if err := w.staged.save(filepath.Join(w.runDir, stagedFile)); err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
	}
	return w.gitMountpoint()
}

// Check says why boxes could not work on a project, before anything is made.
func Check(project string) error {
	_, _, err := Owner(project)
	return err
}

// Owner gives the user that boxes run as: the project's owner, who must be the
// person running us, unless that is root.
func Owner(project string) (uid, gid int, err error) {
	st, err := os.Stat(project)
	if err != nil {
		return 0, 0, fmt.Errorf("workspace: %w", err)
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, errors.New("workspace: this system does not tell who owns a directory")
	}
	if me := os.Getuid(); me != 0 && int(owner.Uid) != me {
		return 0, 0, fmt.Errorf("workspace %s belongs to uid %d, and you are uid %d: the box's user could not write to it; run as its owner, or use a copy of your own", project, owner.Uid, me)
	}
	uid, gid = boxUser(owner.Uid, owner.Gid)
	return uid, gid, nil
}

// boxUser is the owner, whose directory may have the group of root: no box has that.
func boxUser(owner, group uint32) (uid, gid int) {
	if group == 0 {
		group = owner
	}
	return int(owner), int(group)
}

// Root is the directory on the host that the steps work in.
func (w *Workspace) Root() string { return w.root }

// Box prepares the layout of one box (see steps.Workspace).
func (w *Workspace) Box(mode, leg, step string) (sandbox.Layout, error) {
	n := w.nextBox()
	switch mode {
	case "host":
		return w.hostLayout(n, leg, step)
	case "shared", "ro":
	default:
		return sandbox.Layout{}, fmt.Errorf("workspace: a box cannot have the mode %q", mode)
	}
	w.gitOnce.Do(func() { w.git, w.gitErr = w.privateGit() })
	if w.gitErr != nil {
		return sandbox.Layout{}, fmt.Errorf("workspace: private .git: %w", w.gitErr)
	}
	l, err := w.boxLayout(n, w.root, mode == "ro", leg, step)
	l.Mounts = append(l.Mounts, w.git...)
	return l, err
}

// nextBox counts the boxes of the run.
func (w *Workspace) nextBox() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boxes++
	return w.boxes
}

// boxLayout is the layout of the nth box, which sees root.
func (w *Workspace) boxLayout(n int, root string, readOnly bool, leg, step string) (sandbox.Layout, error) {
	dir := filepath.Join(w.runDir, "boxes", strconv.Itoa(n))
	home, temp := w.home(leg, step, filepath.Join(dir, "home")), filepath.Join(dir, "temp")
	return sandbox.Layout{
		User: fmt.Sprintf("%d:%d", w.uid, w.gid), Workdir: BoxDir, Home: BoxHome, Temp: BoxTemp,
		Mounts: []sandbox.Mount{
			{Source: root, Target: BoxDir, ReadOnly: readOnly},
			{Target: BoxDir + "/.herd"},
			{Source: home, Target: BoxHome},
			{Source: temp, Target: BoxTemp},
		},
	}, w.makeDirs(home, temp)
}

// home is fresh for each box, but for those of one agent step: a retry goes on
// with the session that the attempt before left there.
func (w *Workspace) home(leg, step, fresh string) string {
	if step == "" {
		return fresh
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := leg + "\x00" + step
	if w.homes == nil {
		w.homes = map[string]string{}
	}
	if w.homes[key] == "" {
		w.homes[key] = fresh
	}
	return w.homes[key]
}

// hostLayout is for steps without a box. Scripts have the person's HOME, an
// agent one of its own: its sessions and settings are not the person's.
func (w *Workspace) hostLayout(n int, leg, step string) (sandbox.Layout, error) {
	l := sandbox.Layout{Workdir: w.root}
	var dirs []string
	if step == "" {
		l.Temp = w.emptiedTemp()
	}
	if l.Temp == "" {
		l.Temp = filepath.Join(w.runDir, "temp", strconv.Itoa(n))
		dirs = append(dirs, l.Temp)
	}
	if step != "" {
		l.Home = w.home(leg, step, filepath.Join(l.Temp, "home"))
		dirs = append(dirs, l.Home)
	}
	if w.staged != nil {
		// The clone belongs to another user than the scripts.
		l.Env = map[string]string{"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
	}
	return l, w.makeDirs(dirs...)
}

// Reuse empties the temporary directory of a host layout for the next one (see
// steps.Workspace). What can not be emptied stays until Finish.
func (w *Workspace) Reuse(l sandbox.Layout, keep func(e fs.DirEntry) bool) {
	st, err := os.Lstat(l.Temp)
	if err != nil || !st.IsDir() { // a link that a step has put there leads to what is not ours
		return
	}
	if st.Mode().Perm() != 0o700 && os.Chmod(l.Temp, 0o700) != nil {
		return
	}
	entries, err := os.ReadDir(l.Temp)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(l.Temp, e.Name())
		if keep(e) && isAsMade(path, e) {
			continue
		}
		if os.RemoveAll(path) != nil {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.temps = append(w.temps, l.Temp)
}

// isAsMade says whether a file can be written anew without changing another, or
// whether a directory is as good as a new one.
func isAsMade(path string, e fs.DirEntry) bool {
	info, err := e.Info()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return false
	case e.Type().IsRegular():
		return st.Nlink == 1 && info.Mode().Perm()&0o600 == 0o600
	case e.IsDir():
		if info.Mode()|0o055 != fs.ModeDir|0o755 || int(st.Uid) != os.Geteuid() {
			return false
		}
		inside, err := os.ReadDir(path)
		return err == nil && len(inside) == 0
	}
	return false
}

// emptiedTemp gives the directory of a leg that is gone; empty: there is none.
func (w *Workspace) emptiedTemp() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.temps)
	if n == 0 {
		return ""
	}
	dir := w.temps[n-1]
	w.temps = w.temps[:n-1]
	return dir
}

// makeDirs makes private directories that the box's user owns.
func (w *Workspace) makeDirs(dirs ...string) error {
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("workspace: %w", err)
		}
		if os.Getuid() == 0 && w.uid != 0 {
			if err := os.Lchown(d, w.uid, w.gid); err != nil {
				return fmt.Errorf("workspace: %w", err)
			}
		}
	}
	return nil
}

// Report is what Finish did.
type Report struct {
	Changed []string // paths brought back to the project, sorted
	Notices []string // what was left out and why, for the person
}

// keptRuns is of how many runs the workspaces are kept at most, the newest.
const keptRuns = 5

// finishClones removes what is left of the run's clones. Where they are kept,
// those of older runs go.
func (w *Workspace) finishClones() error {
	if w.keep {
		return keepNewest(w.clones, os.RemoveAll)
	}
	err := os.RemoveAll(w.clones)
	_ = os.Remove(filepath.Dir(w.clones)) // unless others are there
	return err
}

// keptName marks a directory of a run in which workspaces stay.
const keptName = "kept"

// keepNewest marks a run's directory, and drops what older ones beside it keep.
func keepNewest(dir string, drop func(dir string) error) error {
	if err := os.WriteFile(filepath.Join(dir, keptName), nil, 0o644); err != nil {
		return err
	}
	all := filepath.Dir(dir)
	entries, err := os.ReadDir(all) // run ids begin with their time
	if err != nil {
		return err
	}
	var kept []string
	for _, e := range entries {
		if isKept(filepath.Join(all, e.Name())) {
			kept = append(kept, filepath.Join(all, e.Name()))
		}
	}
	var errs []error
	for _, old := range kept[:max(0, len(kept)-keptRuns)] {
		errs = append(errs, drop(old))
	}
	return errors.Join(errs...)
}

func isKept(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, keptName))
	return err == nil
}

// dropCopy removes the kept copy of a project from a run's directory.
func dropCopy(runDir string) error {
	return removeIn(runDir, []string{stagedDir, "git", keptName})
}

// Finish brings the work back where the steps worked in a clone, and removes the
// run's temporary directories. Call it once, when every box is gone.
func (w *Workspace) Finish() (Report, error) {
	var rep Report
	var errs []error
	temporary := temporaryDirs()
	if w.staged != nil {
		var err error
		rep, err = w.staged.comeBack(w.runDir, w.project)
		errs = append(errs, err)
		switch {
		case err != nil || len(rep.Notices) > 0: // for the person to look at
		case w.keep:
			temporary = temporary[:2] // .git of the copy leads there
			errs = append(errs, keepNewest(w.runDir, dropCopy))
		default:
			errs = append(errs, os.RemoveAll(w.root))
		}
	}
	if w.madeGit {
		// Only ours: empty, for boxes saw a directory of their own there.
		_ = os.Remove(filepath.Join(w.root, ".git"))
	}
	errs = append(errs, removeIn(w.runDir, temporary))
	if w.clones != "" {
		errs = append(errs, w.finishClones())
	}
	return rep, errors.Join(errs...)
}
