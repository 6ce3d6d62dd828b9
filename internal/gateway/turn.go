package gateway

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// conversation is what a request says, in the words of no vendor.
type conversation struct {
	system string
	// context are other texts in which a CLI says where it works.
	context string
	// after names the stored conversation that this one goes on from.
	after    string
	tools    int // offered
	messages []message
}

// message is what one side says at a time.
type message struct {
	assistant bool // else the user and his tools
	parts     []part
}

// say adds parts of one side, which may speak in several pieces.
func (c *conversation) say(assistant bool, parts ...part) {
	if n := len(c.messages); n > 0 && c.messages[n-1].assistant == assistant {
		c.messages[n-1].parts = append(c.messages[n-1].parts, parts...)
		return
	}
	c.messages = append(c.messages, message{assistant, parts})
}

// unanswered tells whether the model has not spoken yet.
func (c *conversation) unanswered() bool {
	return len(c.messages) < 2 && (len(c.messages) == 0 || !c.messages[0].assistant)
}

// Kinds of parts. Others are in the vendor's words and compared by digest.
const (
	textPart   = "text"
	callPart   = "call"
	resultPart = "result"
)

type part struct {
	kind    string
	text    string // of a call: its input
	id      string // of a call; of a result: its call's
	name    string // of a call
	failed  bool   // result
	content []part // of a result
}

// turn is a request as cassettes see it.
type turn struct {
	Dialect string
	Kind    string // "main", "side" (no tools: titles, probes), "compact" or "count_tokens"
	// Lines are the normalised last turn: what was said to the model since it
	// last spoke. Requests match by Dialect, Kind and Lines.
	Lines        []string
	Depth        int    // assistant messages before it
	Conversation string // digest of all normalised messages
	System       string // digest of the normalised system prompt
	Tools        int    // offered
	Workdir      string // as the system prompt names it; may be empty
}

func (t *turn) key() string { return matchKey(t.Dialect, t.Kind, t.Lines) }

func matchKey(dialect, kind string, lines []string) string {
	return dialect + " " + kind + "\n" + strings.Join(lines, "\n")
}

// readTurn reads the part of a request that cassettes match on.
func (d *dialect) readTurn(req request) (*turn, error) {
	c, err := d.conversation(req)
	if err != nil {
		return nil, err
	}
	t := &turn{Dialect: d.name, Tools: c.tools, Workdir: findWorkdir(c.system + "\n" + c.context), Kind: "main"}
	switch {
	case req.purpose == count:
		t.Kind = "count_tokens"
	case req.purpose == compact:
		t.Kind = "compact"
	case c.tools == 0:
		t.Kind = "side"
	}
	n := normaliser{workdir: t.Workdir}
	t.System = shortDigest(n.system(c.system))
	whole := sha256.New()
	fmt.Fprintf(whole, "%s\n", c.after)
	var calls map[string]call
	for _, m := range c.messages {
		if m.assistant {
			t.Depth++
			t.Lines = nil
			calls = toolCalls(m.parts)
			fmt.Fprintf(whole, "assistant\n%s\n", strings.Join(n.assistant(m.parts), "\n"))
			continue
		}
		lines := n.user(m.parts, calls)
		t.Lines = append(t.Lines, lines...)
		fmt.Fprintf(whole, "user\n%s\n", strings.Join(lines, "\n"))
	}
	t.Conversation = "sha256:" + hex.EncodeToString(whole.Sum(nil))
	return t, nil
}

// call is a tool call of the last assistant message, 1-based.
type call struct {
	index int
	name  string
}

func toolCalls(parts []part) map[string]call {
	calls := map[string]call{}
	for _, p := range parts {
		if p.kind == callPart {
			calls[p.id] = call{len(calls) + 1, p.name}
		}
	}
	return calls
}

// texts joins the texts of parts.
func texts(parts []part) string {
	var all []string
	for _, p := range parts {
		if p.kind == textPart {
			all = append(all, p.text)
		}
	}
	return strings.Join(all, "\n")
}

// length is that of a JSON list; what is none has no length: the API will say so.
func length(list json.RawMessage) int {
	var items []json.RawMessage
	if len(list) > 0 && json.Unmarshal(list, &items) != nil {
		return 0
	}
	return len(items)
}

// user renders a user message: tool results first, in the order of their calls
// (parallel tools finish in any order), then what was said.
func (n normaliser) user(parts []part, calls map[string]call) []string {
	type result struct {
		index int
		lines []string
	}
	var results []result
	var said []string
	for _, p := range parts {
		switch p.kind {
		case resultPart:
			c := calls[p.id]
			head := fmt.Sprintf("tool result %d (%s):", c.index, c.name)
			if p.failed {
				head = fmt.Sprintf("tool error %d (%s):", c.index, c.name)
			}
			results = append(results, result{c.index, append([]string{head}, n.resultLines(p.content)...)})
		case textPart:
			if text := n.prompt(p.text); text != "" {
				said = append(said, "user:")
				said = append(said, indent(text)...)
			}
		default:
			said = append(said, fmt.Sprintf("%s: %s", p.kind, shortDigest(p.text)))
		}
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(a.index, b.index) })
	var lines []string
	for _, r := range results {
		lines = append(lines, r.lines...)
	}
	return append(lines, said...)
}

func (n normaliser) resultLines(content []part) []string {
	var lines []string
	for _, p := range content {
		if p.kind == textPart {
			lines = append(lines, indent(n.result(p.text))...)
		} else {
			lines = append(lines, fmt.Sprintf("  %s: %s", p.kind, shortDigest(p.text)))
		}
	}
	return lines
}

// assistant renders what the model said, for the digest of the conversation.
func (n normaliser) assistant(parts []part) []string {
	var lines []string
	for _, p := range parts {
		switch p.kind {
		case textPart:
			lines = append(lines, indent(n.result(p.text))...)
		case callPart:
			lines = append(lines, "call "+p.name+" "+n.result(p.text))
		}
	}
	return lines
}

func indent(text string) []string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight("  "+l, " ")
	}
	return lines
}

func shortDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:8])
}
