package gateway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// maxMissMessage bounds the explanation of a replay miss in bytes.
const maxMissMessage = 6 << 10

// replay answers from the cassette.
func (x *exchange) replay() {
	t, err := x.dialect.readTurn(x.req)
	if err != nil {
		x.refuse(refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "request", message: "herd-runner: " + err.Error()})
		return
	}
	t.Lines = cleanAll(t.Lines, x.s.scrubber.clean) // as they were recorded
	agent := x.dialect.agent(x.r.Header)
	rec, no := x.s.player.find(agent, t)
	if no != nil {
		x.call.Usage.Requests = 0
		x.refuse(refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "replay_miss", message: cutText(no.explain(x.s.lane, agent, t), maxMissMessage)})
		return
	}
	h := x.w.Header()
	for k, v := range rec.Response.Headers {
		h.Set(k, v)
	}
	body := rec.Response.body(t.Workdir)
	x.call.Status = rec.Response.Status
	x.w.WriteHeader(rec.Response.Status)
	_, _ = x.w.Write(body) // the box may be gone: its own loss
	m := x.dialect.newMeter(rec.Response.Status, rec.Response.Headers["content-type"])
	m.write(body)
	m.close()
	message := m.message
	switch {
	case rec.Response.Broken:
		x.call.Reason, message = "upstream", "the recorded answer was broken off"
	default:
		x.call.Reason = m.why(rec.Response.Status)
	}
	resp := &http.Response{StatusCode: rec.Response.Status, Header: h}
	x.end(m, x.s.gw.retryAt(resp, m), message)
	if rec.Response.Broken {
		_ = http.NewResponseController(x.w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// body is the answer as it was, for the box's own working directory.
func (p recordedResponse) body(workdir string) []byte {
	if workdir == "" {
		workdir = "."
	}
	text := strings.Join(p.Lines, "\n")
	if p.JSON != nil {
		var b bytes.Buffer
		if json.Compact(&b, p.JSON) == nil {
			text = b.String()
		}
	}
	return []byte(strings.ReplaceAll(text, workdirPlaceholder, workdir))
}
