package gateway

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// refusal is the gateway's own answer. Reason is the word of
// runtimes.GatewayView.LastReason.
type refusal struct {
	status  int
	kind    string // Anthropic's error type; each vendor puts it in words of its own
	reason  string
	message string
	retryAt time.Time // when a rate limit ends; zero: there is none
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
	status, body := x.dialect.refusal(no)
	x.call.Status, x.call.Reason = status, no.reason
	x.w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests && !no.retryAt.IsZero() { // OpenCode waits for it after a 400 too
		seconds := max(1, int64(math.Ceil(no.retryAt.Sub(x.s.gw.clock()).Seconds())))
		x.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	x.w.WriteHeader(status)
	// The box may be gone; then there is nobody to tell.
	_ = json.NewEncoder(x.w).Encode(body)
	x.end(nil, no.retryAt, no.message)
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
