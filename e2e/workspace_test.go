package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// evilGit tries everything in .git that the person's git would run or obey.
const evilGit = `
          set +e; exec 2>/dev/null
          evil='#!/bin/sh
          echo pwned >/tmp/herd-e2e-pwned'
          for hook in pre-commit post-checkout post-commit reference-transaction fsmonitor; do
            printf '%s\n' "$evil" >.git/hooks/$hook; chmod +x .git/hooks/$hook
          done
          git config core.fsmonitor "$PWD/evil.sh"
          git config core.hooksPath "$PWD"
          git config core.sshCommand "$PWD/evil.sh"
          git config filter.x.smudge "$PWD/evil.sh"
          git config include.path "$PWD/evil.cfg"
          echo /workspace >.git/commondir
          mkdir -p .git/objects/info && echo /tmp >>.git/objects/info/alternates
          mv .git moved.git; mkdir .git; rm -rf .git; ln -s /tmp .git
          printf '%s\n' "$evil" >evil.sh; chmod +x evil.sh
          echo 'gitdir: /tmp' >.git
          true
`

// TestRealGitIsOutOfReach compares the person's .git before and after a step
// that did its worst, while git works in the box as it should.
// THREATS 15.
func TestRealGitIsOutOfReach(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newRepository(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n"})
	before := tree(t, filepath.Join(dir, ".git"))
	r := m.run(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  ordinary:
    steps:
      - id: git
        run: |
          git log --oneline --format=%s
          git status --porcelain
          echo three >c.txt
          git add c.txt
          git commit -q -m second
          git log -1 --format='committed %s'
          git diff --stat HEAD~1 | tail -1
      - id: evil
        run: |`+evilGit+`
      - id: moved
        run: test -e moved.git && echo moved || echo stays
`).wantCode(t, 0)
	for _, want := range []string{"first\n", "committed second\n", "1 file changed"} {
		if got := r.output("ordinary", "git"); !strings.Contains(got, want) {
			t.Errorf("git in the box does not say %q:\n%s", want, got)
		}
	}
	if got := r.output("ordinary", "moved"); got != "stays\n" {
		t.Errorf("the box's .git: %q", got)
	}
	wantSameTree(t, filepath.Join(dir, ".git"), before)
	if got := git(t, dir, "log", "--format=%s"); got != "first\n" {
		t.Errorf("the person's log is %q", got)
	}
	if got := git(t, dir, "status", "--porcelain"); !strings.Contains(got, "?? c.txt") {
		t.Errorf("the person's status does not show the step's file:\n%s", got)
	}
	m.wantNothingLeft(t, dir)
}

// TestNewGitStaysInTheBox: in a project that is no repository a step makes one,
// with a hook that the person's next git command would run.
// THREATS 15.
func TestNewGitStaysInTheBox(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for _, made := range []struct{ name, script string }{
		{"directory", "git init -q . && printf '#!/bin/sh\\ntrue\\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit"},
		{"file", "mkdir elsewhere && git -C elsewhere init -q . && { echo 'gitdir: elsewhere/.git' >.git || true; }"},
		{"link", "{ rmdir .git; mv .git x; ln -sT /tmp .git; } || true"},
	} {
		t.Run(made.name, func(t *testing.T) {
			dir := newProject(t, map[string]string{"a.txt": "one\n"})
			m.run(t, dir, `
on: workflow_dispatch
jobs:
  a:
    steps:
      - env: {SCRIPT: "`+strings.ReplaceAll(strings.ReplaceAll(made.script, `\`, `\\`), `"`, `\"`)+`"}
        run: eval "$SCRIPT"; echo work >work.txt
`).wantCode(t, 0)
			if _, err := os.Lstat(filepath.Join(dir, ".git")); !os.IsNotExist(err) {
				t.Errorf("the .git of the step is still there (%v)", err)
			}
			if got := read(t, filepath.Join(dir, "work.txt")); got != "work\n" {
				t.Errorf("the step's work is %q", got)
			}
			m.wantNothingLeft(t, dir)
		})
	}
}

// TestWhatABoxSees: .herd is empty in every box, a read-only workspace cannot
// be written, and neither can the runner.
// THREATS 17.
func TestWhatABoxSees(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newRepository(t, map[string]string{"a.txt": "one\n", ".herd/runs/old/journal.jsonl": "{}\n", ".herd/secret.txt": "s\n"})
	r := m.run(t, dir, `
on: workflow_dispatch
jobs:
  rw:
    steps:
      - id: look
        run: |
          echo "herd: $(ls -A .herd | wc -l)"
          { echo x >.herd/x; } 2>/dev/null && echo "written to .herd" || true
          { rmdir .herd || rm -rf .herd || mv .herd elsewhere; } 2>/dev/null || true; test -d .herd && echo "still masked"
          { echo x >/.herd-runner; } 2>/dev/null && echo "written to the runner" || true
          { echo x >/etc/x; } 2>/dev/null && echo "written to the root" || true
          echo "user $(id -u):$(id -g)"
          echo two >a.txt
  ro:
    needs: rw
    steps:
      - id: look
        workspace: ro
        run: |
          cat a.txt
          { echo three >a.txt; } 2>/dev/null && echo written || echo refused
          { rm a.txt; } 2>/dev/null && echo removed || echo refused
          { mv a.txt b.txt; } 2>/dev/null && echo moved || echo refused
          echo tmp >"$HOME/x" && echo tmp >"$RUNNER_TEMP/x" && echo home-and-temp
`).wantCode(t, 0)
	want := "herd: 0\nstill masked\nuser " + userGroup() + "\n"
	if got := r.output("rw", "look"); got != want {
		t.Errorf("in a read-write box: %q, want %q", got, want)
	}
	if got, want := r.output("ro", "look"), "two\nrefused\nrefused\nrefused\nhome-and-temp\n"; got != want {
		t.Errorf("in a read-only box: %q, want %q", got, want)
	}
	if got := read(t, filepath.Join(dir, "a.txt")); got != "two\n" {
		t.Errorf("a.txt is %q", got)
	}
	if got := read(t, filepath.Join(dir, ".herd/secret.txt")); got != "s\n" {
		t.Errorf(".herd/secret.txt is %q", got)
	}
	m.wantNothingLeft(t, dir)
}

func userGroup() string {
	if os.Getuid() == 0 {
		return "1000:1000"
	}
	st, ok := fileStat("/proc/self")
	if !ok {
		return "unknown"
	}
	return fmt.Sprintf("%d:%d", st.Uid, st.Gid)
}

// TestProjectOfAnOrdinaryUser is worked on in place, and what steps make is the
// user's own. Where the tests run as root, the runner is started as that user.
func TestProjectOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newRepository(t, map[string]string{"a.txt": "one\n"})
	if os.Getuid() == 0 {
		m.become(t)
		openTo(t, dir, m.state)
	}
	m.run(t, dir, `
on: workflow_dispatch
jobs:
  a:
    steps:
      - run: echo two >a.txt; mkdir sub; echo new >sub/new.txt; ls -ln
`).wantCode(t, 0)
	for name, want := range map[string]string{"a.txt": "two\n", "sub/new.txt": "new\n", ".herd/.gitignore": "*\n"} {
		if got := read(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if st, ok := fileStat(filepath.Join(dir, name)); !ok || int(st.Uid) != userID() {
			t.Errorf("%s belongs to %d, want %d", name, st.Uid, userID())
		}
	}
	m.wantNothingLeft(t, dir)
}

// become makes the machine's user an ordinary one who may use the engine.
func (m *machine) become(t *testing.T) {
	t.Helper()
	groups := "--clear-groups"
	if socket, ok := fileStat("/var/run/docker.sock"); ok {
		groups = fmt.Sprintf("--groups=%d", socket.Gid)
	}
	m.as = []string{"setpriv", fmt.Sprintf("--reuid=%d", ordinaryUser), fmt.Sprintf("--regid=%d", ordinaryUser), groups, "--inh-caps=-all", "--"}
}

// openTo lets the ordinary user reach dir, and makes state and HOME theirs.
func openTo(t *testing.T, dir, state string) {
	t.Helper()
	home := filepath.Dir(state)
	chownTree(t, home, ordinaryUser)
	for _, d := range []string{dir, home} {
		for d != filepath.Clean(os.TempDir()) && d != "/" {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
			d = filepath.Dir(d)
		}
	}
}

// TestProjectOfRoot is never worked on in place: boxes are nobody's root. The
// changes come back, what could reach out of the project does not.
func TestProjectOfRoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	if os.Getuid() != 0 {
		t.Log("only root has projects of root")
		return
	}
	dir := newRepository(t, map[string]string{"a.txt": "one\n", "gone.txt": "gone\n", "sub/b.txt": "two\n", "link-target.txt": "target\n"})
	chownTree(t, dir, 0)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "precious.txt"), "precious\n")
	before := tree(t, filepath.Join(dir, ".git"))
	start := time.Now()
	r := m.run(t, dir, `
on: workflow_dispatch
env: {OUTSIDE: "`+outside+`"}
jobs:
  a:
    steps:
      - id: work
        run: |
          id -u
          echo changed >a.txt; rm gone.txt; mkdir -p new/deep; echo new >new/deep/c.txt
          ln -s link-target.txt good-link
          git log --format=%s
      - id: evil
        run: |
          ln -s /etc/shadow shadow
          ln -s "$OUTSIDE" parent; rm -rf sub; ln -s "$OUTSIDE" sub
          ln -s ../../.. up
          rm link-target.txt; ln -s "$OUTSIDE/precious.txt" link-target.txt
          mkfifo pipe
          perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => "sock", Listen => 1) or die "socket: $!"'
          mkdir nested; git -C nested init -q .
          mkdir .GIT 2>/dev/null; echo x >.GIT/config 2>/dev/null || true
          mkdir -- -rf; echo dash >-rf/-x
          printf 'n' >"$(printf 'new\nline')"
          printf 'u' >"$(printf 'bad\377name')"
          ln a.txt hard.txt
`).wantCode(t, 0)
	if took := time.Since(start); took > time.Minute {
		t.Errorf("bringing back took %v", took)
	}
	if got := r.output("a", "work"); got != "1000\nfirst\n" {
		t.Errorf("the box said %q", got)
	}
	for name, want := range map[string]string{
		"a.txt": "changed\n", "new/deep/c.txt": "new\n", "good-link": "target\n", "link-target.txt": "target\n",
		"-rf/-x": "dash\n", "new\nline": "n", "hard.txt": "changed\n",
	} {
		if got := read(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"gone.txt", "shadow", "parent", "up", "pipe", "sock", "nested/.git", ".GIT"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s is in the project (%v)", name, err)
		}
	}
	if st, err := os.Lstat(filepath.Join(dir, "sub")); err == nil && st.Mode()&fs.ModeSymlink != 0 {
		t.Error("sub became a link out of the project")
	}
	if got := read(t, filepath.Join(outside, "precious.txt")); got != "precious\n" {
		t.Errorf("a file outside the project is %q now", got)
	}
	if st, ok := fileStat(filepath.Join(dir, "a.txt")); !ok || st.Uid != 0 {
		t.Errorf("a.txt belongs to %d now", st.Uid)
	}
	for _, name := range []string{"shadow", "parent", "up", "pipe", "sock", ".GIT"} {
		if !strings.Contains(r.stdout, `\"`+name+`\" was not brought back`) {
			t.Errorf("nobody was told that %s was left out", name)
		}
	}
	wantSameTree(t, filepath.Join(dir, ".git"), before)
	if left := m.engine.boxes(t, m.state); len(left) > 0 {
		t.Errorf("%d containers are left", len(left))
	}
}

// tree is everything under dir by name: its kind and, of files, what is in them.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found[name] = d.Type().String()
		if d.Type().IsRegular() {
			found[name] += " " + read(t, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func wantSameTree(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := tree(t, dir)
	for name, content := range after {
		if old, ok := before[name]; !ok || old != content {
			t.Errorf("%s is new or changed", name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			t.Errorf("%s is gone", name)
		}
	}
}

func fileStat(name string) (*syscall.Stat_t, bool) {
	st, err := os.Lstat(name)
	if err != nil {
		return &syscall.Stat_t{}, false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return sys, ok
}
