package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

const (
	geminiDefault = "gemini-3.5-flash"
	geminiBaseURL = "https://generativelanguage.googleapis.com"
)

// geminiAPI is Gemini's streamGenerateContent.
type geminiAPI struct {
	base, key string
}

func newGemini(env environment) (*geminiAPI, error) {
	a := &geminiAPI{base: env.values[sdk.EnvGeminiBaseURL], key: env.values[sdk.EnvGeminiKey]}
	if a.key == "" {
		return nil, noCredential(sdk.EnvGeminiKey)
	}
	if a.base == "" {
		a.base = geminiBaseURL
	}
	return a, nil
}

func (*geminiAPI) modelID(name string) string {
	if name == "" {
		return geminiDefault
	}
	return strings.TrimPrefix(name, "models/")
}

// The API's own words (GenerateContentRequest and -Response).
type (
	geminiRequest struct {
		Contents          []geminiContent   `json:"contents"`
		SystemInstruction *geminiContent    `json:"systemInstruction,omitempty"`
		Tools             []geminiTools     `json:"tools,omitempty"`
		ToolConfig        *geminiToolConfig `json:"toolConfig,omitempty"`
	}
	geminiContent struct {
		Role  string       `json:"role,omitempty"` // "user" or "model"
		Parts []geminiPart `json:"parts"`
	}
	geminiPart struct {
		Text             string                `json:"text,omitempty"`
		Thought          bool                  `json:"thought,omitempty"`
		ThoughtSignature string                `json:"thoughtSignature,omitempty"`
		FunctionCall     *geminiFunctionCall   `json:"functionCall,omitempty"`
		FunctionResponse *geminiFunctionResult `json:"functionResponse,omitempty"`
	}
	geminiFunctionCall struct {
		ID   string          `json:"id,omitempty"`
		Name string          `json:"name"`
		Args json.RawMessage `json:"args,omitempty"`
	}
	geminiFunctionResult struct {
		ID       string            `json:"id,omitempty"`
		Name     string            `json:"name"`
		Response map[string]string `json:"response"` // "output" or "error"
	}
	geminiTools struct {
		FunctionDeclarations []geminiFunction `json:"functionDeclarations"`
	}
	geminiFunction struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parametersJsonSchema"`
	}
	geminiToolConfig struct {
		FunctionCallingConfig geminiCalling `json:"functionCallingConfig"`
	}
	geminiCalling struct {
		Mode                 string   `json:"mode"`
		AllowedFunctionNames []string `json:"allowedFunctionNames"`
	}
	geminiChunk struct {
		Candidates []struct {
			Content      geminiContent `json:"content"`
			FinishReason string        `json:"finishReason"`
		} `json:"candidates"`
		PromptFeedback struct {
			BlockReason string `json:"blockReason"`
		} `json:"promptFeedback"`
		Error *geminiFault `json:"error"`
	}
	geminiFault struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Reason     string `json:"reason"`
			RetryDelay string `json:"retryDelay"` // "7s"
		} `json:"details"`
	}
)

func (a *geminiAPI) ask(ctx context.Context, q question, alive func()) (response, error) {
	address := strings.TrimSuffix(a.base, "/") + "/v1beta/models/" + url.PathEscape(q.model) + ":streamGenerateContent?alt=sse"
	got := geminiAnswer{turn: len(q.messages), response: response{message: message{Role: roleAssistant}}}
	err := postEvents(ctx, address, http.Header{"X-Goog-Api-Key": {a.key}}, geminiParams(q), geminiError, alive, got.add)
	if err != nil {
		return response{}, err
	}
	switch got.finish {
	case "", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE":
		return response{}, errShort
	}
	return got.response, nil
}

// geminiAnswer is put together from the pieces of a stream.
type geminiAnswer struct {
	response
	turn   int // of the conversation, for ids of calls without one
	finish string
}

func (a *geminiAnswer) add(data []byte) error {
	var chunk geminiChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return fmt.Errorf("%w: %w", errShort, err)
	}
	if chunk.Error != nil {
		return geminiError(chunk.Error.Code, nil, data)
	}
	if reason := chunk.PromptFeedback.BlockReason; reason != "" {
		a.message.Parts = append(a.message.Parts, textPart("the prompt was blocked: "+reason))
		a.finish, a.stop = reason, stopRefused
	}
	if len(chunk.Candidates) == 0 {
		return nil
	}
	c := chunk.Candidates[0]
	a.message.addGemini(c.Content.Parts, a.turn)
	if c.FinishReason != "" {
		a.finish, a.stop = c.FinishReason, geminiStop(c.FinishReason)
	}
	return nil
}

func geminiStop(reason string) stopReason {
	switch reason {
	case "MAX_TOKENS":
		return stopLimit
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return stopRefused
	}
	return stopDone
}

// addGemini adds the parts of one piece of a stream. Words come in many pieces
// and are one part, unless sealed.
func (m *message) addGemini(parts []geminiPart, turn int) {
	for _, p := range parts {
		switch {
		case p.FunctionCall != nil:
			id := p.FunctionCall.ID
			if id == "" {
				id = mintedID(turn, len(m.Parts))
			}
			m.Parts = append(m.Parts, part{Kind: partCall, ID: id, Tool: p.FunctionCall.Name, Input: toolInput(string(p.FunctionCall.Args)), Seal: p.ThoughtSignature})
		case p.Text != "" || p.ThoughtSignature != "":
			kind := partText
			if p.Thought {
				kind = partThinking
			}
			if n := len(m.Parts); n > 0 && m.Parts[n-1].Kind == kind && m.Parts[n-1].Seal == "" {
				m.Parts[n-1].Text += p.Text
				m.Parts[n-1].Seal = p.ThoughtSignature
				continue
			}
			m.Parts = append(m.Parts, part{Kind: kind, Text: p.Text, Seal: p.ThoughtSignature})
		}
	}
}

func geminiParams(q question) geminiRequest {
	var req geminiRequest
	if len(q.system) > 0 {
		req.SystemInstruction = &geminiContent{Parts: []geminiPart{{Text: strings.Join(q.system, "\n\n")}}}
	}
	for _, m := range q.messages {
		if c := geminiTurn(m); len(c.Parts) > 0 {
			req.Contents = append(req.Contents, c)
		}
	}
	var functions []geminiFunction
	for _, t := range q.tools {
		functions = append(functions, geminiFunction{t.name, t.description, json.RawMessage(t.schema)})
	}
	if q.answer != nil {
		functions = append(functions, geminiFunction{sdk.StructuredTool, structuredDescription, q.answer.input})
	}
	if len(functions) > 0 {
		req.Tools = []geminiTools{{functions}}
	}
	if q.forced {
		req.ToolConfig = &geminiToolConfig{geminiCalling{Mode: "ANY", AllowedFunctionNames: []string{sdk.StructuredTool}}}
	}
	return req
}

func geminiTurn(m message) geminiContent {
	c := geminiContent{Role: "user"}
	if m.Role == roleAssistant {
		c.Role = "model"
	}
	for _, p := range m.Parts {
		out := geminiPart{ThoughtSignature: p.Seal}
		switch p.Kind {
		case partThinking:
			if p.Seal == "" {
				continue // thoughts are for the reader; only their seal is wanted back
			}
			out.Text, out.Thought = p.Text, true
		case partCall:
			out.FunctionCall = &geminiFunctionCall{ID: vendorID(p.ID), Name: p.Tool, Args: p.Input}
		case partResult:
			key := "output"
			if p.IsError {
				key = "error"
			}
			out.FunctionResponse = &geminiFunctionResult{ID: vendorID(p.ID), Name: p.Tool, Response: map[string]string{key: p.Text}}
		default:
			out.Text = p.Text
		}
		c.Parts = append(c.Parts, out)
	}
	return c
}

// vendorID is the id as the vendor gave it; "" where it gave none.
func vendorID(id string) string {
	if strings.HasPrefix(id, minted) {
		return ""
	}
	return id
}

// geminiError reads the API's error body.
func geminiError(status int, header http.Header, data []byte) *apiFailure {
	var body struct {
		Error geminiFault `json:"error"`
	}
	said := string(data)
	if json.Unmarshal(data, &body) == nil && body.Error.Message != "" {
		said = body.Error.Message
	}
	var after time.Duration
	for _, d := range body.Error.Details {
		if d.Reason == "API_KEY_INVALID" {
			status = http.StatusUnauthorized // the API says 400
		}
		if wish, err := time.ParseDuration(d.RetryDelay); err == nil && wish > 0 {
			after = wish
		}
	}
	if status < 400 {
		status = http.StatusInternalServerError
	}
	f := apiError(status, header, said)
	if f.after == 0 {
		f.after = after
	}
	return f
}
