package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// chat is OpenAI's Chat Completions API, which many other vendors' endpoints
// speak as well.
var chat = dialect{
	vendor: &openai,
	name:   "chat",
	what:   "OpenAI Chat Completions request",
	route: func(method, path string) (endpoint, bool) {
		if method == http.MethodPost && path == "/v1/chat/completions" {
			return endpoint{purpose: generate}, true
		}
		return endpoint{}, false
	},
	parts: []string{"messages", "tools", "stream_options", "web_search_options"},
	tools: openaiTools,
	read: func(req *request) error {
		var options struct {
			Usage bool `json:"include_usage"`
		}
		if err := req.take("stream_options", &options); err != nil {
			return err
		}
		req.uncounted = req.stream && !options.Usage
		return nil
	},
	conversation: chatConversation,
	event:        chatEvent,
	document:     chatDocument,
	growing:      chatGrowing,
	agent:        func(http.Header) string { return "" },
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func chatConversation(req request) (conversation, error) {
	c := conversation{tools: length(req.parts["tools"])}
	var said []chatMessage
	if err := req.take("messages", &said); err != nil {
		return c, err
	}
	for _, m := range said {
		parts := openaiParts(m.Content)
		if m.Role == "tool" {
			c.say(false, part{kind: resultPart, id: m.ToolCallID, content: parts})
			continue
		}
		for _, t := range m.ToolCalls {
			parts = append(parts, part{kind: callPart, id: t.ID, name: t.Function.Name, text: t.Function.Arguments})
		}
		c.addRole(m.Role, parts)
	}
	return c, nil
}

type chatAnswer struct {
	Choices []struct {
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage *openaiUsage `json:"usage"`
	Error *openaiError `json:"error"`
}

func (a chatAnswer) addTo(m *meter) {
	a.Usage.addTo(m)
	a.Error.addTo(m)
	for _, c := range a.Choices {
		if c.Finish != "" {
			m.stop = c.Finish
		}
	}
}

// chatEvent parses events that tell a count, an end or an error; all others
// have these keys with null, or not at all.
func chatEvent(m *meter, data []byte) {
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		m.ended = true
		return
	}
	if !mentions(data, `"usage":{`, `"usage": {`, `"finish_reason":"`, `"finish_reason": "`, `"error"`) {
		return
	}
	var a chatAnswer
	if json.Unmarshal(data, &a) == nil {
		a.addTo(m)
	}
}

func chatDocument(m *meter, doc []byte) {
	var a chatAnswer
	if json.Unmarshal(doc, &a) != nil {
		return
	}
	m.ended = true
	a.addTo(m)
}

func chatGrowing(data []byte) []growth {
	if !mentions(data, `"delta"`) {
		return nil
	}
	var e struct {
		Choices []struct {
			Index int `json:"index"`
			Delta struct {
				Calls []struct {
					Index int `json:"index"`
				} `json:"tool_calls"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &e) != nil {
		return nil
	}
	var all []growth
	for i, c := range e.Choices {
		for _, key := range []string{"content", "reasoning_content", "reasoning", "refusal"} {
			all = append(all, growth{of: fmt.Sprint(c.Index, key), path: []any{"choices", i, "delta", key}})
		}
		for j, call := range c.Delta.Calls {
			all = append(all, growth{of: fmt.Sprint(c.Index, " call ", call.Index), path: []any{"choices", i, "delta", "tool_calls", j, "function", "arguments"}})
		}
	}
	return all
}
