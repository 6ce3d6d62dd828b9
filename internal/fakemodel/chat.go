package fakemodel

import (
	"cmp"
	"slices"
	"strings"
)

func (x *exchange) chat() string {
	var names []string
	for _, t := range arr(x.req["tools"]) {
		names = append(names, str(obj(obj(t)["function"])["name"]))
	}
	slices.Sort(names)
	results := 0
	for _, m := range arr(x.req["messages"]) {
		switch str(obj(m)["role"]) {
		case "tool":
			results++
		case "user":
			results = 0
		}
	}
	msg := object{"role": "assistant", "content": x.script.final()}
	finish, answer := cmp.Or(x.script["stop"], "stop"), "text"
	if name, args := x.chatCall(names, results); name != "" {
		msg = object{"role": "assistant", "content": "", "tool_calls": list{object{"index": 0, "type": "function",
			"id": "call_" + digest(encode(x.req["messages"]), x.script["do"]), "function": object{"name": name, "arguments": encode(args)}}}}
		finish, answer = "tool_calls", "call:"+name
	}
	in, out := x.script.num("in", 100), x.script.num("out", 20)
	usage := object{"prompt_tokens": in, "completion_tokens": out, "total_tokens": in + out,
		"prompt_tokens_details":     object{"cached_tokens": x.script.num("cached", 0)},
		"completion_tokens_details": object{"reasoning_tokens": x.script.num("thought", 0)}}
	frame := func(kind string, choice object) object {
		return object{"id": "chatcmpl-fake", "object": kind, "created": x.clock().Unix(), "model": str(x.req["model"]), "choices": list{choice}}
	}
	if !streams(x.req) {
		m := frame("chat.completion", object{"index": 0, "message": msg, "finish_reason": finish})
		m["usage"] = usage
		writeJSON(x.w, m)
		return "nonstream:" + answer
	}
	x.w.Header().Set("Content-Type", "text/event-stream")
	put := func(m object) {
		writeString(x.w, "data: "+encode(m)+"\n\n")
		flush(x.w)
	}
	put(frame("chat.completion.chunk", object{"index": 0, "delta": msg, "finish_reason": nil}))
	put(frame("chat.completion.chunk", object{"index": 0, "delta": object{}, "finish_reason": finish}))
	if obj(x.req["stream_options"])["include_usage"] == true {
		last := frame("chat.completion.chunk", nil)
		last["choices"], last["usage"] = list{}, usage
		put(last)
	}
	writeString(x.w, "data: [DONE]\n\n")
	return answer + " tools=" + strings.Join(names, "|")
}

// chatCall is the tool a script wants called; an empty name: none.
func (x *exchange) chatCall(names []string, results int) (string, any) {
	if len(names) == 0 || x.script["do"] == "text" || (results > 0 && x.script["do"] != "loop") {
		return "", nil
	}
	if t := x.script["tool"]; t != "" {
		return t, parse(x.script.b64("input", "{}"))
	}
	for _, name := range []string{"bash", "shell", "run_shell_command", "run_in_terminal"} {
		if slices.Contains(names, name) {
			return name, object{"command": x.script.shell(), "description": "probe"}
		}
	}
	return "", nil
}
