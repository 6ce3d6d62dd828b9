package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/ssestream"

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
	completions openai.ChatCompletionService
}

// newOpenAI makes the service alone: a whole openai.Client reads OPENAI_*.
func newOpenAI(env environment) (*openAIAPI, error) {
	key, base := env.values[sdk.EnvOpenAIKey], env.values[sdk.EnvOpenAIBaseURL]
	if key == "" {
		return nil, noCredential(sdk.EnvOpenAIKey)
	}
	if base == "" {
		base = openAIBaseURL
	}
	return &openAIAPI{completions: openai.NewChatCompletionService(
		option.WithBaseURL(base),
		option.WithAPIKey(key),
		option.WithMaxRetries(0),
		option.WithHTTPClient(modelClient()),
		option.WithHeader("Accept", "text/event-stream"),
		option.WithJSONSet("stream", true),
	)}, nil
}

func (*openAIAPI) modelID(name string) string {
	if name == "" {
		return openAIDefault
	}
	return name
}

// ask reads the stream by itself: the SDK's own reader takes the
// `"error": null` of compatible endpoints for an error.
func (a *openAIAPI) ask(ctx context.Context, q question, alive func()) (response, error) {
	var reply *http.Response
	_, err := a.completions.New(ctx, openAIParams(q), option.WithResponseBodyInto(&reply))
	if reply == nil {
		return response{}, err
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(reply.Body) // what came is what is said
		return response{}, openAIError(reply.StatusCode, reply.Header, data)
	}
	reply.Body = pulse{reply.Body, alive}
	events := ssestream.NewDecoder(reply)
	var got openAIAnswer
	for events.Next() {
		if err := got.add(events.Event().Data); err != nil {
			return response{}, err
		}
	}
	if err := events.Err(); err != nil {
		return response{}, err
	}
	if got.finish == "" {
		return response{}, errShort
	}
	return got.response(len(q.messages)), nil
}

// pulse calls alive for whatever comes of a body: an endpoint that is only
// waiting says so in comments, which are no events.
type pulse struct {
	io.ReadCloser
	alive func()
}

func (p pulse) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if n > 0 {
		p.alive()
	}
	return n, err
}

// openAIAnswer is put together from the pieces of a stream.
type openAIAnswer struct {
	text, thinking, refusal strings.Builder
	calls                   []streamedCall
	finish                  string
}

// streamedCall is a call whose arguments come in pieces.
type streamedCall struct {
	index     int64
	id, name  string
	arguments []byte
}

func (a *openAIAnswer) add(data []byte) error {
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		return nil
	}
	var chunk openai.ChatCompletionChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("%w: %w", errShort, err)
	}
	if fault := chunk.JSON.ExtraFields["error"].Raw(); fault != "" && fault != "null" {
		return openAIError(0, nil, data)
	}
	if len(chunk.Choices) == 0 {
		return nil
	}
	d := chunk.Choices[0].Delta
	a.text.WriteString(d.Content)
	a.refusal.WriteString(d.Refusal)
	a.thinking.WriteString(openAIThought(d))
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

// openAIThought is what the compatible endpoints show of what was thought, in
// fields that OpenAI's API does not have.
func openAIThought(d openai.ChatCompletionChunkChoiceDelta) string {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		var thought string
		if json.Unmarshal([]byte(d.JSON.ExtraFields[field].Raw()), &thought) == nil && thought != "" {
			return thought
		}
	}
	return ""
}

// call is the one a piece belongs to. Some endpoints give all calls the index
// 0; their ids tell them apart.
func (a *openAIAnswer) call(index int64, id string) *streamedCall {
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

func openAIParams(q question) openai.ChatCompletionNewParams {
	p := openai.ChatCompletionNewParams{
		Model:         q.model,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if len(q.system) > 0 {
		p.Messages = append(p.Messages, openai.SystemMessage(strings.Join(q.system, "\n\n")))
	}
	for _, m := range q.messages {
		p.Messages = append(p.Messages, openAITurn(m)...)
	}
	for _, t := range q.tools {
		p.Tools = append(p.Tools, openAITool(t.name, t.description, json.RawMessage(t.schema)))
	}
	if q.answer != nil {
		p.Tools = append(p.Tools, openAITool(sdk.StructuredTool, structuredDescription, q.answer.input))
	}
	if q.forced {
		p.ToolChoice = openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: sdk.StructuredTool})
	}
	return p
}

func openAITool(name, description string, schema json.RawMessage) openai.ChatCompletionToolUnionParam {
	f := openai.FunctionDefinitionParam{Name: name, Description: param.NewOpt(description)}
	f.SetExtraFields(map[string]any{"parameters": schema}) // its own field would sort the schema's keys
	return openai.ChatCompletionFunctionTool(f)
}

// openAITurn is m as the API has it: one message for each tool result, before
// the words that follow them. Thoughts are not sent back.
func openAITurn(m message) []openai.ChatCompletionMessageParamUnion {
	var turn []openai.ChatCompletionMessageParamUnion
	var words []string
	var calls []openai.ChatCompletionMessageToolCallUnionParam
	for _, p := range m.Parts {
		switch p.Kind {
		case partText:
			words = append(words, p.Text)
		case partCall:
			calls = append(calls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       p.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: p.Tool, Arguments: toolArguments(p.Input)},
			}})
		case partResult:
			turn = append(turn, openai.ToolMessage(p.Text, p.ID))
		}
	}
	text := strings.Join(words, "\n\n")
	switch {
	case text == "" && len(calls) == 0:
		return turn
	case m.Role == roleUser:
		return append(turn, openai.UserMessage(text))
	}
	said := openai.ChatCompletionAssistantMessageParam{ToolCalls: calls}
	if text != "" {
		said.Content.OfString = param.NewOpt(text)
	}
	return append(turn, openai.ChatCompletionMessageParamUnion{OfAssistant: &said})
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
