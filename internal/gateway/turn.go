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

// turn is a request as cassettes see it.
type turn struct {
	Kind string // "main", "side" (no tools: titles, probes) or "count_tokens"
	// Lines are the normalised last turn: what was said to the model since it
	// last spoke. Requests match by Kind and Lines.
	Lines        []string
	Depth        int    // assistant messages before it
	Conversation string // digest of all normalised messages
	System       string // digest of the normalised system prompt
	Tools        int    // offered
	Workdir      string // as the system prompt names it; may be empty
}

func (t *turn) key() string { return t.Kind + "\n" + strings.Join(t.Lines, "\n") }

type wireMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type wireBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    json.RawMessage `json:"source"`
}

// readTurn reads the part of a request that cassettes match on.
func readTurn(req request, path string) (*turn, error) {
	var messages []wireMessage
	if len(req.messages) > 0 {
		if err := json.Unmarshal(req.messages, &messages); err != nil {
			return nil, fmt.Errorf("messages: %w", err)
		}
	}
	var tools []json.RawMessage
	if len(req.tools) > 0 && json.Unmarshal(req.tools, &tools) != nil {
		tools = nil // no list: the API will say so
	}
	system := plainText(req.system)
	t := &turn{Tools: len(tools), Workdir: findWorkdir(system), Kind: "main"}
	switch {
	case path == countPath:
		t.Kind = "count_tokens"
	case len(tools) == 0:
		t.Kind = "side"
	}
	n := normaliser{workdir: t.Workdir}
	t.System = shortDigest(n.system(system))
	whole := sha256.New()
	var calls map[string]call
	for _, m := range messages {
		switch m.Role {
		case "assistant":
			t.Depth++
			t.Lines = nil
			calls = toolCalls(m.Content)
			fmt.Fprintf(whole, "assistant\n%s\n", strings.Join(n.assistant(m.Content), "\n"))
		case "user":
			lines := n.user(m.Content, calls)
			t.Lines = append(t.Lines, lines...)
			fmt.Fprintf(whole, "user\n%s\n", strings.Join(lines, "\n"))
		}
		// Other roles ("system" in mid-conversation) are the harness's words.
	}
	t.Conversation = "sha256:" + hex.EncodeToString(whole.Sum(nil))
	return t, nil
}

// call is a tool call of the last assistant message, 1-based.
type call struct {
	index int
	name  string
}

func toolCalls(content json.RawMessage) map[string]call {
	calls := map[string]call{}
	for _, b := range contentBlocks(content) {
		if b.Type == "tool_use" || b.Type == "server_tool_use" {
			calls[b.ID] = call{len(calls) + 1, b.Name}
		}
	}
	return calls
}

// contentBlocks reads content in either of its forms; what is neither has none.
func contentBlocks(content json.RawMessage) []wireBlock {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []wireBlock{{Type: "text", Text: text}}
	}
	var blocks []wireBlock
	if json.Unmarshal(content, &blocks) != nil {
		return nil
	}
	return blocks
}

func plainText(content json.RawMessage) string {
	var texts []string
	for _, b := range contentBlocks(content) {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// user renders a user message: tool results first, in the order of their calls
// (parallel tools finish in any order), then what was said.
func (n normaliser) user(content json.RawMessage, calls map[string]call) []string {
	type result struct {
		index int
		lines []string
	}
	var results []result
	var said []string
	for _, b := range contentBlocks(content) {
		switch b.Type {
		case "tool_result":
			c := calls[b.ToolUseID]
			head := fmt.Sprintf("tool result %d (%s):", c.index, c.name)
			if b.IsError {
				head = fmt.Sprintf("tool error %d (%s):", c.index, c.name)
			}
			results = append(results, result{c.index, append([]string{head}, n.resultLines(b.Content)...)})
		case "text":
			if text := n.prompt(b.Text); text != "" {
				said = append(said, "user:")
				said = append(said, indent(text)...)
			}
		default:
			said = append(said, fmt.Sprintf("%s: %s", b.Type, shortDigest(string(b.Source)+string(b.Content))))
		}
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(a.index, b.index) })
	var lines []string
	for _, r := range results {
		lines = append(lines, r.lines...)
	}
	return append(lines, said...)
}

func (n normaliser) resultLines(content json.RawMessage) []string {
	var lines []string
	for _, b := range contentBlocks(content) {
		if b.Type == "text" {
			lines = append(lines, indent(n.result(b.Text))...)
		} else {
			lines = append(lines, fmt.Sprintf("  %s: %s", b.Type, shortDigest(string(b.Source))))
		}
	}
	return lines
}

// assistant renders what the model said, for the digest of the conversation.
func (n normaliser) assistant(content json.RawMessage) []string {
	var lines []string
	for _, b := range contentBlocks(content) {
		switch b.Type {
		case "text":
			lines = append(lines, indent(n.result(b.Text))...)
		case "tool_use":
			lines = append(lines, "call "+b.Name+" "+n.result(string(b.Input)))
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
