package agent

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// asking is an engine's provider that does not wait between attempts.
func asking(t *testing.T, engine string, answer http.HandlerFunc) *provider {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	p, err := newProvider(engine, newEnvironment(addresses(s.URL), engine))
	if err != nil {
		t.Fatal(err)
	}
	p.sleep = func(context.Context, time.Duration) error { return nil }
	return p
}

// short is a whole answer of an engine, as its stream.
var short = map[string]string{
	sdk.OpenAI: `data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
	sdk.Gemini: `data: {"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}` + "\n\n",
}

func TestAnErrorKeepsItsStatusWhateverItsBody(t *testing.T) {
	bodies := map[string]string{
		"nothing":             "",
		"a page":              "<html>over capacity</html>",
		"no error in it":      `{"detail":"over capacity"}`,
		"the error as a text": `{"error":"over capacity"}`,
		"an error alone":      `{"error":{"message":"over capacity"}}`,
		"a code of its own":   `{"error":{"message":"over capacity","code":"busy","details":null}}`,
	}
	for _, engine := range others {
		for name, body := range bodies {
			t.Run(engine+" "+name, func(t *testing.T) {
				asked := 0
				p := asking(t, engine, func(w http.ResponseWriter, _ *http.Request) {
					asked++
					w.Header().Set("retry-after", "7")
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = io.WriteString(w, body)
				})
				_, err := p.ask(t.Context(), hello(), func() {})
				var f *apiFailure
				if !errors.As(err, &f) || f.status != 503 || f.cause != event.CauseInfrastructure || f.after != 7*time.Second || !f.retry {
					t.Fatalf("%+v", err)
				}
				if !strings.Contains(f.message, "HTTP 503: ") || body != "" && !strings.Contains(f.message, "over capacity") {
					t.Errorf("message %q", f.message)
				}
				if asked != 1 {
					t.Errorf("asked %d times: retries are the provider's", asked)
				}
			})
		}
	}
}

func TestAnErrorWithoutAnEnd(t *testing.T) {
	for _, engine := range append(others, sdk.Anthropic) {
		p := asking(t, engine, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, strings.Repeat("over capacity ", 100))
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		_, err := p.ask(ctx, hello(), func() {})
		var f *apiFailure
		if !errors.As(err, &f) || f.status != 503 || len(f.message) > 2*maxSaid {
			t.Errorf("%s: %.300v", engine, err)
		}
	}
}

// The model is asked through the gateway and with its placeholder, whatever else
// the environment holds.
func TestVendorsReadNoEnvironment(t *testing.T) {
	for _, name := range []string{"OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS",
		"GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"} {
		t.Setenv(name, "http://stray.invalid")
	}
	t.Setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
	t.Setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
	for _, engine := range others {
		var sent http.Header
		p := asking(t, engine, func(w http.ResponseWriter, r *http.Request) {
			sent = r.Header
			w.Header().Set("content-type", "text/event-stream")
			_, _ = io.WriteString(w, short[engine])
		})
		if _, err := p.ask(t.Context(), hello(), func() {}); err != nil {
			t.Fatalf("%s: %v", engine, err)
		}
		credential := map[string]string{sdk.OpenAI: sent.Get("Authorization"), sdk.Gemini: "Bearer " + sent.Get("X-Goog-Api-Key")}[engine]
		if credential != "Bearer placeholder" {
			t.Errorf("%s: credential %q", engine, credential)
		}
		for name, values := range sent {
			if strings.Contains(strings.Join(values, " "), "stray") {
				t.Errorf("%s: header %s: %q", engine, name, values)
			}
		}
	}
}

// OpenRouter, for one, says in comments that it is waiting for a model.
func TestACommentInAStreamIsASignOfLife(t *testing.T) {
	heard := make(chan struct{})
	p := asking(t, sdk.OpenAI, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("content-type", "text/event-stream")
		_, _ = io.WriteString(w, ": waiting\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-heard:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, short[sdk.OpenAI])
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lives := 0
	r, err := p.ask(ctx, hello(), func() {
		if lives++; lives == 1 {
			close(heard)
		}
	})
	if err != nil || len(r.message.Parts) != 1 || r.message.Parts[0].Text != "ok" {
		t.Errorf("%+v, %v", r, err)
	}
}
