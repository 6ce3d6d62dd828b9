package steps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEnvironmentIsLaidOverWhatItStartsFrom(t *testing.T) {
	all := map[string]string{"A": "1", "A1": "2", "HIDDEN": "x", "LOST": "x", "": "no name", "NUL": "\x00", "Z": "9"}
	e := environment{
		start: startEnv{all: all, listed: listed(all)},
		over:  map[string]string{"A0": "between", "B": "", "HIDDEN": "over", "LOST": "a\x00b", "a=b": "no name", "ZZ": "last"},
	}
	want := []string{"A0=between", "A1=2", "A=1", "B=", "HIDDEN=over", "Z=9", "ZZ=last"}
	if diff := cmp.Diff(want, e.list()); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"A": "1", "B": "", "HIDDEN": "over", "NONE": ""} {
		if got := e.get(name); got != want {
			t.Errorf("get(%q): got %q, want %q", name, got, want)
		}
	}
}
