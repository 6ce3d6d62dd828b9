package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

func TestCommandsInTheBackground(t *testing.T) {
	dir := t.TempDir()
	w := workspace{dir: dir, env: []string{"PATH=" + os.Getenv("PATH")}, background: &background{}}
	t.Cleanup(w.background.stop)
	call := func(name string, input map[string]any) toolOutput {
		raw, err := json.Marshal(input)
		if err != nil {
			t.Fatal(err)
		}
		return runCall(t.Context(), ownTools(w), call{name: name, input: raw})
	}
	start := func(command string) {
		t.Helper()
		if out := call("bash", map[string]any{"command": command, "background": true}); out.isError || !strings.Contains(out.text, "in the background as") {
			t.Fatalf("%+v", out)
		}
	}
	want := func(name string, input map[string]any, isError bool, wants ...string) {
		t.Helper()
		out := call(name, input)
		for _, text := range wants {
			if out.isError != isError || !strings.Contains(out.text, text) || len(out.text) > maxOutputBytes+200 {
				t.Errorf("%s %v: %v %.300q, want %q", name, input, out.isError, out.text, text)
			}
		}
	}
	start("echo one; echo two >&2; exit 3")
	want("bash_output", map[string]any{"id": "1", "wait": 20}, false, "one\ntwo\n", "[it has ended: exit status 3]")
	want("bash_output", map[string]any{"id": 1}, false, "[no new output]")

	start("echo $$ > pid; sleep 600 & sleep 600")
	waitForFile(t, filepath.Join(dir, "pid"))
	want("bash_output", map[string]any{"id": "2"}, false, "[it runs]")
	want("bash_kill", map[string]any{"id": "2"}, false, "[it has ended: signal: killed]")

	start("head -c 1000000 /dev/zero | tr '\\0' x")
	want("bash_output", map[string]any{"id": "3", "wait": 20}, false, "xxx", "970000 bytes left out here", "exit status 0")

	for range maxBackground {
		start("sleep 600")
	}
	want("bash", map[string]any{"command": "true", "background": true}, true, "8 commands run in the background already")
	want("bash_output", map[string]any{"id": "99"}, true, `no command "99"`)
	want("bash_kill", map[string]any{"id": "-1"}, true, "no command")
	want("bash_kill", map[string]any{}, true, "id is needed")
}

// What a step leaves in the background ends with it.
func TestTheBackgroundEndsWithTheLoop(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, calls("bash", `{"command":"sleep 600 & echo $! > child; echo $$ > pid; wait","background":true}`),
		calls("bash", `{"command":"until [ -s pid ]; do sleep 0.01; done"}`), says("done"))
	if r := drive(t, s, sdk.Request{Workdir: dir}); r.result.Text != "done" {
		t.Fatalf("%+v", r.result)
	}
	for _, name := range []string{"pid", "child"} {
		pid, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		waitGone(t, strings.TrimSpace(string(pid)))
	}
}
