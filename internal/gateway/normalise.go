package gateway

import (
	"regexp"
	"strings"
	"sync"
)

// normaliser takes out of text what differs between two runs of the same work.
// docs/gateway-cassettes.md lists its rules for the person.
type normaliser struct {
	workdir string // absolute; empty: unknown
}

// rule replaces what differs by a word that says what stood there.
type rule struct {
	find func() *regexp.Regexp
	with string
}

// pattern compiles a pattern at its first use: most starts of the program never
// need one.
func pattern(p string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(p) })
}

const (
	months = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`
	days   = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)`
)

// Rules for all text. These tables are constants: nothing writes to them.
var commonRules = []rule{
	{pattern(`(?s)<system-reminder>.*?</system-reminder>\n*`), ""},
	{pattern(`(?s)<environment_context>.*?</environment_context>\n*`), ""},                          // Codex
	{pattern(`(?s)# AGENTS\.md instructions for [^\n]*\n+<INSTRUCTIONS>.*?</INSTRUCTIONS>\n*`), ""}, // Codex
	{pattern(`(?s)<session_context>.*?</session_context>\n*`), ""},                                  // Gemini CLI
	{pattern(`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`), "<uuid>"},
	{pattern(`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?`), "<time>"},
	{pattern(`\btoolu_\w+`), "<tool-use>"},
	{pattern(`\b\d{8}-\d{6}-[0-9a-f]{4}\b`), "<run-id>"}, // our own
	{pattern(`(?:/private)?/tmp/[^\s"'` + "`" + `)\]},:;]+`), "<tmp>"},
	{pattern(`/var/folders/[^\s"'` + "`" + `)\]},:;]+`), "<tmp>"},
	{pattern(`(?:/home/[\w.-]+|/root|/Users/[\w.-]+)(/|\b)`), "<home>$1"},
}

// Rules for what tools print, and never for a prompt: "wait 5s" and "wait 10s"
// are different orders.
var resultRules = []rule{
	{pattern(`\b` + days + `,? (?:\d{1,2} ` + months + `|` + months + ` +\d{1,2})(?:,? \d{4})? \d\d:\d\d:\d\d(?: [AP]M)?(?: (?:[A-Z]{3,4}|[+-]\d{4}))?(?: \d{4})?(?: [+-]\d{4})?`), "<time>"},
	{pattern(`\b` + months + ` +\d{1,2} +(?:\d\d:\d\d(?::\d\d)?|\d{4})\b`), "<time>"},
	{pattern(`\b\d{4}[-/]\d\d[-/]\d\d\b`), "<date>"},
	{pattern(`\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b`), "<time>"},
	{pattern(`\(cached\)`), "<duration>"},
	{pattern(`\b(duration_ms|durationMs|elapsed|took)(["']?[:=]? ?)\d+(?:\.\d+)?\b`), "$1$2<duration>"},
	{pattern(`\b(?:\d+(?:\.\d+)?(?:h|ms|m|s|ns|us|µs))+\b`), "<duration>"},
	{pattern(`\b\d+(?:\.\d+)? (?:seconds?|minutes?|milliseconds?|secs?|ms)\b`), "<duration>"},
	{pattern(`\b0x[0-9a-f]{6,16}\b`), "<address>"},
	{pattern(`\b(127\.0\.0\.1|localhost|\[::1\]):\d{2,5}\b`), "$1:<port>"},
	{pattern(`\b(goroutine|pid|PID|PGID)([ =:]+)\d+\b`), "$1$2<n>"},
	{pattern(`"(chunk_id|session_id)":"?\w+"?`), `"$1":<id>`}, // Codex
	{pattern(`(?m)^Chunk ID: \w+$`), "Chunk ID: <id>"},        // Codex
	{pattern(`"wall_time_seconds":[\d.e-]+`), `"wall_time_seconds":<duration>`},
}

var (
	hexWord      = pattern(`\b[0-9a-f]{7,64}\b`)
	workdirLines = []func() *regexp.Regexp{
		// Claude Code's main agent, its sub-agents, OpenCode, and our own loop.
		pattern(`(?m)^[ \-*]*(?:Primary w|W)orking directory: (/\S+)\s*$`),
		pattern(`<cwd>(/[^<\n]+)</cwd>`),                        // Codex
		pattern(`Workspace Directories:[*]*\n\s+- (/\S+)\s*\n`), // Gemini CLI
	}
	// What follows is the state of the repository at the start.
	gitStatusLine = pattern(`(?m)^gitStatus:`)
	// Client version and a hash of the prompt.
	billingLine = pattern(`(?m)^x-anthropic-billing-header:.*$`)
)

func findWorkdir(text string) string {
	for _, line := range workdirLines {
		if m := line().FindStringSubmatch(text); m != nil && len(m[1]) > 1 {
			return strings.TrimRight(m[1], "/")
		}
	}
	return ""
}

// prompt normalises what a person or workflow said.
func (n normaliser) prompt(s string) string {
	return strings.TrimSpace(n.common(s))
}

// result normalises what a tool printed.
func (n normaliser) result(s string) string {
	s = apply(n.common(s), resultRules)
	s = hexWord().ReplaceAllStringFunc(s, func(w string) string {
		if strings.ContainsAny(w, "0123456789") && strings.ContainsAny(w, "abcdef") {
			return "<hex>"
		}
		return w
	})
	return strings.TrimRight(s, " \n")
}

// system normalises a system prompt for its digest.
func (n normaliser) system(s string) string {
	if at := gitStatusLine().FindStringIndex(s); at != nil {
		s = s[:at[0]]
	}
	return n.result(billingLine().ReplaceAllString(s, ""))
}

func (n normaliser) common(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	return apply(replacePath(s, n.workdir, "<workdir>"), commonRules)
}

func apply(s string, rules []rule) string {
	for _, r := range rules {
		s = r.find().ReplaceAllString(s, r.with)
	}
	return s
}

// replacePath replaces path where it stands as a whole or with more below it.
func replacePath(s, path, with string) string {
	if path == "" || !strings.Contains(s, path) {
		return s
	}
	var b strings.Builder
	for {
		i := strings.Index(s, path)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := i + len(path)
		b.WriteString(s[:i])
		if (end < len(s) && isNameByte(s[end])) || endsInName(s[:i]) {
			b.WriteString(path)
		} else {
			b.WriteString(with)
		}
		s = s[end:]
	}
}

// endsInName tells whether a path that follows s is only the end of a longer
// one. A letter of a JSON escape (\n) is no name.
func endsInName(s string) bool {
	n := len(s)
	return n > 0 && isNameByte(s[n-1]) && (n < 2 || s[n-2] != '\\')
}

func isNameByte(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}
