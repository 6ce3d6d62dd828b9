package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// reply is one scripted answer of the model server.
type reply struct {
	status  int               // 0: 200 and an event stream
	header  map[string]string // of an error
	message string            // of an error
	blocks  []string          // content blocks as JSON
	stop    string            // stop reason; "" with blocks: by the blocks
	raw     string            // the stream's bytes, instead of blocks
}

func says(text string) reply {
	b, _ := json.Marshal(map[string]any{"type": "text", "text": text})
	return reply{blocks: []string{string(b)}}
}

func calls(pairs ...string) reply {
	var r reply
	for i := 0; i < len(pairs); i += 2 {
		r.blocks = append(r.blocks, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":%s}`, i/2, pairs[i], pairs[i+1]))
	}
	return r
}

func fails(status int, message string, header ...string) reply {
	r := reply{status: status, message: message, header: map[string]string{}}
	for i := 0; i+1 < len(header); i += 2 {
		r.header[header[i]] = header[i+1]
	}
	return r
}

// modelServer answers with its script, one reply per request, and fails the
// test on a request too many.
type modelServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // bodies
	headers  []http.Header
}

func serve(t *testing.T, script ...reply) *modelServer {
	t.Helper()
	s := &modelServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, string(body))
		s.headers = append(s.headers, r.Header.Clone())
		s.mu.Unlock()
		if r.URL.Path != "/v1/messages" || n >= len(script) {
			t.Errorf("request %d to %s is not in the script:\n%s", n+1, r.URL.Path, body)
			http.Error(w, "not in the script", http.StatusNotImplemented)
			return
		}
		script[n].write(w)
	}))
	t.Cleanup(s.Close)
	return s
}

func (r reply) write(w http.ResponseWriter) {
	if r.status != 0 {
		w.Header().Set("content-type", "application/json")
		for k, v := range r.header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(r.status)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": "x", "message": r.message}})
		return
	}
	w.Header().Set("content-type", "text/event-stream")
	if r.raw != "" {
		_, _ = io.WriteString(w, r.raw)
		return
	}
	_, _ = io.WriteString(w, r.stream())
}

// stream is the reply as the API streams it: text and tool input in pieces.
func (r reply) stream() string {
	var b strings.Builder
	send := func(typ, data string) { fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", typ, data) }
	send("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}`)
	stop := "end_turn"
	for i, raw := range r.blocks {
		var block map[string]any
		_ = json.Unmarshal([]byte(raw), &block)
		var delta map[string]any
		switch block["type"] {
		case "text":
			delta = map[string]any{"type": "text_delta", "text": block["text"]}
			block["text"] = ""
		case "thinking":
			delta = map[string]any{"type": "thinking_delta", "thinking": block["thinking"]}
			block["thinking"] = ""
		case "tool_use":
			stop = "tool_use"
			input, _ := json.Marshal(block["input"])
			delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
			block["input"] = map[string]any{}
		}
		start, _ := json.Marshal(map[string]any{"type": "content_block_start", "index": i, "content_block": block})
		send("content_block_start", string(start))
		piece, _ := json.Marshal(map[string]any{"type": "content_block_delta", "index": i, "delta": delta})
		send("content_block_delta", string(piece))
		send("content_block_stop", fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
	}
	if r.stop != "" {
		stop = r.stop
	}
	send("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":5}}`, stop))
	send("message_stop", `{"type":"message_stop"}`)
	return b.String()
}
