package fakemodel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// Scenario is a conversation of real work, written down ahead. It answers the
// conversations whose prompt (their first user text, harness reminders left
// out) matches Prompt; the first scenario that matches wins.
type Scenario struct {
	Name   string `yaml:"name"`
	Prompt string `yaml:"prompt"` // a Go regular expression, unanchored
	Turns  []Turn `yaml:"turns"`

	prompt *regexp.Regexp
}

// Turn is one answer. It is chosen by the number of tool results the
// conversation holds: a turn comes when all calls of the turns before it have
// their results. So it does not depend on what was asked before, and a retried
// or replayed request gets the same turn.
type Turn struct {
	Thinking string        `yaml:"thinking"`
	Text     string        `yaml:"text"`
	Calls    []Call        `yaml:"calls"`
	Stop     string        `yaml:"stop"` // empty: end_turn, or tool_use with calls
	Usage    usage         `yaml:"usage"`
	Delay    time.Duration `yaml:"delay"` // before the answer
	// Fail is played in place of the answer, in the words of Script's fail,
	// the first FailTimes times the turn is asked for (0: always).
	Fail       string `yaml:"fail"`
	FailTimes  int    `yaml:"fail_times"`
	RetryAfter string `yaml:"retry_after"` // header on the failure
}

// Call is one tool call. Name may offer alternatives ("Bash|bash"): the first
// that the request offers is called.
type Call struct {
	Name  string `yaml:"name"`
	Input any    `yaml:"input"`
}

// ReadScenarios reads a YAML or JSON file {scenarios: [...]}. Unknown keys are
// errors.
func ReadScenarios(path string) ([]Scenario, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read scenarios: %w", err)
	}
	scenarios, err := ParseScenarios(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return scenarios, nil
}

// ParseScenarios is ReadScenarios on the file's content.
func ParseScenarios(data []byte) ([]Scenario, error) {
	var file struct {
		Scenarios []Scenario `yaml:"scenarios"`
	}
	dec := yaml.NewDecoder(bytes.NewReader(data), yaml.DisallowUnknownField())
	if err := dec.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("scenarios: %w", err)
	}
	if len(file.Scenarios) == 0 {
		return nil, errors.New("no scenarios: expected a list under the key \"scenarios\"")
	}
	for i := range file.Scenarios {
		s := &file.Scenarios[i]
		if s.Prompt == "" || len(s.Turns) == 0 {
			return nil, fmt.Errorf("scenario %d (%q): needs a prompt (regular expression) and turns", i+1, s.Name)
		}
		re, err := regexp.Compile(s.Prompt)
		if err != nil {
			return nil, fmt.Errorf("scenario %d (%q): prompt: %w", i+1, s.Name, err)
		}
		s.prompt = re
	}
	return file.Scenarios, nil
}

// turn finds the answer after results tool results; -1 where the scenario has
// none.
func (s Scenario) turn(results int) int {
	due := 0
	for i, t := range s.Turns {
		if due >= results {
			return i
		}
		due += len(t.Calls)
	}
	return -1
}

// blocks turns t into content for a request that offers tools.
func (t Turn) blocks(tools []string) ([]block, error) {
	var blocks []block
	if t.Thinking != "" {
		blocks = append(blocks, block{think: t.Thinking})
	}
	if t.Text != "" {
		blocks = append(blocks, block{text: t.Text})
	}
	for _, c := range t.Calls {
		names := strings.Split(c.Name, "|")
		i := slices.IndexFunc(names, func(n string) bool { return slices.Contains(tools, n) })
		if i < 0 {
			return nil, fmt.Errorf("the request offers no tool %q, only %s", c.Name, strings.Join(tools, ", "))
		}
		input := c.Input
		if input == nil {
			input = object{}
		}
		blocks = append(blocks, block{tool: names[i], input: input})
	}
	return blocks, nil
}

// playScenario answers a request that bears no script.
func (s *server) playScenario(x *exchange) string {
	refuse := func(format string, args ...any) string {
		msg := "fakemodel: " + fmt.Sprintf(format, args...)
		x.script["sr"] = "false"
		x.fail(400, "invalid_request_error", msg)
		return msg
	}
	if !strings.HasSuffix(x.path, "/messages") {
		return refuse("scenarios speak Anthropic Messages only, not %s; use a /s/<script>/<run> base URL", x.path)
	}
	c := readConversation(x.req)
	i := slices.IndexFunc(s.scenarios, func(sc Scenario) bool { return sc.prompt.MatchString(c.prompt) })
	if i < 0 {
		return refuse("no scenario matches the prompt %q", cut(c.prompt, 300))
	}
	sc := s.scenarios[i]
	at := sc.turn(c.results)
	if at < 0 {
		return refuse("scenario %q has no turn after %d tool results", sc.Name, c.results)
	}
	t := sc.Turns[at]
	if !x.pause(t.Delay) {
		return "gone"
	}
	if t.Fail != "" {
		n := s.count(fmt.Sprintf("scenario %d turn %d", i, at))
		if t.FailTimes == 0 || n <= t.FailTimes {
			if t.RetryAfter != "" {
				x.script["ra"] = t.RetryAfter
			}
			x.failAs(t.Fail)
			return "fail:" + t.Fail
		}
	}
	if len(c.tools) == 0 && len(t.Calls) > 0 {
		// A CLI's side request about the same prompt, such as a title.
		t = Turn{Text: `{"title":"` + sc.Name + `"}`}
	}
	blocks, err := t.blocks(c.tools)
	if err != nil {
		return refuse("scenario %q, turn %d: %v", sc.Name, at+1, err)
	}
	x.sendAnthropic(reply{
		id:     "msg_fake_" + digest(c.prompt, at, len(c.tools) > 0),
		model:  str(x.req["model"]),
		blocks: blocks,
		stop:   t.Stop,
		usage:  t.Usage,
	})
	return fmt.Sprintf("scenario:%s turn %d", sc.Name, at+1)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
