package gateway

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

// openai is what Responses and Chat Completions have in common. Its base URL
// ends in /v1, as in OpenAI's own clients.
var openai = vendor{
	api:      runtimes.APIOpenAI,
	name:     "OpenAI",
	upstream: "https://api.openai.com/v1",
	baseVar:  "OPENAI_BASE_URL",
	prefix:   "/v1",
	placeholder: func(string) string {
		return "sk-herd-" + rand.Text()
	},
	offered: func(r *http.Request) []string { return bearer(r.Header) },
	authorize: func(h http.Header, cred Credential) {
		h.Set("Authorization", "Bearer "+cred.Value)
		if cred.account != "" {
			h.Set("Chatgpt-Account-Id", cred.account)
		}
	},
	refusal: openaiRefusal,
	waits:   true,
	models: func(ids []string) any {
		type model struct {
			ID      string `json:"id"`
			Object  string `json:"object"`
			Created int    `json:"created"`
			OwnedBy string `json:"owned_by"`
		}
		models := []model{}
		for _, id := range ids {
			models = append(models, model{ID: id, Object: "model", OwnedBy: "system"})
		}
		return map[string]any{"object": "list", "data": models}
	},
}

// openaiRefusal says no with 400: it is the one status that neither Codex nor
// OpenCode asks again after. The code tells which no it is.
func openaiRefusal(no refusal) (int, any) {
	status, kind := no.status, "invalid_request_error"
	switch {
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	case status != http.StatusUpgradeRequired:
		status = http.StatusBadRequest
	}
	if no.reason == "budget_exhausted" {
		kind = "insufficient_quota"
	}
	return status, map[string]any{"error": map[string]any{"message": no.message, "type": kind, "param": nil, "code": no.reason}}
}

// openaiUsage is `usage` in the words of both wire formats. The details are
// part of the counts above them.
type openaiUsage struct {
	Input         int64         `json:"input_tokens"`
	Output        int64         `json:"output_tokens"`
	InputDetails  openaiDetails `json:"input_tokens_details"`
	OutputDetails openaiDetails `json:"output_tokens_details"`

	Prompt            int64         `json:"prompt_tokens"`
	Completion        int64         `json:"completion_tokens"`
	PromptDetails     openaiDetails `json:"prompt_tokens_details"`
	CompletionDetails openaiDetails `json:"completion_tokens_details"`
}

type openaiDetails struct {
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Reasoning  int64 `json:"reasoning_tokens"`
}

func (u *openaiUsage) addTo(m *meter) {
	if u == nil {
		return
	}
	in, out := u.Input+u.Prompt, u.Output+u.Completion
	read := u.InputDetails.Cached + u.PromptDetails.Cached
	write := u.InputDetails.CacheWrite + u.PromptDetails.CacheWrite
	m.add(tokens{input: in - read - write, cacheRead: read, cacheWrite: write, output: out,
		reasoning: u.OutputDetails.Reasoning + u.CompletionDetails.Reasoning})
}

type openaiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Code    any     `json:"code"`              // a string; some endpoints give a number
	Resets  float64 `json:"resets_in_seconds"` // of a ChatGPT login's limits
}

func (e *openaiError) addTo(m *meter) {
	if e == nil {
		return
	}
	m.kind, m.message = e.Type, e.Message
	code, _ := e.Code.(string)
	m.kind = cmp.Or(m.kind, code, "error")
	if e.Resets > 0 && e.Resets < 1e8 {
		m.retryIn = time.Duration(e.Resets * float64(time.Second))
	}
	switch code {
	case "insufficient_quota", "billing_hard_limit_reached":
		m.reason = reasonNoCredit
	case "invalid_api_key":
		m.reason = reasonAuth
	}
}

// openaiParts reads content in any of its forms.
func openaiParts(content json.RawMessage) []part {
	var text string
	if json.Unmarshal(content, &text) == nil {
		if text == "" {
			return nil
		}
		return []part{{kind: textPart, text: text}}
	}
	var items []json.RawMessage
	if json.Unmarshal(content, &items) != nil {
		return nil
	}
	parts := make([]part, 0, len(items))
	for _, raw := range items {
		var item struct {
			Type string  `json:"type"`
			Text *string `json:"text"`
		}
		if json.Unmarshal(raw, &item) != nil {
			continue
		}
		if item.Text != nil {
			parts = append(parts, part{kind: textPart, text: *item.Text})
		} else {
			parts = append(parts, part{kind: item.Type, text: string(raw)})
		}
	}
	return parts
}

func mentions(data []byte, words ...string) bool {
	for _, w := range words {
		if bytes.Contains(data, []byte(w)) {
			return true
		}
	}
	return false
}
