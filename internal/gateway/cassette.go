package gateway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
)

// The form of a cassette on disk; docs/gateway-cassettes.md is its description.
const (
	cassetteFormat     = 1
	laneFile           = "lane.json"
	workdirPlaceholder = "{{workdir}}"
	maxCassetteFile    = 128 << 20 // bytes
)

// laneHeader is lane.json.
type laneHeader struct {
	Format    int    `json:"format"`
	Job       string `json:"job"`
	Step      string `json:"step"`
	Attempt   int    `json:"attempt"`
	Exchanges int    `json:"exchanges"`
}

// recording is one exchange file.
type recording struct {
	Agent    string           `json:"agent"` // "main", "agent-1", …
	Request  recordedRequest  `json:"request"`
	Response recordedResponse `json:"response"`

	file string // its path, for errors
}

type recordedRequest struct {
	// Dialect is that of the request and its answer; empty in cassettes of a
	// time that knew only messages.
	Dialect string   `json:"dialect,omitempty"`
	Kind    string   `json:"kind"`
	Model   string   `json:"model"`
	Stream  bool     `json:"stream"`
	System  string   `json:"system"`
	Tools   int      `json:"tools"`
	Depth   int      `json:"depth"`
	Turn    []string `json:"turn"`
}

func (r recordedRequest) key() string { return matchKey(r.Dialect, r.Kind, r.Turn) }

// recordedResponse holds its body as JSON or as lines, never both.
type recordedResponse struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	JSON    json.RawMessage   `json:"json,omitempty"`
	Lines   []string          `json:"lines,omitempty"`
	// Broken answers ended before their time; replay breaks them off there.
	Broken bool `json:"broken,omitempty"`
}

// laneRecording is what was recorded of one lane, by agent, in order.
type laneRecording struct {
	lane   Lane
	dir    string
	agents map[string][]*recording
}

// cassette is a read directory. Read-only.
type cassette struct {
	dir   string
	lanes map[Lane]*laneRecording
}

func readCassette(dir string) (*cassette, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("cassette directory %s does not exist; record it with --record %s", dir, dir)
	case err != nil:
		return nil, fmt.Errorf("read cassette: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("cassette %s is a file; expected a directory made with --record", dir)
	}
	c := &cassette{dir: dir, lanes: map[Lane]*laneRecording{}}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read cassette: %w", err)
		case e.IsDir() && strings.HasPrefix(e.Name(), tempPrefix):
			return fs.SkipDir // a recording that was cut off
		case e.Name() != laneFile:
			return nil
		}
		return c.add(filepath.Dir(path))
	})
	if err != nil {
		return nil, err
	}
	if len(c.lanes) == 0 {
		return nil, fmt.Errorf("cassette directory %s holds no recordings; record it with --record %s", dir, dir)
	}
	return c, nil
}

func (c *cassette) add(dir string) error {
	var head laneHeader
	path := filepath.Join(dir, laneFile)
	if err := readJSON(path, &head); err != nil {
		return err
	}
	if head.Format != cassetteFormat {
		return fmt.Errorf("%s: cassette format %d, this version reads %d; record it again with --record", path, head.Format, cassetteFormat)
	}
	l := &laneRecording{lane: Lane{head.Job, head.Step, head.Attempt}, dir: dir, agents: map[string][]*recording{}}
	if other := c.lanes[l.lane]; other != nil {
		return fmt.Errorf("%s: the same lane (%s) as %s; remove one", path, l.lane, other.dir)
	}
	entries, err := os.ReadDir(dir) // sorted: main-001.json, main-002.json …
	if err != nil {
		return fmt.Errorf("read cassette: %w", err)
	}
	found := 0
	for _, e := range entries {
		if e.Name() == laneFile || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		r := &recording{file: filepath.Join(dir, e.Name())}
		if err := readJSON(r.file, r); err != nil {
			return err
		}
		r.Request.Dialect = cmp.Or(r.Request.Dialect, messages.name)
		if err := r.check(); err != nil {
			return fmt.Errorf("%s: %w; record it again with --record", r.file, err)
		}
		found++
		l.agents[r.Agent] = append(l.agents[r.Agent], r)
	}
	if found != head.Exchanges {
		return fmt.Errorf("%s names %d exchanges, %d files are there; record it again with --record", path, head.Exchanges, found)
	}
	c.lanes[l.lane] = l
	return nil
}

func (r *recording) check() error {
	switch {
	case r.Agent == "":
		return errors.New(`no "agent"`)
	case dialectNamed(r.Request.Dialect) == nil:
		return fmt.Errorf("request.dialect %q, expected one of %s", r.Request.Dialect, strings.Join(dialectNames(), ", "))
	case r.Request.Kind == "":
		return errors.New(`no "request.kind"`)
	case r.Response.Status < 200 || r.Response.Status > 599:
		return fmt.Errorf("response.status %d, expected an HTTP status", r.Response.Status)
	}
	return nil
}

// readJSON says file and line where it fails.
func readJSON(path string, v any) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read cassette: %w", err)
	}
	if info.Size() > maxCassetteFile {
		return fmt.Errorf("%s: %d bytes are too many for a cassette file", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read cassette: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err = dec.Decode(v)
	if err == nil {
		return nil
	}
	at := dec.InputOffset()
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &wrong):
		at = wrong.Offset
	}
	at = min(max(at, 0), int64(len(data)))
	return fmt.Errorf("%s:%d: %w; mend the file or record it again with --record", path, 1+bytes.Count(data[:at], []byte("\n")), err)
}

// lane finds the recording of l.
func (c *cassette) lane(l Lane) (*laneRecording, error) {
	if r := c.lanes[l]; r != nil {
		return r, nil
	}
	var have []string
	for k := range c.lanes {
		have = append(have, k.String())
	}
	sort.Strings(have)
	more := ""
	if len(have) > 10 {
		more = fmt.Sprintf(" and %d more", len(have)-10)
		have = have[:10]
	}
	return nil, fmt.Errorf("cassette %s has no recording of %s (expected in %s); recorded are: %s%s; record it again with --record %s",
		c.dir, l, l.path(c.dir), strings.Join(have, "; "), more, c.dir)
}

// subagents names the recorded sub-agents in order of appearance.
func (l *laneRecording) subagents() []string {
	var names []string
	for name := range l.agents {
		if name != mainAgent {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return names
}
