package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sourcegraph/conc/iter"

	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

const (
	// maxOutputBytes is how much of a tool's output the model gets.
	maxOutputBytes = 30_000
	// searchTimeout bounds the tools that say nothing else.
	searchTimeout = time.Minute
	// maxParallel is how many reading calls of one turn run at a time.
	maxParallel = 4
)

// workspace is where tools work.
type workspace struct {
	dir        string   // absolute
	env        []string // of the processes they start
	net        network
	background *background
}

// tool is one thing the model can do. run's error is for the model.
type tool struct {
	name, description string
	schema            string        // JSON Schema of the input
	readOnly          bool          // may run beside other calls
	timeout           time.Duration // 0: searchTimeout; below 0: its own
	rules             string        // the tool whose rules are for it; empty: its own
	run               func(ctx context.Context, input json.RawMessage) (string, error)
}

// call is one tool call of the model.
type call struct {
	id, name string
	input    json.RawMessage
}

type toolOutput struct {
	text    string
	isError bool
}

// ownTools are the loop's, in sdk.Tools' order.
func ownTools(w workspace) []tool {
	return []tool{w.bash(), w.bashOutput(), w.bashKill(), w.read(), w.write(), w.edit(), w.glob(), w.grep(), w.list(), w.fetch()}
}

// permitted are the tools that p offers, each asking p before it runs.
func permitted(tools []tool, p permission) []tool {
	var chosen []tool
	for _, t := range tools {
		if !p.offers(cmp.Or(t.rules, t.name)) {
			continue
		}
		if t.rules != "" {
			chosen = append(chosen, t)
			continue
		}
		run := t.run
		t.run = func(ctx context.Context, input json.RawMessage) (string, error) {
			if err := p.check(t.name, input); err != nil {
				return "", err
			}
			return run(ctx, input)
		}
		chosen = append(chosen, t)
	}
	return chosen
}

// runCalls runs the calls of one turn in order; neighbours that only read run
// side by side. There is one result per call, in the calls' order.
func runCalls(ctx context.Context, tools []tool, calls []call) []toolOutput {
	results := make([]toolOutput, len(calls))
	for i := 0; i < len(calls); {
		end := i + 1
		if readOnly(tools, calls[i]) {
			for end < len(calls) && readOnly(tools, calls[end]) {
				end++
			}
		}
		group := iter.Mapper[call, toolOutput]{MaxGoroutines: maxParallel}
		copy(results[i:end], group.Map(calls[i:end], func(c *call) toolOutput { return runCall(ctx, tools, *c) }))
		i = end
	}
	return results
}

func find(tools []tool, name string) (tool, bool) {
	i := slices.IndexFunc(tools, func(t tool) bool { return strings.EqualFold(t.name, name) })
	if i < 0 {
		return tool{}, false
	}
	return tools[i], true
}

func readOnly(tools []tool, c call) bool {
	t, ok := find(tools, c.name)
	return ok && t.readOnly
}

func runCall(ctx context.Context, tools []tool, c call) (out toolOutput) {
	if c.name == sdk.StructuredTool {
		return toolOutput{text: "this step has no output schema", isError: true} // the loop answers where it has
	}
	t, ok := find(tools, c.name)
	if !ok {
		var names []string
		for _, t := range tools {
			names = append(names, t.name)
		}
		return toolOutput{text: fmt.Sprintf("there is no tool %q here; the tools are: %s", c.name, strings.Join(names, ", ")), isError: true}
	}
	limited, timeout := ctx, cmp.Or(t.timeout, searchTimeout)
	if timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	text, err := t.run(limited, c.input)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("this took longer than %s: ask for less at a time", timeout)
	}
	if err != nil {
		if text = strings.TrimRight(text, "\n"); text != "" {
			text += "\n"
		}
		return toolOutput{text: text + err.Error(), isError: true}
	}
	return toolOutput{text: text}
}

// decode reads a tool's input into v.
func decode(input json.RawMessage, v any) error {
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if err := json.Unmarshal(input, v); err != nil {
		return fmt.Errorf("the input does not fit the tool's schema: %w", err)
	}
	return nil
}

// clip keeps the beginning and the end of what is written to it.
type clip struct {
	limit      int // bytes kept
	head, tail []byte
	total      int64
}

func (c *clip) Write(p []byte) (int, error) {
	n := len(p)
	c.total += int64(n)
	if room := c.limit/2 - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	keep := c.limit - c.limit/2
	if len(p) > keep {
		p = p[len(p)-keep:]
	}
	c.tail = append(c.tail, p...)
	if len(c.tail) > 2*keep { // copied once per keep bytes, not per write
		c.tail = append(c.tail[:0], c.tail[len(c.tail)-keep:]...)
	}
	return n, nil
}

func (c *clip) String() string {
	keep := c.limit - c.limit/2
	tail := c.tail[max(0, len(c.tail)-keep):]
	left := c.total - int64(len(c.head)+len(tail))
	middle := ""
	if left > 0 {
		middle = fmt.Sprintf("\n[… %d bytes left out here; narrow the output to see them …]\n", left)
	}
	return strings.ToValidUTF8(string(c.head)+middle+string(tail), "\uFFFD")
}

func clipped(text string) string { return clippedTo(text, maxOutputBytes) }

func clippedTo(text string, limit int) string {
	c := &clip{limit: limit}
	_, _ = c.Write([]byte(text))
	return c.String()
}
