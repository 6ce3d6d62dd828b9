package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

var gemini = vendor{
	api:      runtimes.APIGemini,
	name:     "Gemini",
	upstream: "https://generativelanguage.googleapis.com",
	baseVar:  "GOOGLE_GEMINI_BASE_URL",
	placeholder: func(string) string {
		return "AIzaHerd" + rand.Text()
	},
	offered: func(r *http.Request) []string {
		offered := append(bearer(r.Header), r.Header.Values("X-Goog-Api-Key")...)
		return append(offered, r.URL.Query()["key"]...)
	},
	authorize: func(h http.Header, cred Credential) { h.Set("X-Goog-Api-Key", cred.Value) },
	refusal:   geminiRefusal,
	waits:     true,
	models: func(ids []string) any {
		type model struct {
			Name    string   `json:"name"`
			Display string   `json:"displayName"`
			Methods []string `json:"supportedGenerationMethods"`
		}
		models := []model{}
		for _, id := range ids {
			models = append(models, model{"models/" + id, id, []string{"generateContent", "countTokens"}})
		}
		return map[string]any{"models": models}
	},
}

// geminiRefusal says with 400 what Google has no status for, and what Gemini CLI
// would ask again after.
func geminiRefusal(no refusal) (int, any) {
	status, word := no.status, map[int]string{
		http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED", http.StatusNotFound: "NOT_FOUND",
		http.StatusBadGateway: "UNAVAILABLE", http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
		http.StatusPaymentRequired: "FAILED_PRECONDITION", http.StatusTooManyRequests: "FAILED_PRECONDITION",
	}[no.status]
	switch {
	case word == "FAILED_PRECONDITION":
		status = http.StatusBadRequest
	case word == "":
		word = "INVALID_ARGUMENT"
	}
	return status, map[string]any{"error": map[string]any{"code": status, "message": no.message, "status": word}}
}

// generateContent is Gemini's API.
var generateContent = dialect{
	vendor:       &gemini,
	name:         "gemini",
	what:         "Gemini request",
	route:        geminiRoute,
	parts:        []string{"contents", "systemInstruction", "system_instruction", "tools", "generateContentRequest"},
	tools:        geminiTools,
	conversation: geminiConversation,
	event:        geminiEvent,
	document:     geminiDocument,
	growing:      geminiGrowing,
	agent:        func(http.Header) string { return "" },
}

// The model stands in the path. Its name has no character that could lead
// elsewhere.
var geminiPath = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/v1(?:beta|alpha)?/models(?:/([A-Za-z0-9][A-Za-z0-9._-]{0,199}):(\w+))?$`)
})

func geminiRoute(method, path string) (endpoint, bool) {
	m := geminiPath().FindStringSubmatch(path)
	if m == nil {
		return endpoint{}, false
	}
	switch method + " " + m[2] {
	case "GET ":
		return endpoint{purpose: list}, true
	case "POST generateContent":
		return endpoint{purpose: generate, model: m[1]}, true
	case "POST streamGenerateContent":
		return endpoint{purpose: generate, model: m[1], stream: true}, true
	case "POST countTokens":
		return endpoint{purpose: count, model: m[1]}, true
	}
	return endpoint{}, false
}

type geminiContent struct {
	Role  string            `json:"role"`
	Parts []json.RawMessage `json:"parts"`
}

type geminiPart struct {
	Text    *string `json:"text"`
	Thought bool    `json:"thought"`
	Call    *struct {
		ID   string          `json:"id"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args"`
	} `json:"functionCall"`
	Result *struct {
		ID       string                     `json:"id"`
		Name     string                     `json:"name"`
		Response map[string]json.RawMessage `json:"response"`
	} `json:"functionResponse"`
}

func geminiConversation(req request) (conversation, error) {
	var c conversation
	if raw, ok := req.parts["generateContentRequest"]; ok { // of countTokens
		inner := request{parts: map[string][]byte{}}
		if err := eachKey(raw, func(key string, value []byte) error { inner.parts[key] = value; return nil }); err != nil {
			return c, fmt.Errorf("generateContentRequest: %w", err)
		}
		return geminiConversation(inner)
	}
	for _, key := range []string{"systemInstruction", "system_instruction"} {
		var system geminiContent
		if err := req.take(key, &system); err != nil {
			return c, err
		}
		c.system += texts(geminiParts(system.Parts))
	}
	var tools []struct {
		Functions []json.RawMessage `json:"functionDeclarations"`
	}
	if req.take("tools", &tools) == nil {
		for _, t := range tools {
			c.tools += max(1, len(t.Functions))
		}
	}
	var contents []geminiContent
	if err := req.take("contents", &contents); err != nil {
		return c, err
	}
	for _, content := range contents {
		parts := geminiParts(content.Parts)
		if content.Role == "model" {
			c.say(true, parts...)
			continue
		}
		if c.unanswered() {
			c.context += texts(parts) + "\n"
		}
		c.say(false, parts...)
	}
	return c, nil
}

// geminiParts reads parts. Calls without an id, and their results, are known by
// name and order.
func geminiParts(raw []json.RawMessage) []part {
	var parts []part
	seen := map[string]int{}
	id := func(given, name string) string {
		if given != "" {
			return given
		}
		seen[name]++
		return fmt.Sprintf("%s %d", name, seen[name])
	}
	for _, r := range raw {
		var p geminiPart
		if json.Unmarshal(r, &p) != nil {
			continue
		}
		switch {
		case p.Call != nil:
			parts = append(parts, part{kind: callPart, id: id(p.Call.ID, p.Call.Name), name: p.Call.Name, text: string(p.Call.Args)})
		case p.Result != nil:
			parts = append(parts, part{kind: resultPart, id: id(p.Result.ID, p.Result.Name), failed: p.Result.Response["error"] != nil,
				content: geminiResult(p.Result.Response)})
		case p.Thought:
		case p.Text != nil:
			parts = append(parts, part{kind: textPart, text: *p.Text})
		default:
			parts = append(parts, part{kind: "data", text: string(r)})
		}
	}
	return parts
}

// geminiResult is what a tool gave: its one text, or the whole object.
func geminiResult(response map[string]json.RawMessage) []part {
	for _, key := range []string{"output", "error", "result"} {
		var text string
		if len(response) == 1 && json.Unmarshal(response[key], &text) == nil {
			return []part{{kind: textPart, text: text}}
		}
	}
	whole, err := json.Marshal(response)
	if err != nil {
		return nil
	}
	return []part{{kind: textPart, text: string(whole)}}
}

type geminiUsage struct {
	Prompt     int64 `json:"promptTokenCount"` // cached ones are part of it
	Cached     int64 `json:"cachedContentTokenCount"`
	Tools      int64 `json:"toolUsePromptTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"` // thoughts are not
	Thoughts   int64 `json:"thoughtsTokenCount"`
}

func (u geminiUsage) addTo(m *meter) {
	m.add(tokens{input: u.Prompt - u.Cached + u.Tools, cacheRead: u.Cached, output: u.Candidates + u.Thoughts, reasoning: u.Thoughts})
}

type geminiError struct {
	Message string `json:"message"`
	Status  string `json:"status"`
	Details []struct {
		Reason string `json:"reason"`
		Retry  string `json:"retryDelay"` // "33s"
	} `json:"details"`
}

// geminiEvent reads a chunk, of which only small parts matter: counts, that
// grow from chunk to chunk, and how it ended.
func geminiEvent(m *meter, data []byte) {
	_ = eachKey(data, func(key string, value []byte) error {
		switch key {
		case "usageMetadata":
			var u geminiUsage
			if json.Unmarshal(value, &u) == nil {
				u.addTo(m)
			}
		case "candidates":
			m.finish(value)
		case "promptFeedback":
			var f struct {
				Block string `json:"blockReason"`
			}
			if json.Unmarshal(value, &f) == nil && f.Block != "" {
				m.stop, m.ended = f.Block, true
			}
		case "error":
			m.geminiFailure(value)
		}
		return nil
	})
}

func (m *meter) finish(candidates []byte) {
	var list []struct {
		Reason string `json:"finishReason"`
	}
	if !bytes.Contains(candidates, []byte("finishReason")) || json.Unmarshal(candidates, &list) != nil {
		return
	}
	for _, c := range list {
		if c.Reason != "" {
			m.stop, m.ended = c.Reason, true
		}
	}
}

func (m *meter) geminiFailure(value []byte) {
	var e geminiError
	if json.Unmarshal(value, &e) != nil {
		return
	}
	m.kind, m.message, m.ended = e.Status, e.Message, true
	for _, d := range e.Details {
		if wait, err := time.ParseDuration(d.Retry); err == nil && wait > 0 {
			m.retryIn = wait
		}
		if d.Reason == "API_KEY_INVALID" {
			m.reason = reasonAuth
		}
	}
	if strings.HasPrefix(e.Message, "API key not valid") {
		m.reason = reasonAuth
	}
}

// geminiDocument reads an answer, or the list of chunks that a stream without
// alt=sse is.
func geminiDocument(m *meter, doc []byte) {
	if doc = trimSpace(doc); len(doc) > 0 && doc[0] == '[' {
		var chunks []json.RawMessage
		if json.Unmarshal(doc, &chunks) != nil {
			return
		}
		for _, c := range chunks {
			geminiEvent(m, c)
		}
		m.ended = true
		return
	}
	if json.Valid(doc) {
		geminiEvent(m, doc)
		m.ended = true
	}
}

func geminiGrowing(data []byte) []growth {
	var e struct {
		Candidates []struct {
			Index   int           `json:"index"`
			Content geminiContent `json:"content"`
		} `json:"candidates"`
	}
	if json.Unmarshal(data, &e) != nil {
		return nil
	}
	var all []growth
	for i, c := range e.Candidates {
		for j, raw := range c.Content.Parts {
			var p geminiPart
			if json.Unmarshal(raw, &p) == nil && p.Text != nil {
				all = append(all, growth{of: fmt.Sprint(c.Index, p.Thought), path: []any{"candidates", i, "content", "parts", j, "text"}})
			}
		}
	}
	return all
}
