package gateway

import (
	"fmt"
	"strings"
	"testing"
)

const start = `data: {"type":"message_start","message":{"usage":{"input_tokens":10,"cache_read_input_tokens":3,"cache_creation_input_tokens":4,"cache_creation":{"ephemeral_1h_input_tokens":1},"output_tokens":1}}}` + "\n\n"
const end = `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":25}}` + "\n\ndata: {\"type\":\"message_stop\"}\n\n"

func TestMeterCountsWhatPasses(t *testing.T) {
	full := tokens{input: 10, output: 25, cacheRead: 3, cacheWrite: 4, cacheWrite1h: 1}
	for _, tc := range []struct {
		name, body string
		want       tokens
		stop       string
	}{
		{"whole", start + end, full, "end_turn"},
		{"carriage returns", strings.ReplaceAll(start+end, "\n", "\r\n"), full, "end_turn"},
		{"cut short", start, tokens{input: 10, output: 1, cacheRead: 3, cacheWrite: 4, cacheWrite1h: 1}, ""},
		{"quoted in model text", start + `data: {"type":"content_block_delta","delta":{"text":"data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":99999}}"}}` + "\n\n" + end, full, "end_turn"},
		{"counts that go down", start + `data: {"type":"message_delta","usage":{"input_tokens":1,"output_tokens":-5}}` + "\n\n" + end, full, "end_turn"},
		{"absurd numbers", `data: {"type":"message_delta","usage":{"output_tokens":9223372036854775807}}` + "\n", tokens{output: maxTokens}, ""},
		{"too big for a number", start + `data: {"type":"message_delta","usage":{"output_tokens":1e400}}` + "\n" + end, full, "end_turn"},
		{"a line without end", start + "data: " + strings.Repeat("x", maxEventLine+1) + "\n" + end, full, "end_turn"},
		{"no JSON", "data: {message_delta\n" + start + end, full, "end_turn"},
		{"nothing", "", tokens{}, ""},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			if size == 1 && len(tc.body) > 1<<20 {
				continue
			}
			t.Run(fmt.Sprintf("%s by %d", tc.name, size), func(t *testing.T) {
				m := messages.newMeter(200, "text/event-stream; charset=utf-8")
				for rest := tc.body; rest != ""; {
					n := min(size, len(rest))
					m.write([]byte(rest[:n]))
					rest = rest[n:]
					if cap(m.buf) > 4*maxEventLine {
						t.Fatalf("it holds %d bytes", cap(m.buf))
					}
				}
				m.close()
				if m.tokens != tc.want || m.stop != tc.stop {
					t.Errorf("%+v %q", m.tokens, m.stop)
				}
			})
		}
	}
}

func TestMeterReadsDocuments(t *testing.T) {
	m := messages.newMeter(200, "application/json")
	m.write([]byte(`{"type":"message","stop_reason":"max_tokens","usage":{"input_tokens":5,`))
	m.write([]byte(`"output_tokens":6}}`))
	m.close()
	if want := (tokens{input: 5, output: 6}); m.tokens != want || m.stop != "max_tokens" || !m.counted {
		t.Errorf("%+v", m)
	}
	m = messages.newMeter(400, "application/json")
	m.write([]byte(`{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`))
	m.close()
	if m.message != "no" || m.counted {
		t.Errorf("%+v", m)
	}
}

func TestRequestTopLevel(t *testing.T) {
	for in, want := range map[string]string{
		`{"model":"m","stream":true,"messages":[{"content":"a \"]} \\"}],"tools":[],"x":{"model":"other"}}`: "m",
		` {"x": 1.5e3 , "model" : "m" } `: "m",
		`{"mod\u0065l":"m"}`:              "m",
	} {
		r, err := messages.readRequest(endpoint{}, []byte(in))
		if err != nil || r.model != want {
			t.Errorf("%s: %q %v", in, r.model, err)
		}
	}
	for _, in := range []string{``, `[]`, `{`, `{"model"`, `{"model":`, `{"model":"m"`, `{"model":"m"}x`, `{"model":"m","model":"n"}`, `{"model":1}`, `{"Model":"m"}`,
		`{model:"m"}`, `{"model":"m","x":"}`, `{"model":"m",,}`, `{"stream":"yes","model":"m"}`, `{"model":"m","x":[}`} {
		if r, err := messages.readRequest(endpoint{}, []byte(in)); err == nil {
			t.Errorf("%s: %+v", in, r)
		}
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(hello("x")))
	f.Add([]byte(`{"model":"m","a":[{"b":"\\\""}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := messages.readRequest(endpoint{}, body)
		if err != nil {
			return
		}
		_, _ = messages.readTurn(req)
	})
}
