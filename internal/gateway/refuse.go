package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// refusal is the gateway's own answer. Reason is the word of
// runtimes.GatewayView.LastReason.
type refusal struct {
	status  int
	kind    string // Anthropic's error type
	reason  string
	message string
}

// refuse answers for good: the header keeps CLIs from ten retries in three
// minutes.
func (x *exchange) refuse(no refusal) {
	x.call.Mode = "refused"
	x.w.Header().Set("X-Should-Retry", "false")
	x.fail(no)
}

// fail answers with an error; a CLI may retry it.
func (x *exchange) fail(no refusal) {
	x.call.Status, x.call.Reason = no.status, no.reason
	writeError(x.w, no)
	x.end(nil, time.Time{}, no.message)
}

// writeError writes Anthropic's error shape. The box may be gone; then there is
// nobody to tell.
func writeError(w http.ResponseWriter, no refusal) {
	body, err := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": no.kind, "message": no.message}})
	if err != nil {
		body = []byte(`{"type":"error","error":{"type":"api_error","message":"herd-runner"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(no.status)
	_, _ = w.Write(append(body, '\n'))
}

// cutText cuts s to n bytes, at a character.
func cutText(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "\uFFFD") + "…"
}
