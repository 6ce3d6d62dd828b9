package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FR-007, THREATS 15, 16: git works in isolated workspaces, also where a step
// does its worst to the clone's .git; what comes back is a checked branch, and
// the person's files, index and configuration stay as they are. Once for a
// project of an ordinary user, once for one of root.
// THREATS 17.
func TestIsolatedWorkspaces(t *testing.T) {
	t.Parallel()
	eachOwner(t, func(t *testing.T, owner int) {
		m := newMachine(t)
		dir := newRepository(t, map[string]string{"a.txt": "one\n", "b.txt": "two\n"})
		write(t, filepath.Join(dir, "mine.txt"), "mine\n")
		if os.Getuid() == 0 {
			chownTree(t, dir, owner)
		}
		config := read(t, filepath.Join(dir, ".git/config"))
		r := m.run(t, dir, `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  fix:
    strategy: {matrix: {name: [a, b]}}
    workspace: isolated
    steps:
      - id: work
        env: {NAME: "${{ matrix.name }}"}
        run: |
          git status --short
          echo "$NAME fixed" >$NAME.txt
          git commit -qam "fix $NAME"
          cat mine.txt; id -u
      - id: again
        run: git log --format=%s -1
  evil:
    workspace: isolated
    steps:
      - id: evil
        run: |
          echo good >good.txt
          ln -s /etc/shadow shadow; mkfifo pipe; ln -s /tmp up; mkdir -- -rf; echo dash >-rf/-x
          printf n >"$(printf 'new\nline')"; truncate -s 1T huge
          git add good.txt shadow && git commit -qm evil
      - id: git
        run: |`+evilGit+`
  join:
    needs: fix
    workspace: {mode: isolated, merge: fix}
    steps:
      - id: look
        run: cat a.txt b.txt; git status --short
  scratch:
    workspace: copy
    steps:
      - id: spoil
        run: rm -rf a.txt b.txt; git commit -qam gone; ls -A
`).wantCode(t, 0)
		for _, leg := range []string{"a", "b"} {
			if got, want := r.output("fix ("+leg+")", "work"), "mine\n1000\n"; got != want {
				t.Errorf("leg %s said %q, want %q", leg, got, want)
			}
			if got := r.output("fix ("+leg+")", "again"); got != "fix "+leg+"\n" {
				t.Errorf("the second step of leg %s sees the commit %q", leg, got)
			}
		}
		if got := r.output("join", "look"); got != "a fixed\nb fixed\n" {
			t.Errorf("the merge is %q", got)
		}
		run := r.runID(t)
		if got := git(t, dir, "log", "--format=%s", "--topo-order", "herd/"+run+"/join"); !strings.Contains(got, "fix a\n") || !strings.Contains(got, "fix b\n") || !strings.Contains(got, "Merge fix (b) for join\n") {
			t.Errorf("log of the merge:\n%s", got)
		}
		evil := "herd/" + run + "/evil"
		if got := git(t, dir, "ls-tree", "-r", "--name-only", "-z", evil); strings.Contains(got, "shadow") || strings.Contains(got, "up\x00") || strings.Contains(got, "huge") ||
			!strings.Contains(got, "good.txt\x00") || !strings.Contains(got, "new\nline\x00") || !strings.Contains(got, "-rf/-x\x00") {
			t.Errorf("the evil branch holds %q", got)
		}
		for _, want := range []string{"shadow", "pipe", "huge", "the commits of evil were not brought back"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("nobody was told of %s", want)
			}
		}
		if got := read(t, filepath.Join(dir, "a.txt")); got != "one\n" {
			t.Errorf("the person's a.txt is %q", got)
		}
		if got := read(t, filepath.Join(dir, ".git/config")); got != config {
			t.Errorf("the person's configuration is %q now", got)
		}
		if hooks, _ := filepath.Glob(filepath.Join(dir, ".git/hooks/*[a-z]")); len(hooks) > 0 {
			for _, h := range hooks {
				if !strings.HasSuffix(h, ".sample") {
					t.Errorf("a hook: %s", h)
				}
			}
		}
		if got := git(t, dir, "status", "--porcelain"); !strings.Contains(got, "?? mine.txt") || strings.Contains(got, "good.txt") || strings.Contains(got, "a.txt") {
			t.Errorf("the person's status:\n%s", got)
		}
		git(t, dir, "fsck", "--strict")
		for name := range tree(t, filepath.Join(dir, ".git")) {
			if filepath.Base(name) == "index" {
				continue // git status of this test has written it
			}
			if st, ok := fileStat(name); !ok || int(st.Uid) != owner && os.Getuid() == 0 {
				t.Errorf("%s belongs to %d", name, st.Uid)
			}
		}
		m.wantNothingLeft(t, dir)
	})
}

// TestExampleParallelFixes lets agents of the real CLI work at the same time,
// each in its clone; only the model is scripted.
func TestExampleParallelFixes(t *testing.T) {
	t.Parallel()
	e := needEngine(t)
	fix := func(file, wrong, right string) string {
		return `
  - name: fix ` + file + `
    prompt: 'Correct the spelling in ` + file + `'
    turns:
      - calls: [{name: Read, input: {file_path: /workspace/` + file + `}}]
        usage: {input: 900, output: 30}
      - calls: [{name: Edit, input: {file_path: /workspace/` + file + `, old_string: ` + wrong + `, new_string: ` + right + `}}]
        usage: {input: 900, output: 30}
      - text: Fixed.
        usage: {input: 900, output: 10}`
	}
	model := newModel(t, "\nscenarios:"+fix("a.txt", "teh", "the")+fix("b.txt", "adn", "and")+"\n")
	project := newRepository(t, map[string]string{"a.txt": "teh end\n", "b.txt": "you adn me\n"})
	for _, x := range readExamples(t) {
		if x.name != "parallel-fixes.yml" {
			continue
		}
		state := t.TempDir()
		t.Cleanup(func() { e.removeBoxes(t, filepath.Join(state, "state")) })
		out := runExample(t, x, project, state, model.url)
		if got := read(t, filepath.Join(project, "a.txt")); got != "teh end\n" {
			t.Errorf("the person's a.txt is %q", got)
		}
		const told = "take it with: git merge herd/"
		_, branch, found := strings.Cut(out, told)
		branch, _, _ = strings.Cut("herd/"+branch, " ")
		if !found || !strings.Contains(out, "(a.txt, b.txt)") {
			t.Fatalf("no branch is named:\n%s", out)
		}
		for name, want := range map[string]string{"a.txt": "the end\n", "b.txt": "you and me\n"} {
			if got := git(t, project, "show", branch+":"+name); got != want {
				t.Errorf("%s is %q, want %q:\n%s", name, got, want, out)
			}
		}
		return
	}
	t.Fatal("there is no examples/workflows/parallel-fixes.yml")
}
