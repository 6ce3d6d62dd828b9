package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/sandbox"
)

// tree writes files; a value "-> x" makes a symbolic link, "/" a directory.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch target, link := strings.CutPrefix(content, "-> "); {
		case link:
			err = os.Symlink(target, p)
		case content == "/":
			err = os.Mkdir(p, 0o755)
		default:
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// listing reads a tree back in the form of tree.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.Walk(dir, func(p string, st os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case st.IsDir():
		case st.Mode()&os.ModeSymlink != 0:
			link, err := os.Readlink(p)
			got[name] = "-> " + link
			return err
		case st.Mode().IsRegular():
			b, err := os.ReadFile(p)
			got[name] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// cloned stages a project and gives both directories.
func cloned(t *testing.T, files map[string]string) (project, clone string, m manifest) {
	t.Helper()
	project, clone = t.TempDir(), filepath.Join(t.TempDir(), "clone")
	tree(t, project, files)
	m, err := stage(project, clone, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	return project, clone, m
}

// What a killed run did to its copy of the project comes back once.
func TestRecover(t *testing.T) {
	project, runDir := t.TempDir(), t.TempDir()
	tree(t, project, map[string]string{"keep": "1", "edit": "1", "mine": "1"})
	clone := filepath.Join(runDir, stagedDir)
	m, err := stage(project, clone, os.Getuid(), os.Getgid())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.save(filepath.Join(runDir, stagedFile)); err != nil {
		t.Fatal(err)
	}
	tree(t, clone, map[string]string{"edit": "22", "new": "n", "mine": "theirs"})
	tree(t, project, map[string]string{"mine": "changed meanwhile"})
	tree(t, runDir, map[string]string{"temp/1/x": "left"})

	rep, err := Recover(project, runDir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"keep": "1", "edit": "22", "new": "n", "mine": "changed meanwhile"}
	if diff := cmp.Diff(want, listing(t, project)); diff != "" {
		t.Errorf("project (-want +got):\n%s", diff)
	}
	if len(rep.Notices) != 1 || !strings.Contains(rep.Notices[0], `"mine" was not brought back`) {
		t.Errorf("notices: %q", rep.Notices)
	}
	if isDir(filepath.Join(runDir, "temp")) || !isDir(clone) {
		t.Error("what is temporary goes, and the copy stays of which something was left out")
	}

	tree(t, project, map[string]string{"edit": "after"})
	if rep, err := Recover(project, runDir); err != nil || len(rep.Changed)+len(rep.Notices) > 0 {
		t.Errorf("a second time: %+v, %v", rep, err)
	}
	if rep, err := Recover(project, t.TempDir()); err != nil || len(rep.Changed) > 0 {
		t.Errorf("of a run without a copy: %+v, %v", rep, err)
	}
}

// What a copy took before the disk was full would keep it full.
func TestCopyThatFailsLeavesNothing(t *testing.T) {
	clone := filepath.Join(t.TempDir(), "workspace")
	if _, err := stage(filepath.Join(t.TempDir(), "not there"), clone, os.Getuid(), os.Getgid()); err == nil {
		t.Fatal("no error")
	}
	if _, err := os.Lstat(clone); !os.IsNotExist(err) {
		t.Errorf("the copy was left (%v)", err)
	}
}

// A directory of an ordinary user may have the group of root.
func TestBoxUserHasNoGroupOfRoot(t *testing.T) {
	for _, owner := range [][2]uint32{{1001, 0}, {1001, 1001}} {
		if uid, gid := boxUser(owner[0], owner[1]); uid != 1001 || gid != 1001 {
			t.Errorf("owner %v: got %d:%d, want 1001:1001", owner, uid, gid)
		}
	}
	if uid, gid := boxUser(1001, 50); uid != 1001 || gid != 50 {
		t.Errorf("got %d:%d, want 1001:50", uid, gid)
	}
}

func TestBringBack(t *testing.T) {
	project, clone, m := cloned(t, map[string]string{
		"keep": "1", "edit": "1", "gone": "1", "dir/gone": "1", "dir/stays": "1",
		"becomes-dir": "1", "link": "-> keep", ".git/HEAD": "real", ".herd/x": "state",
	})
	for _, name := range []string{"gone", "dir/gone", "becomes-dir", "link"} {
		if err := os.Remove(filepath.Join(clone, name)); err != nil {
			t.Fatal(err)
		}
	}
	tree(t, clone, map[string]string{"edit": "22", "new/file": "n", "becomes-dir/x": "n", "link": "-> edit"})
	if err := os.Chmod(filepath.Join(clone, "keep"), 0o755); err != nil {
		t.Fatal(err)
	}
	rep, err := m.bringBack(clone, project)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"keep": "1", "edit": "22", "dir/stays": "1", "new/file": "n", "link": "-> edit", ".git/HEAD": "real", ".herd/x": "state"}
	got := listing(t, project)
	delete(want, "becomes-dir/x")
	delete(got, "becomes-dir/x")
	delete(got, "becomes-dir")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("project (-want +got):\n%s", diff)
	}
	if st, _ := os.Stat(filepath.Join(project, "keep")); st.Mode().Perm() != 0o755 {
		t.Errorf("mode of keep: %v", st.Mode())
	}
	if len(rep.Changed) == 0 {
		t.Error("nothing reported as changed")
	}
}

// THREATS 16: what could reach out of the project is left out with a reason,
// never followed.
func TestBringBackRefuses(t *testing.T) {
	project, clone, m := cloned(t, map[string]string{"a": "1", "dir/f": "1"})
	outside := t.TempDir()
	tree(t, clone, map[string]string{
		"abs": "-> /etc/shadow", "up": "-> ../../x", "sub/.git/config": "evil", "sub/.GIT./hooks/x": "evil", "fine": "-> dir/f",
	})
	if err := syscall.Mkfifo(filepath.Join(clone, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The person's own directory became a link out of the project meanwhile.
	if err := os.RemoveAll(filepath.Join(project, "dir")); err != nil {
		t.Fatal(err)
	}
	tree(t, project, map[string]string{"dir": "-> " + outside})
	tree(t, clone, map[string]string{"dir/new": "n"})
	if err := os.WriteFile(filepath.Join(clone, "a"), []byte("agent"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "a"), []byte("person"), 0o644); err != nil {
		t.Fatal(err)
	}
	rep, err := m.bringBack(clone, project)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "person", "dir": "-> " + outside, "fine": "-> dir/f"}, listing(t, project)); diff != "" {
		t.Errorf("project (-want +got):\n%s", diff)
	}
	if got := listing(t, outside); len(got) != 0 {
		t.Errorf("written through the link: %v", got)
	}
	notices := strings.Join(rep.Notices, "\n")
	for _, name := range []string{`"abs"`, `"up"`, `"sub/.git"`, `"sub/.GIT."`, `"fifo"`, `"a"`, `"dir/new"`} {
		if !strings.Contains(notices, name) {
			t.Errorf("no notice for %s in:\n%s", name, notices)
		}
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "safe.directory=*"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// Git writes a ref under the name of its lock first, and takes a directory away with
// the last ref in it: jobs that end do so while others begin.
func TestRefsAreWrittenWhileTheyAreCopied(t *testing.T) {
	refs := t.TempDir()
	tree(t, refs, map[string]string{"heads/main": "m"})
	var over atomic.Bool
	wrote := make(chan error, 1)
	go func() {
		var err error
		dir := filepath.Join(refs, "heads/herd")
		for name := filepath.Join(dir, "job"); err == nil && !over.Load(); {
			err = errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(name+".lock", []byte("j"), 0o644), os.Rename(name+".lock", name), os.RemoveAll(dir))
		}
		wrote <- err
	}()
	for range 300 {
		to := t.TempDir()
		if err := copyRefs(refs, to); err != nil {
			t.Error(err)
			break
		}
		if _, err := os.Lstat(filepath.Join(to, "heads/main")); err != nil {
			t.Error(err)
		}
		if locks, _ := filepath.Glob(filepath.Join(to, "heads/herd/*.lock")); len(locks) > 0 {
			t.Errorf("a lock was copied: %v", locks)
		}
	}
	over.Store(true)
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// THREATS 15: a box's .git borrows the real objects and shares nothing else.
func TestPrivateGit(t *testing.T) {
	for _, worktree := range []bool{false, true} {
		project := t.TempDir()
		git(t, project, "init", "-q")
		tree(t, project, map[string]string{"f": "1\n"})
		git(t, project, "add", "f")
		git(t, project, "commit", "-qm", "one")
		git(t, project, "config", "core.fsmonitor", "evil")
		git(t, project, "branch", "topic/x")
		if worktree {
			linked := filepath.Join(t.TempDir(), "linked")
			git(t, project, "worktree", "add", "-q", linked)
			project = linked
		}
		w := &Workspace{project: project, root: project, runDir: t.TempDir(), uid: os.Getuid(), gid: os.Getgid()}
		mounts, err := w.privateGit()
		if err != nil {
			t.Fatal(err)
		}
		targets := map[string]string{}
		for _, m := range mounts {
			targets[m.Target] = m.Source
			if strings.HasPrefix(m.Source, filepath.Join(project, ".git")) && !m.ReadOnly {
				t.Errorf("a writable mount of the real repository: %+v", m)
			}
		}
		if targets[boxObjects] == "" || targets["/workspace/.git"] == "" {
			t.Fatalf("mounts: %+v", mounts)
		}
		private := filepath.Join(w.runDir, "git")
		alternates := filepath.Join(private, "objects/info/alternates")
		if err := os.WriteFile(alternates, []byte(targets[boxObjects]+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		gitPrivate := func(args ...string) string {
			return git(t, project, append([]string{"--git-dir", private, "--work-tree", project}, args...)...)
		}
		if out := gitPrivate("status", "--porcelain"); out != "" {
			t.Errorf("status in the box: %q", out)
		}
		if out := gitPrivate("log", "--format=%s", "topic/x"); out != "one\n" {
			t.Errorf("log in the box: %q", out)
		}
		before := git(t, project, "rev-parse", "HEAD")
		gitPrivate("commit", "--allow-empty", "-qm", "from the box")
		if after := git(t, project, "rev-parse", "HEAD"); after != before {
			t.Error("a commit in the box moved the real branch")
		}
		if cfg, _ := os.ReadFile(filepath.Join(private, "config")); strings.Contains(string(cfg), "evil") {
			t.Error("the real configuration came along")
		}
	}
}

func TestAttemptsOfAnAgentStepShareTheirHome(t *testing.T) {
	for _, mode := range []string{"shared", "host"} {
		project := t.TempDir()
		run := filepath.Join(project, ".herd", "runs", "r")
		if err := os.MkdirAll(run, 0o755); err != nil {
			t.Fatal(err)
		}
		w := &Workspace{project: project, root: project, runDir: run, uid: os.Getuid(), gid: os.Getgid(), isolated: true}
		home := func(leg, step string) string {
			t.Helper()
			l, err := w.Box(mode, leg, step)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range l.Mounts {
				if m.Target == l.Home {
					return m.Source
				}
			}
			return l.Home
		}
		first := home("a", "fix")
		if _, err := os.Stat(first); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if again := home("a", "fix"); again != first {
			t.Errorf("%s: a retry has HOME %s, the first attempt had %s", mode, again, first)
		}
		for _, other := range [][2]string{{"a", "review"}, {"b", "fix"}} {
			if home(other[0], other[1]) == first {
				t.Errorf("%s: step %v has the HOME of another", mode, other)
			}
		}
		if one, two := home("a", ""), home("a", ""); mode == "shared" && one == two {
			t.Error("boxes of scripts share a HOME")
		}
	}
}

// THREATS 15: in a project that is no repository boxes have an empty .git of
// their own, and nothing of it stays; what a killed run has left is no repository.
func TestGitOfAProjectWithoutOne(t *testing.T) {
	project := t.TempDir()
	for round := range 2 {
		run := filepath.Join(project, ".herd", "runs", "r"+strconv.Itoa(round))
		if err := os.MkdirAll(run, 0o755); err != nil {
			t.Fatal(err)
		}
		w := &Workspace{project: project, root: project, runDir: run, uid: os.Getuid(), gid: os.Getgid(), isolated: true}
		if err := w.Prepare(); err != nil {
			t.Fatal(err)
		}
		l, err := w.Box("shared", "job", "")
		if err != nil {
			t.Fatal(err)
		}
		own := ""
		for _, m := range l.Mounts {
			if m.Target == BoxDir+"/.git" {
				own = m.Source
			}
		}
		if own == "" || strings.HasPrefix(own, filepath.Join(project, ".git")) {
			t.Fatalf("mounts: %+v", l.Mounts)
		}
		if round == 0 {
			continue // as if killed: the mountpoint stays
		}
		tree(t, own, map[string]string{"hooks/post-checkout": "evil"})
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(project, ".git")); !os.IsNotExist(err) {
			t.Errorf(".git is still there: %v", err)
		}
	}
}

func TestSweep(t *testing.T) {
	runs := t.TempDir()
	tree(t, runs, map[string]string{
		"dead/boxes/1/home/f": "x", "dead/git/HEAD": "x", "dead/workspace/work": "x", "dead/journal.jsonl": "x",
		"alive/boxes/1/f": "x", "done/journal.jsonl": "x",
	})
	notices, err := Sweep(runs, func(id string) bool { return id != "alive" })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"dead/workspace/work": "x", "dead/journal.jsonl": "x", "alive/boxes/1/f": "x", "done/journal.jsonl": "x"}
	if diff := cmp.Diff(want, listing(t, runs)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if len(notices) != 1 || !strings.Contains(notices[0], filepath.Join(runs, "dead", "workspace")) {
		t.Errorf("notices: %v", notices)
	}
}

// A run without boxes leaves the project's repository alone.
func TestFinishLeavesTheRepositoryOfAHostRun(t *testing.T) {
	project := t.TempDir()
	git(t, project, "init", "-q")
	run := filepath.Join(project, ".herd", "runs", "r")
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := Open(Options{Project: project, RunDir: run})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Box("host", "job", ""); err != nil {
		t.Fatal(err)
	}
	if rep, err := w.Finish(); err != nil || len(rep.Notices) > 0 {
		t.Errorf("finish: %v, notices %v", err, rep.Notices)
	}
	if _, err := os.Stat(filepath.Join(project, ".git", "HEAD")); err != nil {
		t.Errorf("the repository is gone: %v", err)
	}
}

// The next leg finds an empty RUNNER_TEMP, whatever the one before left there;
// only what is written anew before its use may stay, and only where writing to
// it touches nothing else.
func TestHostTempIsReused(t *testing.T) {
	run := t.TempDir()
	w := &Workspace{project: run, root: run, runDir: run}
	box := func() sandbox.Layout {
		t.Helper()
		l, err := w.Box("host", "job", "")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	own := func(e fs.DirEntry) bool { return strings.HasPrefix(e.Name(), "own") }
	first := box()
	outside := filepath.Join(run, "outside")
	tree(t, run, map[string]string{"outside": "precious"})
	tree(t, first.Temp, map[string]string{"own-plain": "1", "other": "2", "dir/own": "3"})
	for _, err := range []error{
		os.Link(outside, filepath.Join(first.Temp, "own-hard")),
		os.Symlink(outside, filepath.Join(first.Temp, "own-soft")),
		os.Mkdir(filepath.Join(first.Temp, "own-dir"), 0o755),
		os.Mkdir(filepath.Join(first.Temp, "own-closed-dir"), 0o500),
		os.MkdirAll(filepath.Join(first.Temp, "own-full-dir/in"), 0o755),
		os.WriteFile(filepath.Join(first.Temp, "own-closed"), nil, 0o400),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	second := box()
	if err := os.Chmod(first.Temp, 0o750); err != nil {
		t.Fatal(err)
	}
	w.Reuse(first, own)
	third := box()
	if third.Temp != first.Temp || third.Temp == second.Temp {
		t.Errorf("temp directories: %s, %s, %s", first.Temp, second.Temp, third.Temp)
	}
	if st, err := os.Stat(third.Temp); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the reused one: %v, %v", st.Mode(), err)
	}
	if diff := cmp.Diff(map[string]string{"own-plain": "1"}, listing(t, third.Temp)); diff != "" {
		t.Errorf("in the reused one (-want +got):\n%s", diff)
	}
	if dirs, _ := filepath.Glob(filepath.Join(third.Temp, "*dir*")); len(dirs) != 1 || filepath.Base(dirs[0]) != "own-dir" {
		t.Errorf("directories in the reused one: %q", dirs)
	}
	if b, _ := os.ReadFile(outside); string(b) != "precious" {
		t.Errorf("outside: %q", b)
	}
}

// TestHostTempThatBecameALink: what a link leads to is not emptied.
func TestHostTempThatBecameALink(t *testing.T) {
	run := t.TempDir()
	w := &Workspace{project: run, root: run, runDir: run}
	l, err := w.Box("host", "job", "")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := filepath.Join(run, "elsewhere")
	tree(t, elsewhere, map[string]string{"precious": "1"})
	if err := errors.Join(os.RemoveAll(l.Temp), os.Symlink(elsewhere, l.Temp)); err != nil {
		t.Fatal(err)
	}
	w.Reuse(l, func(fs.DirEntry) bool { return false })
	if diff := cmp.Diff(map[string]string{"precious": "1"}, listing(t, elsewhere)); diff != "" {
		t.Errorf("where the link leads (-want +got):\n%s", diff)
	}
	if next, err := w.Box("host", "job", ""); err != nil || next.Temp == l.Temp {
		t.Errorf("the next one: %s, %v", next.Temp, err)
	}
}

// A nested repository that nobody touched stays as it is, without a word.
func TestBringBackOfAnUntouchedNestedRepository(t *testing.T) {
	project, clone, m := cloned(t, map[string]string{"sub/.git/config": "own", "sub/f": "1"})
	rep, err := m.bringBack(clone, project)
	if err != nil || len(rep.Notices) > 0 || len(rep.Changed) > 0 {
		t.Errorf("got %+v, %v", rep, err)
	}
	if err := os.Remove(filepath.Join(clone, "sub/.git/config")); err != nil {
		t.Fatal(err)
	}
	rep, err = m.bringBack(clone, project)
	if err != nil || len(rep.Notices) != 1 || len(rep.Changed) > 0 {
		t.Errorf("after a change: %+v, %v", rep, err)
	}
}

// Git in a host step that works in the clone is the project's own.
func TestGitOfTheClone(t *testing.T) {
	project := t.TempDir()
	git(t, project, "init", "-q")
	tree(t, project, map[string]string{"f": "1"})
	git(t, project, "add", "f")
	git(t, project, "commit", "-qm", "one")
	clone := filepath.Join(t.TempDir(), "clone")
	if _, err := stage(project, clone, os.Getuid(), os.Getgid()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, "f"), []byte("22"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := git(t, clone, "status", "--porcelain"); !strings.HasPrefix(out, " M f\n") {
		t.Errorf("status in the clone: %q", out)
	}
}

// The copy of a project that its boxes had stays where it is asked for, of the
// newest runs, and is nothing that a killed run has left.
func TestKeptCopies(t *testing.T) {
	project := t.TempDir()
	git(t, project, "init", "-q")
	tree(t, project, map[string]string{"f": "x"})
	runs := filepath.Join(project, ".herd", "runs")
	for n := range keptRuns + 2 {
		run := filepath.Join(runs, fmt.Sprintf("run-%d", n))
		if err := os.MkdirAll(run, 0o755); err != nil {
			t.Fatal(err)
		}
		w, err := Open(Options{Project: project, RunDir: run, Boxes: true, Apart: true, Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Box("shared", "job", ""); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	if notices, err := Sweep(runs, func(string) bool { return true }); err != nil || len(notices) > 0 {
		t.Errorf("sweep: %v, %v", notices, err)
	}
	for n := range keptRuns + 2 {
		run := filepath.Join(runs, fmt.Sprintf("run-%d", n))
		kept := n >= 2
		for _, name := range []string{"workspace/f", "git/HEAD"} {
			if _, err := os.Stat(filepath.Join(run, name)); (err == nil) != kept {
				t.Errorf("run-%d: %s: %v", n, name, err)
			}
		}
		if isDir(filepath.Join(run, "boxes")) {
			t.Errorf("run-%d: its boxes' directories are left", n)
		}
	}
}
