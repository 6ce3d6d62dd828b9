package sdk

import (
	"fmt"
	"slices"
	"strings"
)

// Rule is one entry of allowed-tools or denied-tools.
type Rule struct {
	Tool    string // one of Tools, or mcp__SERVER__TOOL, which may hold "*"
	Pattern string // of what the tool is used on; empty: of everything
}

// MCPPrefix begins the names of the MCP servers' tools: mcp__SERVER__TOOL.
const MCPPrefix = "mcp__"

// String is the rule as it is written.
func (r Rule) String() string {
	if r.Pattern == "" {
		return r.Tool
	}
	return r.Tool + "(" + r.Pattern + ")"
}

// ParseRule reads "bash", "Bash(git *)", "mcp__github" and "mcp__github__get_*".
// Claude Code's names for the tools are taken too, so that a step can change its
// runtime and keep its list.
func ParseRule(text string) (Rule, error) {
	name, rest, bounded := strings.Cut(strings.TrimSpace(text), "(")
	r := Rule{Tool: strings.TrimSpace(name)}
	if bounded {
		inner, closed := strings.CutSuffix(rest, ")")
		if r.Pattern = strings.TrimSpace(inner); !closed || r.Pattern == "" {
			return Rule{}, fmt.Errorf("%q: expected a tool, or a tool with a pattern such as Bash(git *)", text)
		}
		// Claude Code's older form of a prefix.
		if prefix, ok := strings.CutSuffix(r.Pattern, ":*"); ok {
			r.Pattern = prefix + " *"
		}
	}
	if server, ok := strings.CutPrefix(r.Tool, MCPPrefix); ok {
		if bounded {
			return Rule{}, fmt.Errorf("%q: tools of MCP servers have no patterns in brackets: expected mcp__SERVER__TOOL, with * for any", text)
		}
		if !strings.Contains(server, "__") && server != "*" {
			r.Tool += "__*" // the whole server
		}
		return r, nil
	}
	own := strings.ToLower(r.Tool)
	switch own {
	case "ls":
		own = "list"
	case "multiedit":
		own = "edit"
	case "webfetch":
		own = "fetch"
	}
	if !slices.Contains(Tools(), own) {
		return Rule{}, fmt.Errorf("unknown tool %q: there are %s, and mcp__SERVER__TOOL", text, strings.Join(Tools(), ", "))
	}
	r.Tool = own
	if r.Pattern == "*" {
		r.Pattern = ""
	}
	return r, nil
}
