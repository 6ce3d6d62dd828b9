package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

const (
	// openAIDefault takes tools in Chat Completions, which OpenAI's Codex models
	// do not.
	openAIDefault = "gpt-5.2"
	openAIBaseURL = "https://api.openai.com/v1"
)

// openAIAPI is the Chat Completions API: the part of OpenAI's that the
// compatible endpoints (Ollama, vLLM, OpenRouter …) have as well.
type openAIAPI struct {
	base, key string
}

func newOpenAI(env environment) (*openAIAPI, error) {
	a := &openAIAPI{base: env.values[sdk.EnvOpenAIBaseURL], key: env.values[sdk.EnvOpenAIKey]}
	if a.key == "" {
		return nil, noCredential(sdk.EnvOpenAIKey)
	}
	if a.base == "" {
		a.base = openAIBaseURL
	}
	return a, nil
}

func (*openAIAPI) modelID(name string) string {
	if name == "" {
		return openAIDefault
	}
	return name
}

// The API's own words (CreateChatCompletionRequest and its stream).
type (
	openAIRequest struct {
		Model         string             `json:"model"`
		Messages      []openAIMessage    `json:"messages"`
		Tools         []openAITool       `json:"tools,omitempty"`
		ToolChoice    *openAITool        `json:"tool_choice,omitempty"`
		Stream        bool               `json:"stream"`
		StreamOptions openAIStreamOption `json:"stream_options"`
	}
	openAIStreamOption struct {
		IncludeUsage bool `json:"include_usage"`
	}
	openAIMessage struct {
		Role       string       `json:"role"` // "system", "user", "assistant" or "tool"
		Content    string       `json:"content,omitempty"`
		ToolCalls  []openAICall `json:"tool_calls,omitempty"`
		ToolCallID string       `json:"tool_call_id,omitempty"`
	}
	openAITool struct {
		Type     string         `json:"type"` // "function"
		Function openAIFunction `json:"function"`
	}
	openAIFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	openAICall struct {
		Index    int             `json:"index,omitempty"` // in streams only
		ID       string          `json:"id"`
		Type     string          `json:"type"` // "function"
		Function openAIArguments `json:"function"`
	}
	openAIArguments struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // JSON, by the model's word
	}
	openAIChunk struct {
		Choices []struct {
			Delta struct {
				Content   string       `json:"content"`
				Refusal   string       `json:"refusal"`
				ToolCalls []openAICall `json:"tool_calls"`
				// No fields of OpenAI's: so the compatible endpoints show what
				// was thought.
				ReasoningContent string `json:"reasoning_content"`
				Reasoning        string `json:"reasoning"`
			} `json:"delta"`
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Error json.RawMessage `json:"error"`
	}
)

func (a *openAIAPI) ask(ctx context.Context, q question, alive func()) (response, error) {
	address := strings.TrimSuffix(a.base, "/") + "/chat/completions"
	var got openAIAnswer
	err := postEvents(ctx, address, http.Header{"Authorization": {"Bearer " + a.key}}, openAIParams(q), openAIError, alive, got.add)
	if err != nil {
		return response{}, err
	}
	if got.finish == "" {
		return response{}, errShort
	}
	return got.response(len(q.messages)), nil
}

// openAIAnswer is put together from the pieces of a stream.
type openAIAnswer struct {
	text, thinking, refusal strings.Builder
	calls                   []streamedCall
	finish                  string
}

// streamedCall is a call whose arguments come in pieces.
type streamedCall struct {
	index     int
	id, name  string
	arguments []byte
}

func (a *openAIAnswer) add(data []byte) error {
	if string(data) == "[DONE]" {
		return nil
	}
	var chunk openAIChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("%w: %w", errShort, err)
	}
	if len(chunk.Error) > 0 && !bytes.Equal(chunk.Error, []byte("null")) {
		return openAIError(0, nil, data)
	}
	if len(chunk.Choices) == 0 {
		return nil
	}
	d := chunk.Choices[0].Delta
	a.text.WriteString(d.Content)
	a.refusal.WriteString(d.Refusal)
	thought := d.ReasoningContent
	if thought == "" {
		thought = d.Reasoning
	}
	a.thinking.WriteString(thought)
	for _, c := range d.ToolCalls {
		at := a.call(c.Index, c.ID)
		if at.name == "" {
			at.name = c.Function.Name
		}
		at.arguments = append(at.arguments, c.Function.Arguments...)
	}
	if reason := chunk.Choices[0].FinishReason; reason != "" {
		a.finish = reason
	}
	return nil
}

// call is the one a piece belongs to. Some endpoints give all calls the index
// 0; their ids tell them apart.
func (a *openAIAnswer) call(index int, id string) *streamedCall {
	for i := range slices.Backward(a.calls) {
		c := &a.calls[i]
		if c.index == index && (id == "" || c.id == "" || c.id == id) {
			if c.id == "" {
				c.id = id
			}
			return c
		}
	}
	a.calls = append(a.calls, streamedCall{index: index, id: id})
	return &a.calls[len(a.calls)-1]
}

func (a *openAIAnswer) response(turn int) response {
	r := response{message: message{Role: roleAssistant}}
	add := func(p part) { r.message.Parts = append(r.message.Parts, p) }
	if a.thinking.Len() > 0 {
		add(part{Kind: partThinking, Text: a.thinking.String()})
	}
	if text := a.text.String() + a.refusal.String(); text != "" {
		add(textPart(text))
	}
	for i := range a.calls {
		c := &a.calls[i]
		if c.id == "" {
			c.id = mintedID(turn, i)
		}
		add(part{Kind: partCall, ID: c.id, Tool: c.name, Input: toolInput(string(c.arguments))})
	}
	switch {
	case a.refusal.Len() > 0, a.finish == "content_filter":
		r.stop = stopRefused
	case a.finish == "length":
		r.stop = stopLimit
	}
	return r
}

// minted begins the ids of calls that the vendor gave none.
const minted = "herd-"

func mintedID(turn, i int) string { return fmt.Sprintf("%s%d-%d", minted, turn, i) }

// toolInput is what the model wrote as JSON: as it is, or as a string where it
// is none, which the tool then refuses.
func toolInput(arguments string) json.RawMessage {
	switch {
	case strings.TrimSpace(arguments) == "":
		return json.RawMessage("{}")
	case json.Valid([]byte(arguments)):
		return json.RawMessage(arguments)
	}
	quoted, _ := json.Marshal(arguments) // a string always encodes
	return quoted
}

// toolArguments is toolInput's reverse.
func toolArguments(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil {
		return text
	}
	return string(input)
}

func openAIParams(q question) openAIRequest {
	req := openAIRequest{Model: q.model, Stream: true, StreamOptions: openAIStreamOption{IncludeUsage: true}}
	if len(q.system) > 0 {
		req.Messages = append(req.Messages, openAIMessage{Role: "system", Content: strings.Join(q.system, "\n\n")})
	}
	for _, m := range q.messages {
		req.Messages = append(req.Messages, openAITurn(m)...)
	}
	for _, t := range q.tools {
		req.Tools = append(req.Tools, openAITool{"function", openAIFunction{t.name, t.description, json.RawMessage(t.schema)}})
	}
	if q.answer != nil {
		req.Tools = append(req.Tools, openAITool{"function", openAIFunction{sdk.StructuredTool, structuredDescription, q.answer.input}})
	}
	if q.forced {
		req.ToolChoice = &openAITool{Type: "function", Function: openAIFunction{Name: sdk.StructuredTool}}
	}
	return req
}

// openAITurn is m as the API has it: one message for each tool result, before
// the words that follow them. Thoughts are not sent back.
func openAITurn(m message) []openAIMessage {
	var turn []openAIMessage
	said := openAIMessage{Role: m.Role}
	var text []string
	for _, p := range m.Parts {
		switch p.Kind {
		case partText:
			text = append(text, p.Text)
		case partCall:
			said.ToolCalls = append(said.ToolCalls, openAICall{ID: p.ID, Type: "function", Function: openAIArguments{p.Tool, toolArguments(p.Input)}})
		case partResult:
			turn = append(turn, openAIMessage{Role: "tool", ToolCallID: p.ID, Content: p.Text})
		}
	}
	said.Content = strings.Join(text, "\n\n")
	if said.Content != "" || len(said.ToolCalls) > 0 {
		turn = append(turn, said)
	}
	return turn
}

// openAIError reads the API's error body; status 0: it came inside a stream.
func openAIError(status int, header http.Header, data []byte) *apiFailure {
	var body struct {
		Error struct {
			Message string
			Type    string
			Code    any // text, and a number at some endpoints
		}
	}
	said, code := string(data), ""
	if json.Unmarshal(data, &body) == nil && body.Error.Message != "" {
		said, code = body.Error.Message, fmt.Sprint(body.Error.Code)
	}
	if status == 0 {
		status = openAIStatus(code, body.Error.Type)
	}
	f := apiError(status, header, said)
	if code == "insufficient_quota" { // a 429, as that of a rate limit
		f.cause, f.hint, f.retry = event.CauseBudget, "top up the account at the vendor", false
	}
	return f
}

// openAIStatus is the HTTP status that an error inside a stream stands for.
func openAIStatus(words ...string) int {
	for _, word := range words {
		switch word {
		case "rate_limit_exceeded", "insufficient_quota", "429":
			return 429
		case "invalid_request_error", "context_length_exceeded", "400":
			return 400
		case "server_is_overloaded", "503":
			return 503
		}
	}
	return 500
}
