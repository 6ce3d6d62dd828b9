package workspace

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxConflicts bounds the files that a conflict is told of.
const maxConflicts = 20

// merge puts work on top of a commit, one after the other, and gives the commit
// that holds all of it. Nothing is merged by halves: a *Conflict names the files
// and both sides.
func (s *store) merge(ctx context.Context, into, onto string, work []Work) (string, error) {
	all := onto
	for i, w := range work {
		if w.Commit == "" {
			continue
		}
		switch _, err := s.git(ctx, nil, "merge-base", "--is-ancestor", all, w.Commit); {
		case err == nil:
			all = w.Commit
			continue
		case exitCode(err) != 1:
			return "", err
		}
		out, err := s.git(ctx, nil, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", all, w.Commit)
		if exitCode(err) == 1 {
			return "", conflict(into, fields(out), w, work[:i])
		}
		if exitCode(err) == 129 {
			return "", fmt.Errorf("merging needs git 2.38 or newer on this machine")
		}
		if err != nil {
			return "", err
		}
		tree := fields(out)[0]
		if all, err = s.line(ctx, "commit-tree", "-p", all, "-p", w.Commit, "-m", "Merge "+w.Name+" for "+into, tree); err != nil {
			return "", err
		}
	}
	return all, nil
}

// conflict tells which files of w do not go together with what was merged
// before, and whose they are.
func conflict(into string, out []string, w Work, before []Work) error {
	var lines []string
	var files []string
	if len(out) > 1 {
		files = out[1:]
	}
	for _, name := range files {
		var sides []string
		for _, b := range before {
			if slices.Contains(b.Changed, name) {
				sides = append(sides, b.Name)
			}
		}
		if len(sides) == 0 {
			sides = []string{"the project as it is now"}
		}
		lines = append(lines, fmt.Sprintf("%q: %s and %s", name, strings.Join(sides, ", "), w.Name))
	}
	more := ""
	if len(lines) > maxConflicts {
		lines, more = lines[:maxConflicts], fmt.Sprintf("\n  and %d more", len(lines)-maxConflicts)
	}
	branches := []string{}
	for _, b := range append(slices.Clone(before), w) {
		if b.Branch != "" {
			branches = append(branches, b.Branch)
		}
	}
	return &Conflict{
		Message: fmt.Sprintf("what %s merges was changed on both sides:\n  %s%s", into, strings.Join(lines, "\n  "), more),
		Hint:    "let one job build on the other (`needs` and `merge`), or merge by hand: " + strings.Join(branches, ", "),
	}
}

var commitID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

// HasCommit says whether the project's repository still has a commit, so that it
// can be merged.
func HasCommit(ctx context.Context, project, commit string) bool {
	if !commitID.MatchString(commit) {
		return false
	}
	project, err := filepath.EvalSymlinks(project)
	if err != nil {
		return false
	}
	dir, err := gitDir(project)
	if err != nil || dir == "" {
		return false
	}
	w := &Workspace{project: project}
	_, err = repository{dir: dir, persons: true, as: w.gitUser()}.git(ctx, nil, "cat-file", "-e", commit+"^{commit}")
	return err == nil
}
