package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTalks (DOCKER-04): each step's conversation has a directory of its own,
// locked while the run lives; the newest are kept.
func TestTalks(t *testing.T) {
	t.Parallel()
	project, home := t.TempDir(), t.TempDir()
	file := filepath.Join(home, "talk", "1.jsonl")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runs := []string{"2026-01", "2026-02", "2026-03", "2026-04", "2026-05", "2026-06", "2026-07"}
	var open *talks
	for i, run := range runs {
		x := &talks{project: project, workflow: "flow.yml", run: run}
		for _, step := range []string{"one", "two"} {
			say(run + step)
			if found, err := x.Save("job (a/b)", step, home, []string{"talk"}, step == "two"); err != nil || !found {
				t.Fatal(found, err)
			}
		}
		other := t.TempDir()
		if err := x.Load("job (a/b)", "one", other, []string{"talk"}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(other, "talk", "1.jsonl")); err != nil || string(got) != run+"one" {
			t.Errorf("loaded %q, %v", got, err)
		}
		if dirs := talksOf(project, run); len(dirs) != 2 {
			t.Errorf("run %s has %q", run, dirs)
		}
		if i == 0 {
			open = x
			continue
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
		if dirs := talksOf(project, run); len(dirs) != 1 || filepath.Base(filepath.Dir(dirs[0])) != "one" {
			t.Errorf("run %s has %q left", run, dirs)
		}
	}
	left := func() (all []string) {
		for _, run := range runs {
			for _, dir := range talksOf(project, run) {
				all = append(all, filepath.Base(filepath.Dir(dir))+" "+run)
			}
		}
		return all
	}
	// The oldest is in use.
	want := "one 2026-01, two 2026-01, one 2026-03, one 2026-04, one 2026-05, one 2026-06, one 2026-07"
	if got := strings.Join(left(), ", "); got != want {
		t.Errorf("%s are left, want %s", got, want)
	}
	if err := removeTalk(talksOf(project, runs[0])[0]); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a conversation in use is removed: %v", err)
	}
	if err := open.Close(); err != nil {
		t.Error(err)
	}
	if err := removeTalk(talksOf(project, runs[0])[0]); err != nil {
		t.Error(err)
	}
}

// TestTalksAreNotLedAway: a repository that brings links has them nowhere else.
func TestTalksAreNotLedAway(t *testing.T) {
	t.Parallel()
	project, outside := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(project, ".herd"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(project, sessionsDir)); err != nil {
		t.Fatal(err)
	}
	x := &talks{project: project, workflow: "flow.yml", run: "1"}
	if _, err := x.Save("a", "s", t.TempDir(), []string{"talk"}, false); err == nil {
		t.Error("kept behind a link")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside holds %v, %v", entries, err)
	}
}
