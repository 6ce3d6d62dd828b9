package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkFirstByte compares the time to the first byte of an answer with and
// without the gateway, for a request of the size the Claude CLI sends.
func BenchmarkFirstByte(b *testing.B) {
	up := newUpstream(b, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: ping\ndata: {}\n\n")
	})
	padding := strings.Repeat(`\"quoted\" text `, 120_000/16)
	body := `{"system":"` + padding + `",` + hello("x")[1:]
	run := func(b *testing.B, url string, headers http.Header) {
		c := client()
		buf := make([]byte, 1)
		for b.Loop() {
			r, err := http.NewRequest("POST", url+"/v1/messages", strings.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			r.Header = headers
			resp, err := c.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, buf); err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	b.Run("direct", func(b *testing.B) { run(b, up.URL, http.Header{}) })
	b.Run("gateway", func(b *testing.B) {
		box := openBox(b, newGateway(b, Options{Upstreams: at(up.URL)}), lane("a"), Limits{})
		run(b, box.url, box.request("POST", "/", "").Header)
	})
}

// BenchmarkMeter reads a long stream of text deltas.
func BenchmarkMeter(b *testing.B) {
	event := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words of a model\"}}\n\n")
	b.SetBytes(int64(len(event)))
	m := messages.newMeter(200, "text/event-stream")
	for b.Loop() {
		m.write(event)
	}
}
