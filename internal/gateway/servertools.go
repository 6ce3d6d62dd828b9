package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// toolKinds are the tools of an API that the agent itself runs, in its box.
// Every other kind the vendor runs, and may reach the internet with what the
// request holds: a way out of a box that has none.
type toolKinds struct {
	own      []string // values of "type"
	prefixes []string // of dated ones
	// byKey: a tool is an object whose keys are its kinds.
	byKey bool
	// more are top-level keys that bring such tools in another way.
	more []string
}

var (
	anthropicTools = toolKinds{
		own: []string{"", "custom"}, prefixes: []string{"bash_", "text_editor_", "computer_", "memory_", "tool_search_tool_"},
		more: []string{"mcp_servers"},
	}
	openaiTools = toolKinds{
		own:  []string{"function", "custom", "local_shell", "apply_patch", "computer", "computer_use_preview", "namespace", "tool_search"},
		more: []string{"prompt", "web_search_options"},
	}
	geminiTools = toolKinds{byKey: true, own: []string{"functionDeclarations", "function_declarations", "computerUse", "computer_use"}}
)

// remote refuses a request that has the vendor run a tool.
func (x *exchange) remote() *refusal {
	if x.s.gw.serverTools || !x.req.asks() {
		return nil
	}
	name, err := x.dialect.tools.foreign(x.req)
	if err != nil {
		return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "request",
			message: fmt.Sprintf("herd-runner: the request is no usable %s: %v", x.dialect.what, err)}
	}
	if name == "" {
		return nil
	}
	return &refusal{status: http.StatusForbidden, kind: "permission_error", reason: "server_tools",
		message: fmt.Sprintf("herd-runner: %q is run by %s, past the network of the agent's box, and not allowed (rule server-tools); to allow it, run with --allow server-tools",
			cutText(name, 100), x.dialect.vendor.name)}
}

// foreign names the first tool that the agent does not run itself; "" where
// there is none.
func (k toolKinds) foreign(req request) (string, error) {
	for _, key := range k.more {
		if raw := strings.TrimSpace(string(req.parts[key])); raw != "" && raw != "null" && raw != "[]" {
			return key, nil
		}
	}
	return k.foreignIn(req.parts["tools"], false)
}

func (k toolKinds) foreignIn(raw []byte, nested bool) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", errors.New("tools: expected a list")
	}
	for _, tool := range list {
		name, err := k.foreignTool(tool, nested)
		if name != "" || err != nil {
			return name, err
		}
	}
	return "", nil
}

func (k toolKinds) foreignTool(tool []byte, nested bool) (string, error) {
	kind, seen, other := "", false, ""
	var inner []byte // of a namespace, which holds tools
	err := eachKey(tool, func(key string, value []byte) error {
		switch {
		case k.byKey && !k.isOwn(key):
			other = key
		case !k.byKey && key == "type" && seen:
			return fmt.Errorf("key %q stands twice", key)
		case !k.byKey && key == "type":
			seen = true
			return json.Unmarshal(value, &kind)
		case !k.byKey && key == "tools":
			inner = value
		}
		return nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("tools: %w", err)
	case k.byKey:
		return other, nil
	case k.isOwn(kind):
		if nested && len(inner) > 0 {
			return "", errors.New("tools: a namespace in a namespace")
		}
		return k.foreignIn(inner, true)
	}
	return "tool " + kind, nil
}

func (k toolKinds) isOwn(kind string) bool {
	for _, own := range k.own {
		if kind == own {
			return true
		}
	}
	for _, prefix := range k.prefixes {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}
