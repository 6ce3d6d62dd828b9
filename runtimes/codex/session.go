package codex

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
	"github.com/herd-runner/herd-runner/sandbox"
)

// SessionFiles are the rollouts: Codex names its sessions itself, and one file
// for each.
func (Runtime) SessionFiles(task runtimes.Task) []sandbox.Follow {
	return []sandbox.Follow{{Root: task.Box.Home, Pattern: path.Join(Home(""), "sessions/*/*/*/rollout-*.jsonl")}}
}

// DecodeSession returns a decoder of rollouts.
func (Runtime) DecodeSession(runtimes.Task) runtimes.SessionDecoder {
	return &sessionDecoder{others: map[int]bool{}}
}

// sessionDecoder reads rollouts: of the items that ended, what the agent said
// and the commands it ran. Their ids are not those of stdout.
type sessionDecoder struct {
	others map[int]bool // files of sub-agents
}

// Line decodes one record.
func (d *sessionDecoder) Line(file runtimes.SessionFile, line []byte) []event.Message {
	var typ string
	var payload []byte
	if whole, _ := runtimes.Record(line, func(key, value []byte) {
		switch string(key) {
		case "type":
			typ = jsonscan.Text(value)
		case "payload":
			payload = value
		}
	}); !whole {
		return nil
	}
	switch typ {
	case "session_meta":
		if source := field(payload, "thread_source"); source != "" && source != "user" {
			d.others[file.ID] = true
		}
	case "event_msg":
		if field(payload, "type") == "item_completed" && !d.others[file.ID] {
			return sessionItem(payload)
		}
	}
	return nil
}

// sessionItem is an item as rollouts have it: under other names of its kinds, its
// text in blocks, its command in words.
func sessionItem(payload []byte) []event.Message {
	var it item
	jsonscan.Object(payload, func(key, value []byte) {
		if string(key) == "item" {
			it = readItem(value)
		}
	})
	switch it.typ {
	case "AgentMessage":
		var text strings.Builder
		jsonscan.Array(it.content, func(block []byte) { text.WriteString(field(block, "text")) })
		return one(event.Message{Kind: event.MessageText, Text: text.String()})
	case "CommandExecution":
		var words []string
		jsonscan.Array(it.command, func(word []byte) { words = append(words, jsonscan.Text(word)) })
		it.typ = "command_execution"
		it.command, _ = json.Marshal(strings.Join(words, " ")) // a string always encodes
		return []event.Message{it.called(), it.answered()}
	}
	return nil
}

// Key: a call is known by the command it ran, which stdout quotes for a shell
// and the file does not; a result by what was printed.
func (*sessionDecoder) Key(m event.Message) string {
	if m.Kind == event.MessageToolResult {
		return "printed " + m.Text
	}
	return m.Tool + " " + strings.Map(func(r rune) rune {
		if strings.ContainsRune("'\"\\ \t\n", r) {
			return -1
		}
		return r
	}, field(m.Input, "command"))
}
