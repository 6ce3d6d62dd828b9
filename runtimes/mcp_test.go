package runtimes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/runtimes"
)

func TestMCPServers(t *testing.T) {
	got, err := runtimes.MCPServers(json.RawMessage(`{
		"web": {"type": "sse", "url": "https://mcp.example", "headers": {"X-Team": "a"}},
		"files": {"command": "files", "args": ["-v"], "env": {"ROOT": "/workspace"}}}`))
	want := []runtimes.MCPServer{
		{Name: "files", Command: "files", Args: []string{"-v"}, Env: map[string]string{"ROOT": "/workspace"}},
		{Name: "web", URL: "https://mcp.example", SSE: true, Headers: map[string]string{"X-Team": "a"}},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for in, want := range map[string]string{
		`[]`:                                     "expected an object of servers by name",
		`{"x":7}`:                                "mcp-servers: x: ",
		`{"x":{}}`:                               "either command",
		`{"x":{"command":"a","url":"http://b"}}`: "either command",
		`{"x":{"command":"a","headers":{"b":"c"}}}`: "headers are for",
		`{"x":{"url":"http://b","args":["c"]}}`:     "args and env are for",
		`{"x":{"url":"http://b","type":"stdio"}}`:   `unknown type "stdio": expected http or sse`,
		`{"x":{"command":"a","comand":"b"}}`:        `unknown field "comand": expected command`,
		`{"a.b":{"command":"a"}}`:                   "letters, digits",
	} {
		if _, err := runtimes.MCPServers(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}
