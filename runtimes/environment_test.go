package runtimes_test

import (
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
)

// THREATS 3.
func TestEnvironment(t *testing.T) {
	task := runtimetest.Task()
	task.Box.Env = map[string]string{"BASE_URL": "http://evil", "NO_PROXY": "corp.example, 127.0.0.1"}
	task.Config.Env = map[string]string{"QUIET": "0", "no_proxy": "mine.example"}
	got, err := runtimes.Environment(task, map[string]string{"QUIET": "1", "UPDATES": "off"}, []string{"BASE_URL", "KEY"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"QUIET": "0", "UPDATES": "off", "BASE_URL": "", "HOME": task.Box.Home, "TMPDIR": task.Box.Temp,
		"NO_PROXY": "127.0.0.1,localhost,corp.example", "no_proxy": "127.0.0.1,localhost,mine.example",
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if _, ok := got["KEY"]; ok {
		t.Error("a variable that nobody set is blanked")
	}
	task.Config.Env["KEY"] = "mine"
	if _, err := runtimes.Environment(task, nil, []string{"KEY"}); err == nil || !strings.Contains(err.Error(), "KEY is set by the runner") {
		t.Errorf("%v", err)
	}
}
