package gateway

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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

// 100 streams at once, each of a thousand events, pass in little memory: that of
// the agents' side and of the API's is counted too. PERFORMANCE: < 200 MB.
func TestAHundredStreamsTakeLittleMemory(t *testing.T) {
	const streams, events = 100, 1000
	piece := speeches()[0].text("some words of a model")
	begun, all := make(chan struct{}, streams), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range events {
			_, _ = io.WriteString(w, piece)
			w.(http.Flusher).Flush()
			if i == 0 {
				begun <- struct{}{}
				<-all // each goes on when every one has begun
			}
		}
	})
	g := newGateway(t, Options{Upstreams: at(up.URL)})
	var wg sync.WaitGroup
	var passed atomic.Int64
	for i := range streams {
		b := openBox(t, g, lane(fmt.Sprint(i)), Limits{})
		wg.Go(func() {
			resp, err := client().Do(b.request("POST", "/v1/messages", hello("x")))
			if err != nil {
				t.Error(err)
				return
			}
			n, err := io.Copy(io.Discard, resp.Body)
			if err != nil {
				t.Error(err)
			}
			passed.Add(n)
			_ = resp.Body.Close()
		})
	}
	for range streams {
		<-begun
	}
	close(all)
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	peak := uint64(0)
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		case <-time.After(20 * time.Millisecond):
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse+m.StackInuse)
	}
	if want := int64(streams * events * len(piece)); passed.Load() != want {
		t.Errorf("%d bytes passed of %d", passed.Load(), want)
	}
	if peak > 200<<20 {
		t.Errorf("%d MiB", peak>>20)
	}
	t.Logf("%d MiB for %d streams and %d MB", peak>>20, streams, passed.Load()/1_000_000)
}
