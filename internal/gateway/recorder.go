package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	tempPrefix = ".recording-"
	mainAgent  = "main"
	maxAgents  = 1000
)

// recorder writes the exchanges of one lane beside the lane's earlier
// recording, and takes its place when closed. Safe for concurrent use.
type recorder struct {
	dir   string // of the cassette
	lane  Lane
	temp  string
	scrub *scrubber

	mu      sync.Mutex
	agents  map[string]string // id → name
	numbers map[string]int    // by agent name
	written int
	err     error // the first failure; the lane is then left as it was
}

func newRecorder(dir string, lane Lane, scrub *scrubber) (*recorder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cassette directory: %w", err)
	}
	temp, err := os.MkdirTemp(dir, tempPrefix)
	if err != nil {
		return nil, fmt.Errorf("start recording: %w", err)
	}
	return &recorder{dir: dir, lane: lane, temp: temp, scrub: scrub, agents: map[string]string{}, numbers: map[string]int{}}, nil
}

// slot is the place of an exchange in its lane, taken when it begins.
type slot struct {
	agent  string
	number int // 1-based
	turn   *turn
}

// recordable reads what will be recorded of the exchange; nil outside Record.
func (x *exchange) recordable() (*slot, error) {
	if x.s.recorder == nil {
		return nil, nil
	}
	t, err := x.dialect.readTurn(x.req)
	if err != nil {
		return nil, err
	}
	return x.s.recorder.take(x.dialect.agent(x.r.Header), t), nil
}

func (r *recorder) take(id string, t *turn) *slot {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := mainAgent
	if id != "" {
		if name = r.agents[id]; name == "" {
			name = "agent-" + strconv.Itoa(min(len(r.agents)+1, maxAgents))
			if len(r.agents) < maxAgents {
				r.agents[id] = name
			}
		}
	}
	r.numbers[name]++
	return &slot{agent: name, number: r.numbers[name], turn: t}
}

// fail makes the recording unusable: a lane with a hole does not replay.
func (r *recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = fmt.Errorf("record %s: %w", r.lane, err)
	}
}

// add writes one exchange. What goes wrong is told by close.
func (r *recorder) add(at *slot, d *dialect, req request, resp *http.Response, body []byte, broken bool) {
	clean := func(s string) string {
		return r.scrub.clean(replacePath(s, at.turn.Workdir, workdirPlaceholder))
	}
	rec := recording{
		Agent: at.agent,
		Request: recordedRequest{Dialect: d.name, Kind: at.turn.Kind, Model: req.model, Stream: req.stream, System: at.turn.System,
			Tools: at.turn.Tools, Depth: at.turn.Depth, Turn: cleanAll(at.turn.Lines, r.scrub.clean)},
		Response: recordedResponse{Status: resp.StatusCode, Headers: map[string]string{}, Broken: broken},
	}
	for _, k := range []string{"Content-Type", "Request-Id", "Retry-After", "X-Should-Retry"} {
		if v := resp.Header.Get(k); v != "" {
			rec.Response.Headers[strings.ToLower(k)] = r.scrub.clean(v)
		}
	}
	rec.Response.setBody(d, body, isEventStream(resp.Header.Get("Content-Type")), clean)
	name := fmt.Sprintf("%s-%03d.json", at.agent, at.number)
	if err := writeJSON(filepath.Join(r.temp, name), rec); err != nil {
		r.fail(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written++
}

// setBody keeps body in the form that is easiest to read and compare.
func (p *recordedResponse) setBody(d *dialect, body []byte, stream bool, clean func(string) string) {
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	if text := clean(string(body)); !stream && json.Valid([]byte(text)) {
		p.JSON = json.RawMessage(text)
		return
	}
	lines := strings.Split(string(body), "\n")
	if stream {
		lines = d.joinSplit(lines, clean)
	}
	p.Lines = cleanAll(lines, clean)
}

func cleanAll(lines []string, clean func(string) string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = clean(l)
	}
	return out
}

func writeJSON(path string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// close puts the recording in its place, or says why it could not be made. It
// is called once, after the last add. A session without any exchange leaves
// an earlier recording as it was. A new first attempt drops later attempts of
// the earlier recording: they belong to another story.
func (r *recorder) close() error {
	defer os.RemoveAll(r.temp) // only what a failure left
	if r.err != nil {
		return r.err
	}
	final := r.lane.path(r.dir)
	if _, err := os.Stat(final); r.written == 0 && err == nil {
		return nil
	}
	head := laneHeader{Format: cassetteFormat, Job: r.lane.Job, Step: r.lane.Step, Attempt: r.lane.Attempt, Exchanges: r.written}
	if err := writeJSON(filepath.Join(r.temp, laneFile), head); err != nil {
		return fmt.Errorf("record %s: %w", r.lane, err)
	}
	if err := os.Chmod(r.temp, 0o755); err != nil {
		return fmt.Errorf("record %s: %w", r.lane, err)
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return fmt.Errorf("record %s: %w", r.lane, err)
	}
	old := r.temp + "-old"
	defer os.RemoveAll(old)
	if err := os.Rename(final, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("record %s: %w", r.lane, err)
	}
	if err := os.Rename(r.temp, final); err != nil {
		return errors.Join(fmt.Errorf("record %s: %w", r.lane, err), os.Rename(old, final))
	}
	if r.lane.Attempt != 1 {
		return nil
	}
	return r.dropLaterAttempts(filepath.Dir(final))
}

func (r *recorder) dropLaterAttempts(step string) error {
	entries, err := os.ReadDir(step)
	if err != nil {
		return fmt.Errorf("record %s: %w", r.lane, err)
	}
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), "attempt-"); ok && n != "1" {
			if err := os.RemoveAll(filepath.Join(step, e.Name())); err != nil {
				return fmt.Errorf("record %s: %w", r.lane, err)
			}
		}
	}
	return nil
}
