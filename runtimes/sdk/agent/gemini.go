package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/herd-runner/herd-runner/internal/event"
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

// ask makes a client of its own for each request, since a reply is that of one.
// With backend, key and address given the SDK takes nothing from the environment.
// It panics over values of another kind than the API's.
func (a *geminiAPI) ask(ctx context.Context, q question, alive func()) (answer response, err error) {
	defer func() {
		if odd := recover(); odd != nil {
			answer, err = response{}, fmt.Errorf("%w: it is not in the API's format: %v", errShort, odd)
		}
	}()
	reply := &geminiReply{}
	client, err := genai.NewClient(ctx, &genai.ClientConfig{
		Backend:     genai.BackendGeminiAPI,
		APIKey:      a.key,
		HTTPOptions: genai.HTTPOptions{BaseURL: a.base},
		HTTPClient:  &http.Client{Transport: reply},
	})
	if err != nil {
		return response{}, err
	}
	contents, config := geminiParams(q)
	got := geminiAnswer{turn: len(q.messages), response: response{message: message{Role: roleAssistant}}}
	for chunk, err := range client.Models.GenerateContentStream(ctx, q.model, contents, config) {
		if err != nil {
			return response{}, reply.failure(err)
		}
		alive()
		got.add(chunk)
	}
	if reply.broken != nil {
		return response{}, reply.failure(reply.broken)
	}
	switch got.finish {
	case "", genai.FinishReasonMalformedFunctionCall, "MALFORMED_RESPONSE":
		return response{}, errShort
	}
	return got.response, nil
}

// geminiReply is the transport of one request. It notes what the SDK's errors
// lack, and what breaks off the answer, which the SDK would print.
type geminiReply struct {
	status int // 0: no answer
	header http.Header
	broken error // of the body
	body   io.ReadCloser
}

func (r *geminiReply) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := modelTransport{}.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	r.status, r.header, r.body = resp.StatusCode, resp.Header, resp.Body
	resp.Body = r
	return resp, nil
}

func (r *geminiReply) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF {
		r.broken, err = err, io.EOF
	}
	return n, err
}

func (r *geminiReply) Close() error { return r.body.Close() }

// failure is err of the SDK: an *apiFailure where the API gave it or the request
// was never sent, errShort where it broke the answer off.
func (r *geminiReply) failure(err error) error {
	var said genai.APIError
	switch {
	case errors.As(err, &said) && r.status >= 400:
		return geminiError(r.status, r.header, said)
	case errors.As(err, &said):
		return geminiError(said.Code, nil, said)
	case r.status != 0:
		return fmt.Errorf("%w: %w", errShort, err)
	case errors.As(err, new(*url.Error)):
		return err
	}
	return &apiFailure{failure: failure{cause: event.CauseExitCode, message: "the request can not be sent: " + err.Error(), hint: "set `model:` in `runtime:` to a model of Gemini's"}}
}

// geminiAnswer is put together from the pieces of a stream.
type geminiAnswer struct {
	response
	turn   int // of the conversation, for ids of calls without one
	finish genai.FinishReason
}

func (a *geminiAnswer) add(chunk *genai.GenerateContentResponse) {
	if f := chunk.PromptFeedback; f != nil && f.BlockReason != "" {
		a.message.Parts = append(a.message.Parts, textPart("the prompt was blocked: "+string(f.BlockReason)))
		a.finish, a.stop = genai.FinishReason(f.BlockReason), stopRefused
	}
	if len(chunk.Candidates) == 0 {
		return
	}
	c := chunk.Candidates[0]
	if c.Content != nil {
		a.message.addGemini(c.Content.Parts, a.turn)
	}
	if c.FinishReason != "" {
		a.finish, a.stop = c.FinishReason, geminiStop(c.FinishReason)
	}
}

func geminiStop(reason genai.FinishReason) stopReason {
	switch reason {
	case genai.FinishReasonMaxTokens, genai.FinishReasonContinuation:
		return stopLimit
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonBlocklist, genai.FinishReasonProhibitedContent, genai.FinishReasonSPII:
		return stopRefused
	}
	return stopDone
}

// addGemini adds the parts of one piece of a stream. Words come in many pieces
// and are one part, unless sealed.
func (m *message) addGemini(parts []*genai.Part, turn int) {
	for _, p := range parts {
		seal := base64.StdEncoding.EncodeToString(p.ThoughtSignature)
		switch {
		case p.FunctionCall != nil:
			id := p.FunctionCall.ID
			if id == "" {
				id = mintedID(turn, len(m.Parts))
			}
			input := json.RawMessage("{}")
			if len(p.FunctionCall.Args) > 0 {
				input, _ = json.Marshal(p.FunctionCall.Args) // it was JSON
			}
			m.Parts = append(m.Parts, part{Kind: partCall, ID: id, Tool: p.FunctionCall.Name, Input: input, Seal: seal})
		case p.Text != "" || seal != "":
			kind := partText
			if p.Thought {
				kind = partThinking
			}
			if n := len(m.Parts); n > 0 && m.Parts[n-1].Kind == kind && m.Parts[n-1].Seal == "" {
				m.Parts[n-1].Text += p.Text
				m.Parts[n-1].Seal = seal
				continue
			}
			m.Parts = append(m.Parts, part{Kind: kind, Text: p.Text, Seal: seal})
		}
	}
}

func geminiParams(q question) ([]*genai.Content, *genai.GenerateContentConfig) {
	// A stream that breaks is asked for again by the provider, not gone on with.
	config := &genai.GenerateContentConfig{AutomaticContinuation: genai.Ptr(false)}
	if len(q.system) > 0 {
		config.SystemInstruction = &genai.Content{Parts: []*genai.Part{{Text: strings.Join(q.system, "\n\n")}}}
	}
	var contents []*genai.Content
	for _, m := range q.messages {
		if c := geminiTurn(m); len(c.Parts) > 0 {
			contents = append(contents, c)
		}
	}
	var functions []*genai.FunctionDeclaration
	for _, t := range q.tools {
		functions = append(functions, &genai.FunctionDeclaration{Name: t.name, Description: t.description, ParametersJsonSchema: json.RawMessage(t.schema)})
	}
	if q.answer != nil {
		functions = append(functions, &genai.FunctionDeclaration{Name: sdk.StructuredTool, Description: structuredDescription, ParametersJsonSchema: q.answer.input})
	}
	if len(functions) > 0 {
		config.Tools = []*genai.Tool{{FunctionDeclarations: functions}}
	}
	if q.forced {
		config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{
			Mode: genai.FunctionCallingConfigModeAny, AllowedFunctionNames: []string{sdk.StructuredTool}}}
	}
	return contents, config
}

func geminiTurn(m message) *genai.Content {
	c := &genai.Content{Role: genai.RoleUser}
	if m.Role == roleAssistant {
		c.Role = genai.RoleModel
	}
	for _, p := range m.Parts {
		seal, _ := base64.StdEncoding.DecodeString(p.Seal) // Gemini's, or none
		out := &genai.Part{ThoughtSignature: seal}
		switch p.Kind {
		case partThinking:
			if len(seal) == 0 {
				continue // thoughts are for the reader; only their seal is wanted back
			}
			out.Text, out.Thought = p.Text, true
		case partCall:
			out.FunctionCall = &genai.FunctionCall{ID: vendorID(p.ID), Name: p.Tool, Args: geminiArgs(p.Input)}
		case partResult:
			key := "output"
			if p.IsError {
				key = "error"
			}
			out.FunctionResponse = &genai.FunctionResponse{ID: vendorID(p.ID), Name: p.Tool, Response: map[string]any{key: p.Text}}
		default:
			out.Text = p.Text
		}
		c.Parts = append(c.Parts, out)
	}
	return c
}

// geminiArgs is a tool's input as the API takes it, which is an object; what
// another vendor's model wrote may be none.
func geminiArgs(input json.RawMessage) map[string]any {
	var args map[string]any
	if json.Unmarshal(input, &args) != nil {
		return map[string]any{"input": input}
	}
	return args
}

// vendorID is the id as the vendor gave it; "" where it gave none.
func vendorID(id string) string {
	if strings.HasPrefix(id, minted) {
		return ""
	}
	return id
}

// geminiError is what the API said, with the status and header of the answer.
func geminiError(status int, header http.Header, said genai.APIError) *apiFailure {
	var after time.Duration
	for _, d := range said.Details {
		if d["reason"] == "API_KEY_INVALID" {
			status = http.StatusUnauthorized // the API says 400
		}
		wish, _ := d["retryDelay"].(string) // "7s"
		if d, err := time.ParseDuration(wish); err == nil && d > 0 {
			after = d
		}
	}
	if status < 400 {
		status = http.StatusInternalServerError
	}
	f := apiError(status, header, said.Message)
	if f.after == 0 {
		f.after = after
	}
	return f
}
