package opencode

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/herd-runner/herd-runner/runtimes/runtimetest"
)

// THREATS 3, 20.
func TestRuntime(t *testing.T) {
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	const finish = `{"type":"step_finish","sessionID":"ses_e0456e118ffeJBLAyiERUv1vJD","part":{"type":"step-finish","reason":"stop"}}`
	runtimetest.Run(t, New(), runtimetest.Fixtures{
		Permission: "plan",
		Success:    read("ok.jsonl"),
		Idle:       []byte(`{"type":"step_start","sessionID":"ses_e0456e118ffeJBLAyiERUv1vJD","part":{"type":"step-start"}}` + "\n" + finish),
		Result:     finish,
		Session:    session,
	})
}
