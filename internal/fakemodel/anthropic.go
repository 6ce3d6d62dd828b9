package fakemodel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// block is one content block of an answer: exactly one of text, tool, think.
type block struct {
	text, tool, think string
	input             any
}

// usage is what an answer claims to have consumed, in tokens.
type usage struct {
	Input      int `yaml:"input"`
	Output     int `yaml:"output"`
	CacheRead  int `yaml:"cache_read"`
	CacheWrite int `yaml:"cache_write"`
}

func (u usage) object() object {
	return object{"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.CacheRead, "output_tokens": u.Output}
}

// reply is an Anthropic answer before it is rendered.
type reply struct {
	id     string
	model  string
	blocks []block
	stop   string // empty: end_turn, or tool_use where a tool is called
	usage  usage
}

// conversation is what an Anthropic request says about where it stands.
type conversation struct {
	prompt   string // the first user text
	results  int    // tool results in all
	recent   int    // tool results since the last user text
	messages int
	tools    []string
	schemas  map[string]object
}

func readConversation(req object) conversation {
	c := conversation{schemas: map[string]object{}, messages: len(arr(req["messages"]))}
	for _, t := range arr(req["tools"]) {
		name := str(obj(t)["name"])
		c.tools = append(c.tools, name)
		c.schemas[name] = obj(obj(t)["input_schema"])
	}
	for _, m := range arr(req["messages"]) {
		if str(obj(m)["role"]) != "user" {
			continue
		}
		results, text := readUser(obj(m)["content"])
		if c.prompt == "" {
			c.prompt = text
		}
		c.results += results
		switch {
		case results > 0:
			c.recent += results
		case text != "":
			c.recent = 0
		}
	}
	return c
}

func readUser(content any) (results int, text string) {
	if s := str(content); s != "" {
		return 0, s
	}
	var texts []string
	for _, b := range arr(content) {
		switch str(obj(b)["type"]) {
		case "tool_result":
			results++
		case "text":
			if t := str(obj(b)["text"]); !isReminder(t) {
				texts = append(texts, t)
			}
		}
	}
	return results, strings.Join(texts, "\n")
}

// anthropic answers a scripted Messages request.
func (x *exchange) anthropic() string {
	c := readConversation(x.req)
	blocks := x.scriptBlocks(c)
	if len(blocks) == 0 {
		blocks = []block{{text: x.script.final()}}
	}
	if rl := x.script["rl"]; rl != "" && streams(x.req) {
		x.rateLimitHeaders(rl)
	}
	return x.sendAnthropic(reply{
		id:     "msg_fake_" + digest(c.prompt, c.messages, c.results, len(c.tools), x.script["do"]),
		model:  str(x.req["model"]),
		blocks: blocks,
		stop:   x.script["stop"],
		usage:  usage{Input: x.script.num("in", 100), Output: x.script.num("out", 20)},
	})
}

func bashCall(command string) block {
	return block{tool: "Bash", input: object{"command": command, "description": "probe"}}
}

func (x *exchange) scriptBlocks(c conversation) []block {
	messages := encode(x.req["messages"])
	subagent := strings.Contains(messages, "SUBAGENT-PROBE") && !strings.Contains(messages, `"name":"Agent"`) && !strings.Contains(messages, `"name":"Task"`)
	switch {
	case len(c.tools) == 0:
		return []block{{text: `{"title":"Probe title"}`}}
	case subagent:
		return []block{{text: "hello from the subagent"}}
	case x.script["do"] == "loop":
		return []block{bashCall(fmt.Sprintf("echo loop %d", c.recent))}
	case x.script["do"] == "structured":
		return x.structuredBlocks(c)
	case c.recent > 0 && x.script.num("steps", 1) <= c.recent:
		return nil
	}
	switch x.script["do"] {
	case "bash":
		return []block{{text: "I will run a command."}, bashCall(x.script.shell())}
	case "write":
		return []block{{tool: "Write", input: object{"file_path": x.script.b64("path", "written.txt"), "content": "hi\n"}}}
	case "sleep":
		return []block{bashCall(x.script.shell())}
	case "thinking":
		return []block{{think: "let me think"}, {text: "I will run a command."}, bashCall("echo hi > f.txt")}
	case "two":
		return []block{bashCall("echo one"), {tool: "Read", input: object{"file_path": "/etc/hostname"}}}
	case "task":
		name := "Agent"
		if slices.Contains(c.tools, "Task") {
			name = "Task"
		}
		return []block{{tool: name, input: object{"description": "sub", "prompt": "SUBAGENT-PROBE say hello", "subagent_type": "general-purpose"}}}
	case "mcp", "tool":
		name := x.script["tool"]
		if i := slices.IndexFunc(c.tools, func(t string) bool { return strings.HasPrefix(t, "mcp__") }); name == "" && i >= 0 {
			name = c.tools[i]
		}
		if c.recent == 0 && !slices.Contains(c.tools, name) && slices.Contains(c.tools, "ToolSearch") {
			return []block{{tool: "ToolSearch", input: object{"query": "select:" + name, "max_results": 1}}} // Claude Code: a deferred one
		}
		return []block{{tool: name, input: parse(x.script.b64("input", "{}"))}}
	case "unknowntool":
		return []block{{tool: "NoSuchTool", input: object{}}}
	case "badinput":
		return []block{{tool: "Bash", input: object{"cmdx": 1}}}
	}
	return nil
}

func (x *exchange) structuredBlocks(c conversation) []block {
	bad := x.script["bad"] != ""
	switch {
	case x.script["noso"] != "":
		return nil
	case c.recent == 0:
		i := slices.IndexFunc(c.tools, func(t string) bool { return strings.Contains(strings.ToLower(t), "structured") })
		if i < 0 {
			return nil
		}
		input := schemaSample(c.schemas[c.tools[i]])
		if bad {
			input = object{"nope": 1}
		}
		return []block{{tool: c.tools[i], input: input}}
	case bad && c.recent < 20:
		return []block{{tool: "StructuredOutput", input: object{"nope": c.recent}}}
	}
	return nil
}

func (x *exchange) rateLimitHeaders(status string) {
	reset := strconv.FormatInt(x.clock().Add(time.Hour).Unix(), 10)
	h := x.w.Header()
	h.Set("anthropic-ratelimit-unified-status", status)
	h.Set("anthropic-ratelimit-unified-reset", reset)
	h.Set("anthropic-ratelimit-unified-representative-claim", "five_hour")
	h.Set("anthropic-ratelimit-unified-5h-utilization", "0.93")
	h.Set("anthropic-ratelimit-unified-5h-reset", reset)
	h.Set("anthropic-ratelimit-unified-5h-status", status)
}

// sendAnthropic renders r as JSON or as a stream, as the request wants it.
func (x *exchange) sendAnthropic(r reply) string {
	answer := "text"
	var names []string
	for _, b := range r.blocks {
		if b.tool != "" {
			names = append(names, b.tool)
		}
	}
	if len(names) > 0 {
		answer = "tool_use:" + strings.Join(names, "+")
	}
	switch {
	case r.stop != "":
	case len(names) > 0:
		r.stop = "tool_use"
	default:
		r.stop = "end_turn"
	}
	x.w.Header().Set("Request-Id", "req_fake_ok")
	if !streams(x.req) {
		x.sendMessage(r)
		return "nonstream:" + answer
	}
	x.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	x.streamMessage(r)
	return answer
}

func (r reply) toolID(i int) string {
	return fmt.Sprintf("toolu_%s_%d", strings.TrimPrefix(r.id, "msg_"), i)
}

func (x *exchange) sendMessage(r reply) {
	content := list{}
	for i, b := range r.blocks {
		switch {
		case b.tool != "":
			content = append(content, object{"type": "tool_use", "id": r.toolID(i), "name": b.tool, "input": b.input})
		case b.think != "":
			content = append(content, object{"type": "thinking", "thinking": b.think, "signature": "ZmFrZQ=="})
		default:
			content = append(content, object{"type": "text", "text": b.text})
		}
	}
	writeJSON(x.w, object{"id": r.id, "type": "message", "role": "assistant", "model": r.model, "content": content,
		"stop_reason": r.stop, "stop_sequence": nil, "usage": r.usage.object()})
}

func anthropicStart(id, model string, u usage) object {
	first := u.object()
	first["output_tokens"] = 1
	first["service_tier"] = "standard"
	return object{"type": "message_start", "message": object{"id": id, "type": "message", "role": "assistant", "model": model,
		"content": list{}, "stop_reason": nil, "stop_sequence": nil, "usage": first}}
}

func (x *exchange) streamMessage(r reply) {
	sse(x.w, "message_start", anthropicStart(r.id, r.model, r.usage))
	sse(x.w, "ping", object{"type": "ping"})
	for i, b := range r.blocks {
		start, deltas := b.stream(r.toolID(i))
		sse(x.w, "content_block_start", object{"type": "content_block_start", "index": i, "content_block": start})
		for _, d := range deltas {
			sse(x.w, "content_block_delta", object{"type": "content_block_delta", "index": i, "delta": d})
		}
		sse(x.w, "content_block_stop", object{"type": "content_block_stop", "index": i})
	}
	sse(x.w, "message_delta", object{"type": "message_delta", "delta": object{"stop_reason": r.stop, "stop_sequence": nil}, "usage": r.usage.object()})
	sse(x.w, "message_stop", object{"type": "message_stop"})
}

// stream is how a block begins and grows.
func (b block) stream(toolID string) (start object, deltas []object) {
	switch {
	case b.think != "":
		return object{"type": "thinking", "thinking": "", "signature": ""}, []object{
			{"type": "thinking_delta", "thinking": b.think}, {"type": "signature_delta", "signature": "ZmFrZQ=="}}
	case b.tool != "":
		in := encode(b.input)
		half := len(in) / 2
		for !utf8.RuneStart(in[half]) {
			half--
		}
		return object{"type": "tool_use", "id": toolID, "name": b.tool, "input": object{}}, []object{
			{"type": "input_json_delta", "partial_json": in[:half]}, {"type": "input_json_delta", "partial_json": in[half:]}}
	}
	return object{"type": "text", "text": ""}, []object{{"type": "text_delta", "text": b.text}}
}
