package runtimes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MCPServer is one server of mcp-servers, written as MCP clients agree to: a
// program (command, args, env) or an address (url, headers, and type "http" or
// "sse"). One of Command and URL is set.
type MCPServer struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string
	URL     string
	SSE     bool // the older of the two HTTP transports
	Headers map[string]string
}

// MCPServers reads mcp-servers for a runtime that has to write it down in a
// form of its own; sorted by name. What can not be carried over is an error.
func MCPServers(raw json.RawMessage) ([]MCPServer, error) {
	servers, err := Servers(raw)
	if err != nil {
		return nil, err
	}
	var all []MCPServer
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s, err := readMCPServer(name, servers[name])
		if err != nil {
			return nil, Refuse("mcp-servers", name, "mcp-servers: %s: %v", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

// mcpForm is a server as the workflow writes it.
type mcpForm struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

func misformed(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s is of the wrong kind (%s): expected command, args and env, or type, url and headers", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("%s: expected command, args and env, or type, url and headers", strings.TrimPrefix(err.Error(), "json: "))
}

func readMCPServer(name string, raw json.RawMessage) (MCPServer, error) {
	var in mcpForm
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" || name == "" {
		return MCPServer{}, fmt.Errorf("a server's name may hold letters, digits, _ and - only")
	}
	dec := json.NewDecoder(strings.NewReader(string(raw)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return MCPServer{}, misformed(err)
	}
	s := MCPServer{Name: name, Command: in.Command, Args: in.Args, Env: in.Env, URL: in.URL, SSE: in.Type == "sse", Headers: in.Headers}
	switch {
	case (s.Command == "") == (s.URL == ""):
		return MCPServer{}, fmt.Errorf("expected either command (a program) or url (an address)")
	case s.URL == "" && len(s.Headers) > 0:
		return MCPServer{}, fmt.Errorf("headers are for a server with a url")
	case s.Command == "" && len(s.Args)+len(s.Env) > 0:
		return MCPServer{}, fmt.Errorf("args and env are for a server with a command")
	}
	kinds := []string{"", "stdio"}
	if s.URL != "" {
		kinds = []string{"", "http", "sse"}
	}
	if !slices.Contains(kinds, in.Type) {
		return MCPServer{}, fmt.Errorf("unknown type %q: expected %s", in.Type, strings.Join(kinds[1:], " or "))
	}
	return s, nil
}
