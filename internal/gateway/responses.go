package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// responses is OpenAI's Responses API.
var responses = dialect{
	vendor: &openai,
	name:   "responses",
	what:   "OpenAI Responses request",
	route: func(method, path string) (endpoint, bool) {
		switch method + " " + path {
		case "POST /v1/responses":
			return endpoint{purpose: generate}, true
		case "POST /v1/responses/compact":
			return endpoint{purpose: compact}, true
		case "POST /v1/responses/input_tokens":
			return endpoint{purpose: count}, true
		case "GET /v1/models":
			return endpoint{purpose: list}, true
		}
		return endpoint{}, false
	},
	parts: []string{"instructions", "input", "tools", "background", "previous_response_id", "prompt"},
	tools: openaiTools,
	read: func(req *request) error {
		var background bool
		if err := req.take("background", &background); err != nil {
			return err
		}
		if background {
			return errors.New(`"background": true is not served: nobody could count what the answer costs; leave it out`)
		}
		return nil
	},
	conversation: responsesConversation,
	event:        responsesEvent,
	document:     responsesDocument,
	growing:      responsesGrowing,
	agent: func(h http.Header) string {
		// Codex: a sub-agent is a thread of its own in its parent's session.
		if thread := h.Get("Thread-Id"); h.Get("Session-Id") != "" && thread != h.Get("Session-Id") {
			return thread
		}
		return ""
	},
}

type responsesItem struct {
	Type      string            `json:"type"`
	Role      string            `json:"role"`
	Content   json.RawMessage   `json:"content"`
	CallID    string            `json:"call_id"`
	Name      string            `json:"name"`
	Arguments string            `json:"arguments"`
	Input     json.RawMessage   `json:"input"`
	Action    json.RawMessage   `json:"action"`
	Output    json.RawMessage   `json:"output"`
	Tools     []json.RawMessage `json:"tools"`
}

func responsesConversation(req request) (conversation, error) {
	c := conversation{tools: length(req.parts["tools"])}
	for key, to := range map[string]*string{"instructions": &c.system, "previous_response_id": &c.after} {
		if err := req.take(key, to); err != nil {
			return c, err
		}
	}
	var text string
	if req.take("input", &text) == nil {
		c.say(false, openaiParts(req.parts["input"])...)
		return c, nil
	}
	var items []responsesItem
	if err := req.take("input", &items); err != nil {
		return c, err
	}
	for _, item := range items {
		c.addItem(item)
	}
	return c, nil
}

func (c *conversation) addItem(item responsesItem) {
	kind := item.Type
	switch {
	case kind == "message" || kind == "":
		c.addRole(item.Role, openaiParts(item.Content))
	case kind == "additional_tools": // Codex: tools travel in the input
		c.tools += len(item.Tools)
	case strings.HasSuffix(kind, "_output"):
		c.say(false, part{kind: resultPart, id: item.CallID, content: openaiParts(item.Output)})
	case strings.HasSuffix(kind, "_call"):
		name := item.Name
		if name == "" {
			name = strings.TrimSuffix(kind, "_call")
		}
		c.say(true, part{kind: callPart, id: item.CallID, name: name, text: item.Arguments + string(item.Input) + string(item.Action)})
	case kind == "reasoning":
		c.say(true)
	default:
		// Such as the order to shorten the conversation. Their ids differ in
		// every run.
		c.say(false, part{kind: kind})
	}
}

// addRole adds what was said under one of OpenAI's roles.
func (c *conversation) addRole(role string, parts []part) {
	switch role {
	case "assistant":
		c.say(true, parts...)
	case "user":
		if c.unanswered() {
			c.context += texts(parts) + "\n"
		}
		c.say(false, parts...)
	default: // "system", "developer": the harness's words
		c.system += "\n" + texts(parts)
	}
}

// responsesAnswer is a whole answer, or an event of a stream.
type responsesAnswer struct {
	Type     string `json:"type"`
	Response *struct {
		responsesEnd
	} `json:"response"`
	responsesEnd
	// Of the event "error".
	Code    string `json:"code"`
	Message string `json:"message"`
}

type responsesEnd struct {
	Status     string       `json:"status"`
	Usage      *openaiUsage `json:"usage"`
	Error      *openaiError `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

func (e responsesEnd) addTo(m *meter) {
	e.Usage.addTo(m)
	e.Error.addTo(m)
	m.stop = e.Status
	if e.Incomplete.Reason != "" {
		m.stop = e.Incomplete.Reason
	}
	m.ended = true
}

// responsesEvent parses the last event only, and errors.
func responsesEvent(m *meter, data []byte) {
	if !mentions(data, "response.completed", "response.incomplete", "response.failed") &&
		(!mentions(data, `"error"`) || mentions(data, `"error":null`)) {
		return
	}
	var e responsesAnswer
	if json.Unmarshal(data, &e) != nil {
		return
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed":
		if e.Response != nil {
			e.Response.addTo(m)
		}
	case "error":
		if e.Error == nil {
			e.Error = &openaiError{Message: e.Message, Type: "error", Code: e.Code}
		}
		e.Error.addTo(m)
		m.ended = true
	}
}

func responsesDocument(m *meter, doc []byte) {
	var e responsesAnswer
	if json.Unmarshal(doc, &e) != nil {
		return
	}
	e.responsesEnd.addTo(m)
}

// responsesGrowing: all events that continue a text have it in "delta".
func responsesGrowing(data []byte) []growth {
	if !mentions(data, ".delta") {
		return nil
	}
	var e struct {
		Type    string `json:"type"`
		Item    string `json:"item_id"`
		Output  int    `json:"output_index"`
		Content int    `json:"content_index"`
		Summary int    `json:"summary_index"`
	}
	if json.Unmarshal(data, &e) != nil || !strings.HasSuffix(e.Type, ".delta") {
		return nil
	}
	return []growth{{of: fmt.Sprint(e.Type, e.Item, e.Output, " ", e.Content, " ", e.Summary), path: []any{"delta"}}}
}
