package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// newRun makes a repository with a first commit and a run in it.
func newRun(t *testing.T, files map[string]string) (project string, w *Workspace) {
	t.Helper()
	project = t.TempDir()
	tree(t, project, files)
	git(t, project, "init", "-q", "-b", "main")
	git(t, project, "add", "-A")
	git(t, project, "commit", "-qm", "first")
	return project, openRun(t, project, "run-1")
}

func openRun(t *testing.T, project, id string) *Workspace {
	t.Helper()
	run := filepath.Join(project, ".herd", "runs", id)
	tree(t, project, map[string]string{".herd/.gitignore": "*\n"})
	if err := os.MkdirAll(run, 0o755); err != nil {
		t.Fatal(err)
	}
	w, err := Open(Options{Project: project, RunDir: run, Now: func() time.Time { return time.Unix(1_000_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func isolate(t *testing.T, w *Workspace, name string, merge ...Work) *Clone {
	t.Helper()
	c, err := w.Clone(t.Context(), CloneOptions{Mode: Isolated, Name: name, Merge: merge})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Box(true, name, ""); err != nil {
		t.Fatal(err)
	}
	return c
}

// onHost runs the command of a bundle in the clone, as steps without a box do.
func onHost(c *Clone) BundleCommand {
	return func(ctx context.Context, argv []string, stdout io.Writer) error {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Dir, cmd.Stdout = c.Root(), stdout
		out := &strings.Builder{}
		cmd.Stderr = out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

func finish(t *testing.T, c *Clone) Work {
	t.Helper()
	work, err := c.Finish(t.Context(), onHost(c))
	if err != nil {
		t.Fatal(err)
	}
	return work
}

// FR-007: commits and uncommitted files of a clone come back as a branch; the
// person's work tree, index, HEAD and uncommitted changes stay as they are.
func TestIsolated(t *testing.T) {
	project, w := newRun(t, map[string]string{"a.txt": "one\n", "gone.txt": "g\n", "sub/b.txt": "two\n", ".gitignore": "*.log\n", "run.sh": "#!/bin/sh\n"})
	tree(t, project, map[string]string{"mine.txt": "not committed\n", "debug.log": "ignored\n"})
	if err := os.WriteFile(filepath.Join(project, "a.txt"), []byte("one, changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	status := git(t, project, "status", "--porcelain")
	c := isolate(t, w, "fix (a.txt)")
	if diff := cmp.Diff(map[string]string{"a.txt": "one, changed\n", "gone.txt": "g\n", "sub/b.txt": "two\n", ".gitignore": "*.log\n", "run.sh": "#!/bin/sh\n", "mine.txt": "not committed\n"},
		withoutGit(listing(t, c.Root()))); diff != "" {
		t.Fatalf("clone (-want +got):\n%s", diff)
	}
	if out := git(t, c.Root(), "status", "--porcelain", "--branch"); out != "## herd/run-1/fix-a.txt\n" {
		t.Errorf("status in the clone: %q", out)
	}
	mark, err := c.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tree(t, c.Root(), map[string]string{"new\nline": "n\n", "-rf": "dash\n", "made.log": "ignored\n", "link": "-> sub/b.txt"})
	git(t, c.Root(), "add", "-A")
	git(t, c.Root(), "commit", "-qm", "from the clone")
	for _, err := range []error{
		os.WriteFile(filepath.Join(c.Root(), "sub/b.txt"), []byte("left uncommitted\n"), 0o644),
		os.Remove(filepath.Join(c.Root(), "gone.txt")), os.Chmod(filepath.Join(c.Root(), "run.sh"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	since, err := c.Since(t.Context(), mark)
	if err != nil {
		t.Fatal(err)
	}
	changed := []string{"-rf", "gone.txt", "link", "new\nline", "run.sh", "sub/b.txt"}
	if diff := cmp.Diff(changed, since.Changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	work := finish(t, c)
	if diff := cmp.Diff(changed, work.Changed); diff != "" || len(work.Notices) > 0 {
		t.Errorf("changed (-want +got):\n%s\nnotices %q", diff, work.Notices)
	}
	if work.Patch != since.Patch || !strings.Contains(work.Patch, "+left uncommitted\n") || strings.Contains(work.Patch, "one, changed") {
		t.Errorf("patch:\n%s", work.Patch)
	}
	if work.Branch != "herd/run-1/fix-a.txt" {
		t.Errorf("branch %q", work.Branch)
	}
	if out := git(t, project, "log", "--format=%s", work.Branch); out != "Work of fix (a.txt)\nfrom the clone\nUncommitted changes of the project\nfirst\n" {
		t.Errorf("log of the branch: %q", out)
	}
	if out := git(t, project, "ls-tree", work.Branch, "run.sh", "link"); !strings.Contains(out, "100755") || !strings.Contains(out, "120000") {
		t.Errorf("modes: %s", out)
	}
	if out := git(t, project, "status", "--porcelain"); out != status {
		t.Errorf("the person's status was %q and is %q", status, out)
	}
	if out := git(t, project, "rev-parse", "--abbrev-ref", "HEAD"); out != "main\n" {
		t.Errorf("the person is on %q", out)
	}
	if err := c.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(project, ".herd/workspaces")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	git(t, project, "fsck", "--strict")
}

func withoutGit(files map[string]string) map[string]string {
	delete(files, ".git")
	return files
}

// A clone in which nothing was done comes back as nothing.
func TestIsolatedWithoutChanges(t *testing.T) {
	project, w := newRun(t, map[string]string{"a.txt": "one\n"})
	tree(t, project, map[string]string{"mine.txt": "mine\n"})
	c := isolate(t, w, "look")
	if work := finish(t, c); work.Branch != "" || work.Patch != "" || len(work.Changed) > 0 {
		t.Errorf("work: %+v", work)
	}
	if out := git(t, project, "branch"); out != "* main\n" {
		t.Errorf("branches: %q", out)
	}
}

// The same state gives the same base, so that the work of two clones merges.
func TestMerge(t *testing.T) {
	project, w := newRun(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", "c.txt": "1\n2\n3\n4\n5\n6\n7\n8\n"})
	tree(t, project, map[string]string{"mine.txt": "mine\n"})
	edit := func(c *Clone, name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.Root(), name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	one, two, three := isolate(t, w, "fix (1)"), isolate(t, w, "fix (2)"), isolate(t, w, "other")
	edit(one, "a.txt", "a1\n")
	edit(one, "c.txt", "one\n2\n3\n4\n5\n6\n7\n8\n")
	edit(two, "b.txt", "b2\n")
	edit(two, "c.txt", "1\n2\n3\n4\n5\n6\n7\ntwo\n")
	edit(three, "a.txt", "a3\n")
	works := []Work{finish(t, one), finish(t, two)}
	merged := isolate(t, w, "join", works...)
	want := map[string]string{"a.txt": "a1\n", "b.txt": "b2\n", "c.txt": "one\n2\n3\n4\n5\n6\n7\ntwo\n", "mine.txt": "mine\n"}
	if diff := cmp.Diff(want, withoutGit(listing(t, merged.Root()))); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if out := git(t, merged.Root(), "status", "--porcelain"); out != "" {
		t.Errorf("status: %q", out)
	}
	work := finish(t, merged)
	if diff := cmp.Diff([]string{"a.txt", "b.txt", "c.txt"}, work.Changed); diff != "" || work.Branch == "" {
		t.Errorf("work of the merge: %q (-want +got):\n%s", work.Branch, diff)
	}
	_, err := w.Clone(t.Context(), CloneOptions{Mode: Isolated, Name: "all", Merge: append(works, finish(t, three))})
	var conflict *Conflict
	if !errors.As(err, &conflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if want := `"a.txt": fix (1) and other`; !strings.Contains(conflict.Message, want) || strings.Contains(conflict.Message, "b.txt") || !strings.Contains(conflict.Hint, "herd/run-1/other") {
		t.Errorf("conflict: %s\nhint: %s", conflict.Message, conflict.Hint)
	}
	if _, err := os.Stat(filepath.Join(w.clones, "all")); !os.IsNotExist(err) {
		t.Errorf("the clone that could not be made is there: %v", err)
	}
}

// THREATS 16, 17: the final tree is judged file by file.
// THREATS 15.
func TestWhatAClonesTreeMayHold(t *testing.T) {
	_, w := newRun(t, map[string]string{"a.txt": "a\n", "dir/f": "f\n", "Case": "c\n", ".github/workflows/ci.yml": "on: push\n"})
	c := isolate(t, w, "evil")
	outside := t.TempDir()
	tree(t, outside, map[string]string{"precious": "p\n"})
	if err := os.RemoveAll(filepath.Join(c.Root(), "dir")); err != nil {
		t.Fatal(err)
	}
	tree(t, c.Root(), map[string]string{
		"good": "g\n", "shadow": "-> /etc/shadow", "up": "-> ../../x", "dir": "-> " + outside, "into-git": "-> .git/config",
		"nested/.git/config": "evil\n", "nested/ok": "o\n", ".GIT/config": "evil\n", "g/.g\u200cit/hooks/x": "evil\n", "git~1/x": "evil\n",
		".gitmodules": "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=evil\n", "case": "twin\n", ".GitHub/workflows/x.yml": "on: push\n",
		"sub/.herd/x": "state\n", "sub/.gitattributes": "-> ../good", "bad\xffname": "u\n", "big/.git": "gitdir: /tmp\n",
	})
	if err := syscall.Mkfifo(filepath.Join(c.Root(), "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(outside, "precious"), filepath.Join(c.Root(), "hard")); err != nil {
		t.Fatal(err)
	}
	huge, err := os.Create(filepath.Join(c.Root(), "huge"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(huge.Truncate(1<<40), huge.Close()); err != nil {
		t.Fatal(err)
	}
	work := finish(t, c)
	want := []string{"bad\xffname", "dir/f", "good", "hard", "nested/ok"}
	if diff := cmp.Diff(want, work.Changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	notices := strings.Join(work.Notices, "\n")
	for _, name := range []string{"shadow", "up", "dir", "into-git", "nested/.git", ".GIT", "g/.g\u200cit", "git~1", ".gitmodules", ".GitHub/workflows/x.yml", "sub/.herd/x", "sub/.gitattributes", "big/.git", "pipe", "huge"} {
		if !strings.Contains(notices, fmt.Sprintf("%q was not brought back", name)) {
			t.Errorf("no notice for %q", name)
		}
	}
	if !strings.Contains(notices, "some file systems take it for") {
		t.Errorf("no notice for the twins:\n%s", notices)
	}
}

// THREATS 16: git would wait for ever for a .gitignore that is a pipe.
func TestPipeAsIgnoreFile(t *testing.T) {
	_, w := newRun(t, map[string]string{"a.txt": "a\n"})
	c := isolate(t, w, "evil")
	tree(t, c.Root(), map[string]string{"sub/new": "n\n"})
	if err := syscall.Mkfifo(filepath.Join(c.Root(), "sub/.gitignore"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Finish(t.Context(), onHost(c)); err == nil || !strings.Contains(err.Error(), "sub/.gitignore") {
		t.Errorf("got %v", err)
	}
}

// THREATS 15, 16: commits with what must not come out stay in the clone; its
// files come back without them.
func TestCommitsThatAreRefused(t *testing.T) {
	for _, x := range []struct {
		name, want string
		evil       func(t *testing.T, dir string)
	}{
		{"link out", "leads out of the project", func(t *testing.T, dir string) {
			tree(t, dir, map[string]string{"shadow": "-> /etc/shadow"})
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-qm", "link")
			git(t, dir, "rm", "-q", "shadow")
			git(t, dir, "commit", "-qm", "gone again")
		}},
		{"submodule", "submodules are not brought back", func(t *testing.T, dir string) {
			git(t, dir, "update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",sub")
			git(t, dir, "commit", "-qm", "sub")
		}},
		{".gitmodules", "submodules are not brought back", func(t *testing.T, dir string) {
			tree(t, dir, map[string]string{".gitmodules": "[submodule \"a\"]\n\tpath = a\n\turl = https://example.com/a\n"})
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-qm", "modules")
		}},
		{"path in .git", "hasDotgit", func(t *testing.T, dir string) {
			commitTree(t, dir, "40000 .git", "100755 hooks")
		}},
		{"path up", "hasDotdot", func(t *testing.T, dir string) {
			commitTree(t, dir, "40000 ..", "100644 x")
		}},
		{"path with a slash", "fullPathname", func(t *testing.T, dir string) {
			commitTree(t, dir, "100644 a/../../x", "")
		}},
		{"hooks of another spelling", "git", func(t *testing.T, dir string) {
			commitTree(t, dir, "40000 .GiT", "100755 hooks")
		}},
		{"no HEAD", "git bundle: ", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(strings.TrimSpace(git(t, dir, "rev-parse", "--absolute-git-dir")), "HEAD")); err != nil {
				t.Fatal(err)
			}
		}},
		{"twins", "some file systems take it for", func(t *testing.T, dir string) {
			tree(t, dir, map[string]string{"A.txt": "twin\n"})
			git(t, dir, "add", "-A")
			git(t, dir, "commit", "-qm", "twins")
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			project, w := newRun(t, map[string]string{"a.txt": "a\n"})
			c := isolate(t, w, "evil")
			tree(t, c.Root(), map[string]string{"good": "g\n"})
			git(t, c.Root(), "add", "good")
			git(t, c.Root(), "commit", "-qm", "good")
			x.evil(t, c.Root())
			work := finish(t, c)
			if notices := strings.Join(work.Notices, "\n"); !strings.Contains(notices, "commits of evil were not brought back") || !strings.Contains(notices, x.want) {
				t.Errorf("notices:\n%s", notices)
			}
			if out := git(t, project, "log", "--format=%s", work.Branch); out != "Work of evil\nfirst\n" {
				t.Errorf("log: %q", out)
			}
			if !slices.Contains(work.Changed, "good") {
				t.Errorf("changed: %q", work.Changed)
			}
			git(t, project, "fsck", "--strict")
		})
	}
}

// commitTree commits a tree with one entry by hand; with below, the entry is a
// tree with that entry.
func commitTree(t *testing.T, dir, entry, below string) {
	t.Helper()
	blob := hash(t, dir, "blob", "#!/bin/sh\n")
	content := func(entry, id string) string {
		raw := make([]byte, len(id)/2)
		if _, err := fmt.Sscanf(id, "%x", &raw); err != nil {
			t.Fatal(err)
		}
		return entry + "\x00" + string(raw)
	}
	id := blob
	if below != "" {
		id = hash(t, dir, "tree", content(below, blob))
	}
	root := hash(t, dir, "tree", content(entry, id))
	commit := strings.TrimSpace(git(t, dir, "commit-tree", "-p", "HEAD", "-m", "evil", root))
	git(t, dir, "update-ref", "HEAD", commit)
}

func hash(t *testing.T, dir, kind, content string) string {
	t.Helper()
	cmd := exec.Command("git", "-C", dir, "-c", "safe.directory=*", "hash-object", "-t", kind, "-w", "--stdin", "--literally")
	cmd.Stdin = strings.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// THREATS 16: a bundle is HEAD and nothing else, and not without end.
func TestBundles(t *testing.T) {
	for content, want := range map[string]string{
		"":                        "no bundle",
		"# v2 git bundle\n":       "",
		"# v2 git bundle\n\nPACK": "no HEAD",
		"# v2 git bundle\n" + strings.Repeat("1", 40) + " refs/heads/main\n\n":                                              "beside HEAD",
		"# v2 git bundle\n" + strings.Repeat("1", 40) + " ../../hooks/x\n\n":                                                "beside HEAD",
		"# v2 git bundle\n" + strings.Repeat("1", 40) + " HEAD\n" + strings.Repeat("1", 40) + " HEAD\n\n":                   "beside HEAD",
		"# v3 git bundle\n@filter=blob:none\n" + strings.Repeat("1", 40) + " HEAD\n\n":                                      "asks for",
		"# v2 git bundle\n-" + strings.Repeat("2", 40) + " msg\n" + strings.Repeat("1", 40) + " HEAD\n\nPACK is not a pack": "",
	} {
		_, w := newRun(t, map[string]string{"a.txt": "a\n"})
		c := isolate(t, w, "evil")
		tree(t, c.Root(), map[string]string{"good": "g\n"})
		git(t, c.Root(), "commit", "--allow-empty", "-qm", "something")
		work, err := c.Finish(t.Context(), func(_ context.Context, _ []string, stdout io.Writer) error {
			_, err := io.WriteString(stdout, content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if notices := strings.Join(work.Notices, "\n"); !strings.Contains(notices, "commits of evil were not brought back") || !strings.Contains(notices, want) {
			t.Errorf("%q: notices %q, want %q", content, notices, want)
		}
		if work.Branch == "" {
			t.Errorf("%q: the files did not come back", content)
		}
	}
	out := &limited{w: io.Discard, left: 10}
	for range 3 {
		if n, err := out.Write([]byte("12345")); n != 5 || err != nil {
			t.Errorf("write: %d, %v", n, err)
		}
	}
	if out.left >= 0 {
		t.Errorf("15 bytes fit into 10: %d left", out.left)
	}
}

// THREATS 15: what a step writes into the clone's .git plays no part on this
// machine; not even the path to its HEAD is followed.
func TestGitOfACloneIsNotObeyed(t *testing.T) {
	project, w := newRun(t, map[string]string{"a.txt": "a\n"})
	c := isolate(t, w, "evil")
	witness := filepath.Join(t.TempDir(), "pwned")
	evil := "#!/bin/sh\necho pwned >" + witness + "\n"
	tree(t, c.Root(), map[string]string{"evil.sh": evil, "new": "n\n", ".gitattributes": "* filter=x diff=x merge=x\n"})
	if err := os.Chmod(filepath.Join(c.Root(), "evil.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	sh := filepath.Join(c.Root(), "evil.sh")
	config := fmt.Sprintf("[core]\n\tfsmonitor = %[1]s\n\tsshCommand = %[1]s\n\thooksPath = %[2]s\n[filter \"x\"]\n\tclean = %[1]s\n\tsmudge = %[1]s\n\trequired = true\n[diff \"x\"]\n\tcommand = %[1]s\n\ttextconv = %[1]s\n[include]\n\tpath = %[2]s/more\n[core]\n\talternateRefsCommand = %[1]s\n[uploadpack]\n\tpackObjectsHook = %[1]s\n", sh, c.Root())
	tree(t, c.gitDir(), map[string]string{"hooks/reference-transaction": evil, "hooks/post-checkout": evil, "config.worktree": config, "commondir": project + "/.git\n"})
	if err := os.WriteFile(filepath.Join(c.gitDir(), "config"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	secret := t.TempDir()
	if err := os.WriteFile(filepath.Join(c.gitDir(), "objects/info/alternates"), []byte(secret+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	head := filepath.Join(c.gitDir(), "HEAD")
	if err := errors.Join(os.Remove(head), os.Symlink("/etc/hostname", head)); err != nil {
		t.Fatal(err)
	}
	work, err := c.Finish(t.Context(), func(context.Context, []string, io.Writer) error { return errors.New("HEAD is a link") })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{".gitattributes", "evil.sh", "new"}, work.Changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	if _, err := os.Lstat(witness); !os.IsNotExist(err) {
		t.Errorf("a program of the clone ran: %v", err)
	}
}

// A retry finds what was there when the step began, in files, commits and
// ignored files alike.
func TestReset(t *testing.T) {
	for _, mode := range []string{Isolated, Copy} {
		t.Run(mode, func(t *testing.T) {
			project, w := newRun(t, map[string]string{"a.txt": "a\n", "b.txt": "b\n", ".gitignore": "cache\n"})
			c, err := w.Clone(t.Context(), CloneOptions{Mode: mode, Name: "fix"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Box(true, "fix", ""); err != nil {
				t.Fatal(err)
			}
			tree(t, c.Root(), map[string]string{"before.txt": "x\n", "cache": "c\n"})
			git(t, c.Root(), "add", "before.txt")
			git(t, c.Root(), "commit", "-qm", "before")
			if err := c.Save(); err != nil {
				t.Fatal(err)
			}
			want, log := listing(t, c.Root()), git(t, c.Root(), "log", "--format=%s")
			for range 2 {
				tree(t, c.Root(), map[string]string{"half.txt": "h\n"})
				git(t, c.Root(), "rm", "-qr", "b.txt", "--cached")
				git(t, c.Root(), "commit", "-qm", "half")
				for _, name := range []string{"a.txt", "cache", ".git"} {
					if err := os.Remove(filepath.Join(c.Root(), name)); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.Reset(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, listing(t, c.Root())); diff != "" {
					t.Fatalf("after the reset (-want +got):\n%s", diff)
				}
				if got := git(t, c.Root(), "log", "--format=%s"); got != log {
					t.Errorf("log %q, want %q", got, log)
				}
			}
			work := finish(t, c)
			if mode == Isolated && !slices.Equal(work.Changed, []string{"before.txt"}) {
				t.Errorf("changed %q", work.Changed)
			}
			if out := git(t, project, "log", "--all", "--format=%s"); mode == Copy && out != "first\n" {
				t.Errorf("the project's log is %q", out)
			}
		})
	}
}

// DOCKER-02: a copy has everything but .herd, and works where there is no git.
func TestCopy(t *testing.T) {
	project := t.TempDir()
	tree(t, project, map[string]string{"a.txt": "a\n", "node_modules/x": "x\n", "link": "-> a.txt", ".herd/secret": "s\n"})
	sparse, err := os.Create(filepath.Join(project, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sparse.WriteAt([]byte("end"), 1<<30); err != nil {
		t.Fatal(err)
	}
	sparse.Close()
	if err := os.Link(filepath.Join(project, "a.txt"), filepath.Join(project, "hard")); err != nil {
		t.Fatal(err)
	}
	w := openRun(t, project, "run-1")
	c, err := w.Clone(t.Context(), CloneOptions{Mode: Copy, Name: "try"})
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(c.Root(), "sparse"))
	if err != nil || st.Size() != 1<<30+3 || allocated(st) > 1<<20 {
		t.Errorf("the sparse file takes %d bytes on disk, %v", allocated(st), err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(c.Root(), "hard"), []byte("changed\n"), 0o644), os.Remove(filepath.Join(c.Root(), "sparse"))); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a.txt": "a\n", "node_modules/x": "x\n", "link": "-> a.txt", "hard": "changed\n"}
	if diff := cmp.Diff(want, listing(t, c.Root())); diff != "" {
		t.Errorf("copy (-want +got):\n%s", diff)
	}
	if b, _ := os.ReadFile(filepath.Join(project, "a.txt")); string(b) != "a\n" {
		t.Errorf("a write to the copy reached the project: %q", b)
	}
	if work := finish(t, c); work.Branch != "" {
		t.Errorf("a copy came back: %+v", work)
	}
	if _, err := w.Clone(t.Context(), CloneOptions{Mode: Isolated, Name: "no"}); err == nil || !strings.Contains(err.Error(), "git init") {
		t.Errorf("isolated without a repository: %v", err)
	}
}

// Kinds of repositories: without a commit, shallow, linked, with a submodule,
// with changes in the index alone.
func TestKindsOfRepositories(t *testing.T) {
	source, _ := newRun(t, map[string]string{"a.txt": "a\n"})
	git(t, source, "commit", "--allow-empty", "-qm", "second")
	for name, make := range map[string]func(dir string){
		"unborn":  func(dir string) { git(t, dir, "init", "-q"); tree(t, dir, map[string]string{"a.txt": "a\n"}) },
		"shallow": func(dir string) { git(t, dir, "clone", "-q", "--depth=1", "file://"+source, ".") },
		"borrows": func(dir string) { git(t, dir, "clone", "-q", "--shared", source, ".") },
		"linked": func(dir string) {
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
			git(t, source, "worktree", "add", "-q", "--detach", dir)
		},
		"submodule": func(dir string) {
			git(t, dir, "clone", "-q", source, ".")
			git(t, dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "sub")
			git(t, dir, "commit", "-qm", "sub")
		},
		"staged": func(dir string) {
			git(t, dir, "clone", "-q", source, ".")
			tree(t, dir, map[string]string{"staged": "s\n"})
			git(t, dir, "add", "staged")
		},
		"sha256": func(dir string) {
			git(t, dir, "init", "-q", "--object-format=sha256")
			tree(t, dir, map[string]string{"a.txt": "a\n"})
			git(t, dir, "add", "a.txt")
			git(t, dir, "commit", "-qm", "first")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "project")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			make(dir)
			w := openRun(t, dir, "run-1")
			c := isolate(t, w, "fix")
			if out := git(t, c.Root(), "status", "--porcelain"); out != "" {
				t.Errorf("status in the clone: %q", out)
			}
			tree(t, c.Root(), map[string]string{"new": "n\n"})
			git(t, c.Root(), "add", "new")
			git(t, c.Root(), "commit", "-qm", "in the clone")
			work := finish(t, c)
			if len(work.Notices) > 0 || !slices.Equal(work.Changed, []string{"new"}) {
				t.Errorf("work: %+v", work)
			}
			if out := git(t, dir, "log", "-1", "--format=%s", work.Branch); out != "in the clone\n" {
				t.Errorf("log: %q", out)
			}
			git(t, dir, "fsck")
		})
	}
}

// Two names that come to one have two directories and branches.
func TestSlugs(t *testing.T) {
	w := &Workspace{}
	var got []string
	for _, name := range []string{"fix (a.txt)", "fix (A.TXT)", "..", "a/../b.lock", "x / y", "ümläut", strings.Repeat("x", 200), "store.git"} {
		got = append(got, w.slug(name))
	}
	want := []string{"fix-a.txt", "fix-A.TXT-2", "job", "a-b", "x-y", "ml-ut", strings.Repeat("x", 80), "store.git-2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slugs (-want +got):\n%s", diff)
	}
}

// THREATS 13: the clones of killed runs go; those of live ones, and those that
// were kept, stay. Of kept ones only the newest stay.
func TestClonesOfOtherRuns(t *testing.T) {
	project := t.TempDir()
	clones := filepath.Join(project, ".herd", clonesDir)
	tree(t, clones, map[string]string{"dead/a/tree/f": "x", "alive/a/tree/f": "x", "kept/kept": "", "kept/a/tree/f": "x"})
	if _, err := Sweep(filepath.Join(project, ".herd", "runs"), func(id string) bool { return id != "alive" }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"alive/a/tree/f": "x", "kept/kept": "", "kept/a/tree/f": "x"}, listing(t, clones)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	for n := range keptRuns + 2 {
		run := filepath.Join(project, ".herd", "runs", fmt.Sprintf("run-%d", n))
		if err := os.MkdirAll(run, 0o755); err != nil {
			t.Fatal(err)
		}
		w, err := Open(Options{Project: project, RunDir: run, Keep: true})
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Clone(t.Context(), CloneOptions{Mode: Copy, Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Remove(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(clones, "run-*", "a", "tree"))
	if err != nil || len(kept) != keptRuns || !strings.Contains(kept[0], "run-2") {
		t.Errorf("kept: %v, %v", kept, err)
	}
}
