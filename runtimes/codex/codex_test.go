package codex

import (
	"encoding/json"
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
	runtimetest.Run(t, New(), runtimetest.Fixtures{
		Permission: "read-only",
		Success:    read("ok.jsonl"),
		Schema:     json.RawMessage(nameSchema),
		Structured: read("schema.jsonl"),
		Idle:       []byte(`{"type":"thread.started","thread_id":"` + runtimetest.OldSession + `"}` + "\n" + `{"type":"turn.started"}` + "\n" + okTurn),
		Result:     okTurn,
	})
}
