package report

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
)

const messageLines = 40

// message shows what an agent said or did, a tool call on one line.
func (t *Terminal) message(v *stepView, m event.Message) {
	indent := ""
	if m.Parent != "" {
		indent = "  "
	}
	room := 160
	if t.opts.Width > 0 {
		room = max(t.opts.Width-t.align-6, 40)
	}
	switch m.Kind {
	case event.MessageText:
		v.said = head(m.Text, maxLine)
		t.text(v, indent, m.Text)
	case event.MessageResult:
		if head(m.Text, maxLine) != v.said {
			t.text(v, indent, m.Text)
		}
	case event.MessageThinking:
		if t.opts.Verbose {
			t.say(v, indent+t.p.with(dim, "… "+oneLine(m.Text, room)))
		}
	case event.MessageToolCall:
		t.say(v, indent+t.p.with(cyan, "→ "+oneLine(m.Tool, 40))+" "+oneLine(gist(m.Input), room))
	case event.MessageToolResult:
		if m.IsError {
			t.say(v, indent+t.p.with(yellow, "← error: ")+oneLine(m.Text, room))
		} else if t.opts.Verbose {
			t.say(v, indent+t.p.with(dim, "← "+oneLine(m.Text, room)))
		}
	case event.MessageRetry:
		t.say(v, indent+t.p.with(yellow, "↻ "+oneLine(m.Text, room)))
	case event.MessageWarning:
		t.say(v, indent+t.p.with(yellow, "! "+oneLine(m.Text, room)))
	case event.MessageInit:
		if t.opts.Verbose {
			t.say(v, t.p.with(dim, oneLine(fmt.Sprintf("session %s, model %s", m.SessionID, m.Model), room)))
		}
	}
}

func (t *Terminal) text(v *stepView, indent, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	lines, more := textLines(text, messageLines)
	for _, l := range lines {
		t.say(v, indent+l)
	}
	if more > 0 {
		t.say(v, indent+t.p.with(dim, fmt.Sprintf("… %d more lines, see the transcript", more)))
	}
}

// gist is what best tells one call of a tool from the next: the known telling
// argument, else all of them.
func gist(input json.RawMessage) string {
	var args map[string]any
	if json.Unmarshal(input, &args) != nil {
		return string(input)
	}
	for _, key := range []string{"command", "file_path", "path", "pattern", "url", "query", "description", "prompt"} {
		switch v := args[key].(type) {
		case string:
			return v
		case []any:
			words := make([]string, len(v))
			for i := range v {
				words[i] = fmt.Sprint(v[i])
			}
			return strings.Join(words, " ")
		}
	}
	keys := make([]string, 0, len(args))
	for k := range args {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for i, k := range keys {
		keys[i] = fmt.Sprintf("%s=%v", k, args[k])
	}
	return strings.Join(keys, " ")
}
