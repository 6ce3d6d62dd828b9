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
		`{"x":{"command":["a"]}}`:                   "command is of the wrong kind (array): expected command",
		`{"x":null}`:                                "either command",
		`{"a.b":{"command":"a"}}`:                   "letters, digits",
	} {
		if _, err := runtimes.MCPServers(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// What no runtime can read is a problem of the file, also where a runtime passes
// the servers on as they are and knows more keys.
func TestServers(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                                     "expected an object",
		`{"x":{"command":["a"]}}`:                "x: command is of the wrong kind (array)",
		`{"x":{"command":"a","args":"b"}}`:       "x: args is of the wrong kind (string)",
		`{"x":{}}`:                               "x: expected either command",
		`{"x":null}`:                             "x: expected either command",
		`{"x":{"command":"a","timeout":1000}}`:   "",
		`{"x":{"url":"http://b","type":"http"}}`: "",
	} {
		_, err := runtimes.Servers(json.RawMessage(in))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}
