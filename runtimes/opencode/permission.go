package opencode

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// permissions are what an agent may do, as the CLI wants them: by key, then by
// pattern, and of the patterns that match the last one counts. So they keep
// their order.
type permissions struct {
	keys  []string
	rules map[string][]rule
}

type rule struct{ pattern, action string }

func (p *permissions) add(key, pattern, action string) {
	if p.rules == nil {
		p.rules = map[string][]rule{}
	}
	if _, ok := p.rules[key]; !ok {
		p.keys = append(p.keys, key)
	}
	p.rules[key] = append(p.rules[key], rule{pattern, action})
}

// MarshalJSON keeps the order. A key with the one pattern "*" is its action.
func (p *permissions) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	text := func(s string) {
		quoted, _ := json.Marshal(s) // a string always can be
		out.Write(quoted)
	}
	out.WriteByte('{')
	for i, key := range p.keys {
		if i > 0 {
			out.WriteByte(',')
		}
		text(key)
		out.WriteByte(':')
		rules := lastOfEach(p.rules[key])
		if len(rules) == 1 && rules[0].pattern == "*" {
			text(rules[0].action)
			continue
		}
		out.WriteByte('{')
		for j, r := range rules {
			if j > 0 {
				out.WriteByte(',')
			}
			text(r.pattern)
			out.WriteByte(':')
			text(r.action)
		}
		out.WriteByte('}')
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// lastOfEach leaves of the rules with one pattern the last, in its place.
func lastOfEach(rules []rule) []rule {
	var out []rule
	for i, r := range rules {
		if !slices.ContainsFunc(rules[i+1:], func(later rule) bool { return later.pattern == r.pattern }) {
			out = append(out, r)
		}
	}
	return out
}

const (
	allow = "allow"
	deny  = "deny"
)

// permission turns our keys into the CLI's. Nobody can be asked: in a box
// everything is allowed, on the bare host edits in the workspace are, and where
// allowed-tools is given nothing else is.
func permission(task runtimes.Task) (*permissions, error) {
	cfg := task.Config
	p := &permissions{}
	switch {
	case len(cfg.AllowedTools) > 0:
		p.add("*", "*", deny)
		if task.Box.Backend != "host" {
			p.add("external_directory", "*", allow) // the box is the border
		}
	default:
		p.add("*", "*", allow)
	}
	mode := cfg.PermissionMode
	if mode == "" && task.Box.Backend == "host" {
		mode = "acceptEdits"
	}
	switch mode {
	case "", "bypassPermissions":
	case "acceptEdits":
		for _, key := range []string{"bash", "webfetch", "websearch", "external_directory"} {
			p.add(key, "*", deny)
		}
	case "plan":
		for _, key := range []string{"bash", "edit", "task"} {
			p.add(key, "*", deny)
		}
	default:
		return nil, runtimes.Refuse("permission-mode", "", "permission-mode %q: runtime opencode has bypassPermissions, acceptEdits and plan", mode)
	}
	for _, given := range cfg.AllowedTools {
		key, pattern, err := toolRule("allowed-tools", given)
		if err != nil {
			return nil, err
		}
		if _, known := p.rules[key]; !known && pattern != "*" {
			p.add(key, "*", deny)
		}
		p.add(key, pattern, allow)
	}
	for _, given := range cfg.DeniedTools {
		key, pattern, err := toolRule("denied-tools", given)
		if err != nil {
			return nil, err
		}
		if _, known := p.rules[key]; !known && pattern != "*" && len(cfg.AllowedTools) == 0 {
			p.add(key, "*", allow)
		}
		p.add(key, pattern, deny)
	}
	return p, nil
}

// tools are the CLI's permissions by our names for them, and by those of Claude
// Code, so that a step can change its runtime and keep its list.
func tools() map[string]string {
	return map[string]string{
		"bash": "bash", "read": "read", "glob": "glob", "grep": "grep", "list": "list", "ls": "list",
		"edit": "edit", "write": "edit", "multiedit": "edit", "apply_patch": "edit",
		"webfetch": "webfetch", "fetch": "webfetch", "websearch": "websearch",
		"task": "task", "agent": "task", "todowrite": "todowrite", "skill": "skill", "lsp": "lsp",
	}
}

// toolRule reads "Read", "Bash(git *)" and "mcp__SERVER__TOOL".
func toolRule(key, given string) (permission, pattern string, err error) {
	name, rest, bounded := strings.Cut(strings.TrimSpace(given), "(")
	name, pattern = strings.TrimSpace(name), "*"
	if bounded {
		inner, whole := strings.CutSuffix(rest, ")")
		if pattern = strings.TrimSpace(inner); !whole || pattern == "" {
			return "", "", runtimes.Refuse(key, given, "%s: %q: expected a tool, or a tool with a pattern such as Bash(git *)", key, given)
		}
	}
	if server, ok := strings.CutPrefix(name, "mcp__"); ok {
		server, tool, one := strings.Cut(server, "__")
		if !one {
			tool = "*"
		}
		return server + "_" + tool, pattern, nil
	}
	own, ok := tools()[strings.ToLower(name)]
	if !ok {
		known := slices.Sorted(maps.Keys(tools()))
		return "", "", runtimes.Refuse(key, given, "%s: unknown tool %q: runtime opencode has %s, and mcp__SERVER__TOOL", key, given, strings.Join(known, ", "))
	}
	return own, pattern, nil
}
