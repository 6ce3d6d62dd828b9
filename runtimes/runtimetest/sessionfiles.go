package runtimetest

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/runtimes"
)

// sessionFiles: what a session is made of lies in HOME, and so does what is
// followed of it.
func sessionFiles(t *testing.T, rt runtimes.Runtime, fx Fixtures) {
	state := rt.Describe().SessionState
	if rt.Describe().Has(runtimes.FeatureResume) != (len(state) > 0) {
		t.Errorf("sessions can be resumed: %t; they are made of %q", rt.Describe().Has(runtimes.FeatureResume), state)
	}
	for _, p := range state {
		if _, err := path.Match(p, "x"); err != nil {
			t.Errorf("%q: %v", p, err)
		}
		if !filepath.IsLocal(p) || path.Clean(p) != p || p == "." {
			t.Errorf("%q is no path below HOME", p)
		}
	}
	reader, ok := rt.(runtimes.SessionReader)
	if !ok {
		return
	}
	resumed, forked := Task(), Task()
	resumed.Resume = fx.Session
	forked.Resume, forked.Fork = fx.Session, true
	for _, task := range []runtimes.Task{Task(), resumed, forked} {
		files := reader.SessionFiles(task)
		if diff := cmp.Diff(files, reader.SessionFiles(task)); diff != "" || len(files) == 0 {
			t.Errorf("%d files, another time others: %s", len(files), diff)
		}
		for _, f := range files {
			if _, err := path.Match(f.Pattern, "x"); err != nil || f.Root != task.Box.Home {
				t.Errorf("%+v: %v", f, err)
			}
			if !slices.ContainsFunc(state, func(p string) bool { return strings.HasPrefix(f.Pattern, p+"/") }) {
				t.Errorf("%q is no part of a session, which is made of %q", f.Pattern, state)
			}
		}
	}
}
