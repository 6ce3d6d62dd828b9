package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

const (
	// maxEvent bounds one event of a stream in bytes.
	maxEvent = 64 << 20
	// maxErrorBody bounds what is read of an error in bytes.
	maxErrorBody = 64 << 10
)

// postEvents sends body as JSON and calls event with the data of each
// server-sent event of the answer; alive is called for each line. An answer
// that is no success is what fail makes of it. The data is good until event
// returns.
// Gemini is asked so, and not through its SDK: CONTRIBUTING.md has the numbers.
func postEvents(ctx context.Context, address string, header http.Header, body any, fail func(status int, header http.Header, data []byte) *apiFailure, alive func(), event func(data []byte) error) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came is what is said
		return fail(resp.StatusCode, resp.Header, data)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		alive()
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		if err := event(bytes.TrimSpace(data)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// pulse calls alive for whatever comes of a body: an endpoint that is only
// waiting says so in comments, which are no events.
type pulse struct {
	io.ReadCloser
	alive func()
}

func (p pulse) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if n > 0 {
		p.alive()
	}
	return n, err
}
