package claude

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
		Permission: "plan",
		Success:    read("ok-bash.jsonl"),
		Schema:     json.RawMessage(nameSchema),
		Structured: read("v197-structured.jsonl"),
		Idle:       read("idle.jsonl"),
		Result:     okResult,
	})
}
