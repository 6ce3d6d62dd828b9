package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// anthropicAPI is Anthropic's Messages API.
type anthropicAPI struct {
	messages anthropic.MessageService
}

func newAnthropic(env environment) (*anthropicAPI, error) {
	opts := []option.RequestOption{option.WithoutEnvironmentDefaults(), option.WithMaxRetries(0), option.WithHTTPClient(modelClient())}
	if base := env.values[sdk.EnvBaseURL]; base != "" {
		opts = append(opts, option.WithBaseURL(base))
	}
	switch key, token := env.values[sdk.EnvAPIKey], env.values[sdk.EnvOAuthToken]; {
	case key != "":
		opts = append(opts, option.WithAPIKey(key))
	case token != "":
		opts = append(opts, option.WithAuthToken(token), option.WithHeader("anthropic-beta", "oauth-2025-04-20"))
	default:
		return nil, noCredential(sdk.EnvAPIKey, sdk.EnvOAuthToken)
	}
	client := anthropic.NewClient(opts...)
	return &anthropicAPI{messages: client.Messages}, nil
}

func (a *anthropicAPI) ask(ctx context.Context, q question, alive func()) (response, error) {
	stream := a.messages.NewStreaming(ctx, anthropicParams(q))
	defer stream.Close()
	msg, stopped := &anthropic.Message{}, false
	for stream.Next() {
		alive()
		e := stream.Current()
		stopped = stopped || e.Type == "message_stop"
		if err := msg.Accumulate(e); err != nil {
			return response{}, fmt.Errorf("%w: %w", errShort, err)
		}
	}
	if err := stream.Err(); err != nil {
		return response{}, anthropicError(err)
	}
	if !stopped || msg.StopReason == "" {
		return response{}, errShort
	}
	return response{message: anthropicMessage(msg), stop: anthropicStop(msg.StopReason)}, nil
}

func anthropicStop(reason anthropic.StopReason) stopReason {
	switch reason {
	case anthropic.StopReasonRefusal:
		return stopRefused
	case anthropic.StopReasonModelContextWindowExceeded:
		return stopWindow
	case anthropic.StopReasonPauseTurn:
		return stopPaused
	case anthropic.StopReasonMaxTokens:
		return stopLimit
	}
	return stopDone
}

func anthropicMessage(msg *anthropic.Message) message {
	m := message{Role: roleAssistant}
	for _, b := range msg.Content {
		switch b.Type {
		case "text":
			if b.Text != "" { // the API refuses to be sent empty text
				m.Parts = append(m.Parts, textPart(b.Text))
			}
		case "thinking":
			m.Parts = append(m.Parts, part{Kind: partThinking, Text: b.Thinking, Seal: b.Signature})
		case "redacted_thinking":
			m.Parts = append(m.Parts, part{Kind: partThinking, Seal: b.Data})
		case "tool_use":
			m.Parts = append(m.Parts, part{Kind: partCall, ID: b.ID, Tool: b.Name, Input: b.Input})
		}
	}
	return m
}

// anthropicParams is the request. Cache marks stand behind the tools and system
// prompt, and behind the last turn; a request may have four.
func anthropicParams(q question) anthropic.MessageNewParams {
	p := anthropic.MessageNewParams{Model: q.model, MaxTokens: maxOutput(q.model)}
	for _, text := range q.system {
		p.System = append(p.System, anthropic.TextBlockParam{Text: text})
	}
	if n := len(p.System); n > 0 {
		// One mark caches tools and system prompt: tools come first in the request.
		p.System[n-1].CacheControl = anthropic.NewCacheControlEphemeralParam()
	}
	for i, m := range q.messages {
		p.Messages = append(p.Messages, anthropicTurn(m, i == len(q.messages)-1))
	}
	for _, t := range q.tools {
		p.Tools = append(p.Tools, anthropicTool(t.name, t.description, json.RawMessage(t.schema)))
	}
	if q.answer != nil {
		p.Tools = append(p.Tools, anthropicTool(sdk.StructuredTool, structuredDescription, q.answer.input))
	}
	if q.forced {
		p.ToolChoice = anthropic.ToolChoiceParamOfTool(sdk.StructuredTool)
	}
	return p
}

func anthropicTool(name, description string, schema json.RawMessage) anthropic.ToolUnionParam {
	return anthropic.ToolUnionParam{OfTool: &anthropic.ToolParam{
		Name:        name,
		Description: param.NewOpt(description),
		InputSchema: param.Override[anthropic.ToolInputSchemaParam](schema),
	}}
}

// anthropicTurn is m with a cache mark behind it where it is the last.
func anthropicTurn(m message, last bool) anthropic.MessageParam {
	var blocks []anthropic.ContentBlockParamUnion
	for _, p := range m.Parts {
		blocks = append(blocks, anthropicBlock(p))
	}
	if last && len(blocks) > 0 {
		switch b := blocks[len(blocks)-1]; {
		case b.OfText != nil:
			b.OfText.CacheControl = anthropic.NewCacheControlEphemeralParam()
		case b.OfToolResult != nil:
			b.OfToolResult.CacheControl = anthropic.NewCacheControlEphemeralParam()
		}
	}
	if m.Role == roleAssistant {
		return anthropic.NewAssistantMessage(blocks...)
	}
	return anthropic.NewUserMessage(blocks...)
}

func anthropicBlock(p part) anthropic.ContentBlockParamUnion {
	switch {
	case p.Kind == partThinking && p.Text == "":
		return anthropic.NewRedactedThinkingBlock(p.Seal)
	case p.Kind == partThinking:
		return anthropic.NewThinkingBlock(p.Seal, p.Text)
	case p.Kind == partCall:
		return anthropic.NewToolUseBlock(p.ID, p.Input, p.Tool)
	case p.Kind == partResult:
		b := anthropic.NewToolResultBlock(p.ID, p.Text, p.IsError)
		if !p.IsError {
			b.OfToolResult.IsError = param.Opt[bool]{}
		}
		return b
	}
	return anthropic.NewTextBlock(p.Text)
}

// anthropicError is err as an *apiFailure where the API gave it.
func anthropicError(err error) error {
	var api *anthropic.Error
	if !errors.As(err, &api) {
		return err
	}
	status := api.StatusCode
	if status < 400 { // an error inside a stream
		status = anthropicStatus(string(api.Type()))
	}
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	said := api.RawJSON()
	if json.Unmarshal([]byte(said), &body) == nil && body.Error.Message != "" {
		said = body.Error.Message
	}
	if api.Response == nil {
		return apiError(status, nil, said)
	}
	return apiError(status, api.Response.Header, said)
}

// anthropicStatus is the HTTP status that the type of an error stands for.
func anthropicStatus(typ string) int {
	switch typ {
	case "overloaded_error":
		return 529
	case "rate_limit_error":
		return 429
	case "authentication_error":
		return 401
	case "permission_error":
		return 403
	case "invalid_request_error":
		return 400
	}
	return 500
}

// modelID turns the short names of models into the API's.
func (*anthropicAPI) modelID(name string) string {
	switch name {
	case "", "sonnet":
		return anthropic.ModelClaudeSonnet5_5
	case "opus":
		return anthropic.ModelClaudeOpus5_5
	case "haiku":
		return anthropic.ModelClaudeHaiku5_5
	}
	return name
}

// maxOutput is the output limit to ask for, in tokens.
func maxOutput(model string) int64 {
	switch {
	case strings.HasPrefix(model, "claude-3-5"):
		return 8192
	case strings.HasPrefix(model, "claude-3-7"):
		return 32000
	case strings.HasPrefix(model, "claude-3-"):
		return 4096
	case strings.HasPrefix(model, "claude-"):
		return 32000
	}
	return 8192
}
