package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FR-007: the runner pushes what was done in isolated workspaces, where the
// operator says so, and what succeeded alone. No hook of the repository runs, and
// none that a step can write.
func TestPush(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	remote := t.TempDir()
	git(t, remote, "init", "-q", "--bare", ".")
	dir := newRepository(t, map[string]string{"a.txt": "one\n", "hooks/pre-push": "#!/bin/sh\ntouch \"$0.ran\"\n"})
	if err := os.Chmod(filepath.Join(dir, "hooks/pre-push"), 0o755); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "config", "core.hooksPath", "hooks")
	git(t, dir, "remote", "add", "origin", remote)
	git(t, dir, "remote", "add", "away", filepath.Join(remote, "not-there"))
	giveToUser(t, dir)
	const workflow = `
on: workflow_dispatch
defaults: {docker: {network: none}}
jobs:
  good:
    workspace: {mode: isolated, push: origin}
    steps:
      - run: echo two >a.txt
  step:
    steps:
      - run: echo four >a.txt
        workspace: {mode: isolated, push: origin}
  bad:
    workspace: {mode: isolated, push: origin}
    steps:
      - run: echo three >a.txt; false
`
	refused := m.run(t, dir, workflow).wantCode(t, 2)
	if !strings.Contains(refused.stderr, "--allow push:origin") || !strings.Contains(refused.stderr, "flow.yml:6:") {
		t.Errorf("the refusal:\n%s", refused.stderr)
	}

	r := m.run(t, dir, workflow, "--allow", "push:origin").wantCode(t, 1)
	id := r.runID(t)
	branches := git(t, remote, "for-each-ref", "--format=%(refname:short)")
	if want := "herd/" + id + "/good\nherd/" + id + "/step-step-1\n"; branches != want {
		t.Errorf("the remote has\n%swant\n%s", branches, want)
	}
	if got := git(t, remote, "show", "herd/"+id+"/good:a.txt"); got != "two\n" {
		t.Errorf("pushed was %q", got)
	}
	for _, want := range []string{"pushed herd/" + id + "/good to origin", "herd/" + id + "/bad was not pushed to origin: bad has not succeeded"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("nobody was told: %s", want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "hooks/pre-push.ran")); err == nil {
		t.Error("the hook ran")
	}

	unknown := m.run(t, dir, strings.ReplaceAll(workflow, "push: origin", "push: upstream"), "--allow", "push:upstream").wantCode(t, 2)
	if !strings.Contains(unknown.stderr, `no remote "upstream"`) {
		t.Errorf("a remote that is not there:\n%s", unknown.stderr)
	}

	lost := m.run(t, dir, `
on: workflow_dispatch
jobs:
  good:
    docker: {network: none}
    workspace: {mode: isolated, push: away}
    steps:
      - run: echo two >a.txt
`, "--allow", "push:away").wantCode(t, 3)
	branch := "herd/" + lost.runID(t) + "/good"
	if !strings.Contains(lost.stdout, "is on branch "+branch+", and was not pushed") || !strings.Contains(lost.stdout, "try: git push away "+branch) {
		t.Errorf("a push that fails:\n%s", lost.stdout)
	}
	git(t, dir, "rev-parse", "--verify", "-q", branch)
	m.wantNothingLeft(t, dir)
}
