package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/herd-runner/herd-runner/runtimes"
)

// DefaultUpstream is Anthropic's API.
const DefaultUpstream = "https://api.anthropic.com"

// agentHeader bears the id of a sub-agent of Claude Code.
const agentHeader = "X-Claude-Code-Agent-Id"

var anthropic = vendor{
	api:      runtimes.APIAnthropic,
	name:     "Anthropic",
	upstream: DefaultUpstream,
	baseVar:  "ANTHROPIC_BASE_URL",
	placeholder: func(kind string) string {
		if kind == OAuth {
			return "sk-ant-oat01-herd-" + rand.Text()
		}
		return "sk-ant-herd-" + rand.Text()
	},
	offered: func(r *http.Request) []string {
		return append(bearer(r.Header), r.Header.Values("X-Api-Key")...)
	},
	authorize: func(h http.Header, cred Credential) {
		switch cred.Kind {
		case OAuth:
			h.Set("Authorization", "Bearer "+cred.Value)
		default:
			h.Set("X-Api-Key", cred.Value)
		}
		if cred.Beta != "" && !hasToken(h.Values("Anthropic-Beta"), cred.Beta) {
			h.Set("Anthropic-Beta", strings.Join(append(h.Values("Anthropic-Beta"), cred.Beta), ","))
		}
	},
	refusal: func(no refusal) (int, any) {
		return no.status, map[string]any{"type": "error", "error": map[string]string{"type": no.kind, "message": no.message}}
	},
	models: func(ids []string) any {
		type model struct {
			Type string `json:"type"`
			ID   string `json:"id"`
			Name string `json:"display_name"`
		}
		models := []model{}
		for _, id := range ids {
			models = append(models, model{"model", id, id})
		}
		return map[string]any{"data": models, "has_more": false}
	},
}

// messages is Anthropic's Messages API.
var messages = dialect{
	vendor: &anthropic,
	name:   "messages",
	what:   "Anthropic Messages request",
	route: func(method, path string) (endpoint, bool) {
		switch method + " " + path {
		case "POST /v1/messages":
			return endpoint{purpose: generate}, true
		case "POST /v1/messages/count_tokens":
			return endpoint{purpose: count}, true
		case "GET /v1/models":
			return endpoint{purpose: list}, true
		}
		return endpoint{}, false
	},
	parts:        []string{"system", "tools", "messages", "mcp_servers"},
	tools:        anthropicTools,
	conversation: anthropicConversation,
	event:        anthropicEvent,
	document:     anthropicDocument,
	growing:      anthropicGrowing,
	agent:        func(h http.Header) string { return h.Get(agentHeader) },
}

type anthropicMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
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

func anthropicConversation(req request) (conversation, error) {
	var said []anthropicMessage
	if raw := req.parts["messages"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &said); err != nil {
			return conversation{}, fmt.Errorf("messages: %w", err)
		}
	}
	c := conversation{system: texts(anthropicParts(req.parts["system"])), tools: length(req.parts["tools"])}
	for _, m := range said {
		switch m.Role {
		case "assistant", "user":
			c.messages = append(c.messages, message{assistant: m.Role == "assistant", parts: anthropicParts(m.Content)})
		}
		// Other roles ("system" in mid-conversation) are the harness's words.
	}
	return c, nil
}

// anthropicParts reads content in either of its forms; what is neither has none.
func anthropicParts(content json.RawMessage) []part {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []part{{kind: textPart, text: text}}
	}
	var blocks []anthropicBlock
	if json.Unmarshal(content, &blocks) != nil {
		return nil
	}
	parts := make([]part, 0, len(blocks))
	for _, b := range blocks {
		switch b.Type {
		case "text":
			parts = append(parts, part{kind: textPart, text: b.Text})
		case "tool_use", "server_tool_use":
			parts = append(parts, part{kind: callPart, id: b.ID, name: b.Name, text: string(b.Input)})
		case "tool_result":
			parts = append(parts, part{kind: resultPart, id: b.ToolUseID, failed: b.IsError, content: anthropicParts(b.Content)})
		default:
			parts = append(parts, part{kind: b.Type, text: string(b.Source) + string(b.Content)})
		}
	}
	return parts
}

// anthropicUsage is `usage`. Pointers: absent is not zero.
type anthropicUsage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
	Creation   struct {
		OneHour *int64 `json:"ephemeral_1h_input_tokens"`
	} `json:"cache_creation"`
}

type anthropicAnswer struct {
	Type    string `json:"type"`
	Message struct {
		Usage *anthropicUsage `json:"usage"`
	} `json:"message"`
	Delta struct {
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage      *anthropicUsage `json:"usage"`
	StopReason string          `json:"stop_reason"`
	Error      struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// anthropicEvent parses few events only: the look for their names in the raw
// bytes spares the rest. The parse decides, so that model text which quotes an
// event changes nothing.
func anthropicEvent(m *meter, data []byte) {
	if !bytes.Contains(data, []byte(`message_`)) && !bytes.Contains(data, []byte(`error`)) {
		return
	}
	var e anthropicAnswer
	if json.Unmarshal(data, &e) != nil {
		return
	}
	switch e.Type {
	case "message_start":
		e.Message.Usage.addTo(m)
	case "message_delta":
		e.Usage.addTo(m)
		if e.Delta.StopReason != "" {
			m.stop = e.Delta.StopReason
		}
	case "message_stop":
		m.ended = true
	case "error":
		m.kind, m.message = e.Error.Type, e.Error.Message
	}
}

func anthropicDocument(m *meter, doc []byte) {
	var e anthropicAnswer
	if json.Unmarshal(doc, &e) != nil {
		return
	}
	m.ended = true
	e.Usage.addTo(m)
	m.stop = e.StopReason
	if e.Type == "error" {
		m.kind, m.message = e.Error.Type, e.Error.Message
	}
}

// addTo takes over what u says. Counts in a stream are cumulative: later ones
// replace earlier ones, but never lower them.
func (u *anthropicUsage) addTo(m *meter) {
	if u == nil {
		return
	}
	m.counted = true
	raise(&m.tokens.input, u.Input)
	raise(&m.tokens.output, u.Output)
	raise(&m.tokens.cacheRead, u.CacheRead)
	raise(&m.tokens.cacheWrite, u.CacheWrite)
	raise(&m.tokens.cacheWrite1h, u.Creation.OneHour)
	m.tokens.cacheWrite1h = min(m.tokens.cacheWrite1h, m.tokens.cacheWrite)
}

func raise(to *int64, n *int64) {
	if n != nil && *n > *to {
		*to = min(*n, maxTokens)
	}
}

func anthropicGrowing(data []byte) []growth {
	if !bytes.Contains(data, []byte("content_block_delta")) {
		return nil
	}
	var e struct {
		Type  string `json:"type"`
		Index int    `json:"index"`
		Delta struct {
			Type string `json:"type"`
		} `json:"delta"`
	}
	if json.Unmarshal(data, &e) != nil || e.Type != "content_block_delta" {
		return nil
	}
	for kind, key := range map[string]string{"text_delta": "text", "input_json_delta": "partial_json", "thinking_delta": "thinking"} {
		if e.Delta.Type == kind {
			return []growth{{of: fmt.Sprint(e.Index), path: []any{"delta", key}}}
		}
	}
	return nil
}
