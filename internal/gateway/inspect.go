package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
)

// RecordedLane is a lane of a cassette, for the person.
type RecordedLane struct {
	Lane      Lane
	Dir       string
	Exchanges []RecordedExchange // by agent, main first, then in order
}

// RecordedExchange is an exchange of a cassette, for the person. Its words are
// those of models and tools, so not to be trusted on a terminal.
type RecordedExchange struct {
	File, Agent, Dialect, Kind, Model string
	API                               string   // that the dialect is of
	Turn                              []string // normalised
	Status                            int
	StopReason                        string
	Usage                             event.Usage // what the answer says; no price
	Broken                            bool
}

// Inspect reads the cassettes in dir, as a replay would.
func Inspect(dir string) ([]RecordedLane, error) {
	c, err := readCassette(dir)
	if err != nil {
		return nil, err
	}
	lanes := make([]RecordedLane, 0, len(c.lanes))
	for _, l := range c.lanes {
		r := RecordedLane{Lane: l.lane, Dir: l.dir}
		for _, agent := range append([]string{mainAgent}, l.subagents()...) {
			for _, rec := range l.agents[agent] {
				r.Exchanges = append(r.Exchanges, rec.inspect())
			}
		}
		lanes = append(lanes, r)
	}
	slices.SortFunc(lanes, func(a, b RecordedLane) int {
		return cmp.Or(strings.Compare(a.Lane.Job, b.Lane.Job), strings.Compare(a.Lane.Step, b.Lane.Step), a.Lane.Attempt-b.Lane.Attempt)
	})
	return lanes, nil
}

func (r *recording) inspect() RecordedExchange {
	e := RecordedExchange{File: r.file, Agent: r.Agent, Dialect: r.Request.Dialect, Kind: r.Request.Kind, Model: r.Request.Model,
		Turn: r.Request.Turn, Status: r.Response.Status, Broken: r.Response.Broken}
	d := dialectNamed(r.Request.Dialect)
	e.API = d.api
	m := d.newMeter(r.Response.Status, r.Response.Headers["content-type"])
	m.write(r.Response.body(""))
	m.close()
	e.StopReason = m.stop
	if r.Request.Kind != "count_tokens" {
		e.Usage = event.Usage{Requests: 1, InputTokens: m.tokens.input, OutputTokens: m.tokens.output,
			CacheReadTokens: m.tokens.cacheRead, CacheWriteTokens: m.tokens.cacheWrite, ReasoningTokens: m.tokens.reasoning}
	}
	return e
}

// Leak is text in a cassette that looks like a secret.
type Leak struct {
	File  string
	Line  int    // 1-based
	Looks string // like what: "an Anthropic key"
	Begin string // its first characters, enough to find it
}

// secretLooks are the forms of secrets that can be known by their look.
var secretLooks = []struct {
	looks string
	find  func() *regexp.Regexp
}{
	{"an Anthropic key or token", pattern(`\bsk-ant-[A-Za-z0-9_-]{16,}`)},
	{"an OpenAI key", pattern(`\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_]{20,}`)},
	{"a Google key", pattern(`\bAIza[A-Za-z0-9_-]{30,}`)},
	{"a Google login's token", pattern(`\bya29\.[A-Za-z0-9_-]{20,}`)},
	{"a GitHub token", pattern(`\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})`)},
	{"a GitLab token", pattern(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"an npm token", pattern(`\bnpm_[A-Za-z0-9]{36}`)},
	{"a Slack token", pattern(`\bxox[abeoprs]-[A-Za-z0-9-]{10,}`)},
	{"an AWS key id", pattern(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`)},
	{"a JSON web token", pattern(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)},
	{"a private key", pattern(`-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----`)},
	{"a bearer token", pattern(`(?i)\bauthorization["']?\s*[:=]\s*["']?bearer\s+[A-Za-z0-9._~+/-]{16,}`)},
	{"a password in a URL", pattern(`\bhttps?://[^\s/:@"\\]+:[^\s/@"\\*]{3,}@[A-Za-z0-9]`)},
}

// Leaks looks through every file below dir for what looks like a secret, by
// file and line. Only what is a file is read.
func Leaks(dir string) ([]Leak, error) {
	var leaks []Leak
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		found, err := leaksIn(path)
		leaks = append(leaks, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look through the cassette: %w", err)
	}
	return leaks, nil
}

func leaksIn(path string) ([]Leak, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCassetteFile {
		return nil, fmt.Errorf("%s: %d bytes are too many for a cassette file", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var leaks []Leak
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxCassetteFile+1)
	for n := 1; lines.Scan(); n++ {
		for _, s := range secretLooks {
			for _, found := range s.find().FindAll(lines.Bytes(), -1) {
				if s.looks == "an OpenAI key" && bytes.HasPrefix(found, []byte("sk-ant")) {
					continue
				}
				leaks = append(leaks, Leak{File: path, Line: n, Looks: s.looks, Begin: string(found[:min(len(found), 8)]) + "…"})
			}
		}
	}
	return leaks, lines.Err()
}
