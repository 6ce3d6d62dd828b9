package fakemodel

import (
	"maps"
	"strings"
)

// offer is the tools of a Responses request.
type offer struct {
	kinds     map[string]string // tool name → type
	names     []string
	namespace map[string]string // tool name → the group it stands in, such as an MCP server
	results   int               // tool results since the last user message
}

func readOffer(req object) offer {
	o := offer{kinds: map[string]string{}, namespace: map[string]string{}}
	for _, t := range arr(req["tools"]) {
		name := str(obj(t)["name"])
		if str(obj(t)["type"]) == "namespace" {
			o.addGroup(obj(t))
			continue
		}
		if name == "" {
			name = str(obj(t)["type"])
		}
		o.add(name, str(obj(t)["type"]))
	}
	for _, item := range arr(req["input"]) {
		switch str(obj(item)["type"]) {
		case "additional_tools": // Codex "Responses Lite": the tools travel in the input
			for _, group := range arr(obj(item)["tools"]) {
				o.addGroup(obj(group))
			}
		case "function_call_output", "custom_tool_call_output", "local_shell_call_output":
			o.results++
		case "message":
			if str(obj(item)["role"]) == "user" {
				o.results = 0
			}
		}
	}
	return o
}

func (o *offer) addGroup(group object) {
	for _, t := range arr(group["tools"]) {
		name := str(obj(t)["name"])
		o.add(name, str(obj(t)["type"]))
		o.namespace[name] = str(group["name"])
	}
}

func (o *offer) add(name, kind string) {
	o.kinds[name] = kind
	o.names = append(o.names, name)
}

// call is the tool call of a scripted answer; nil: none.
func (o offer) call(s Script, id string) object {
	if len(o.names) == 0 || s["do"] == "text" || (o.results > 0 && s["do"] != "loop") {
		return nil
	}
	function := func(name string, args any) object {
		item := object{"type": "function_call", "id": "fc_" + id, "call_id": "call_" + id, "name": name, "arguments": encode(args), "status": "completed"}
		return o.grouped(item)
	}
	cmd := s.shell()
	switch {
	case s["tool"] != "" && o.kinds[s["tool"]] != "":
		return function(s["tool"], parse(s.b64("input", "{}")))
	case s["tool"] != "" && o.kinds["exec"] == "custom": // Codex's code mode: it is in none of the lists
		return o.code(id, "text(JSON.stringify(await tools."+s["tool"]+"("+s.b64("input", "{}")+")));")
	case o.kinds["exec_command"] != "":
		return function("exec_command", object{"cmd": cmd})
	case o.kinds["shell_command"] != "":
		return function("shell_command", object{"command": cmd})
	case o.kinds["shell"] != "":
		return function("shell", object{"command": list{"bash", "-lc", cmd}})
	case o.kinds["bash"] != "":
		return function("bash", object{"command": cmd, "description": "probe"})
	case o.kinds["local_shell"] != "":
		return object{"type": "local_shell_call", "id": "lsh_" + id, "call_id": "call_" + id, "status": "completed",
			"action": object{"type": "exec", "command": list{"bash", "-lc", cmd}}}
	case o.kinds["exec"] == "custom":
		return o.code(id, "const r = await tools.exec_command({cmd: "+encode(cmd)+"}); text(JSON.stringify(r));")
	}
	return nil
}

// code is JavaScript for Codex to run.
func (o offer) code(id, text string) object {
	return o.grouped(object{"type": "custom_tool_call", "id": "ctc_" + id, "call_id": "call_" + id, "name": "exec", "status": "completed", "input": text})
}

// grouped says in which group the called tool stands, where it does.
func (o offer) grouped(call object) object {
	if group := o.namespace[str(call["name"])]; group != "" {
		call["namespace"] = group
	}
	return call
}

func (x *exchange) responses() string {
	o := readOffer(x.req)
	id := digest(encode(x.req["input"]), x.script["do"])
	answer := "text"
	item := o.call(x.script, id)
	if item == nil {
		item = x.finalItem(id)
	} else {
		answer = "call:" + str(item["name"])
	}
	in, out := x.script.num("in", 100), x.script.num("out", 20)
	created := x.clock().Unix()
	begun := object{"id": "resp_" + id, "object": "response", "created_at": created, "status": "in_progress", "model": str(x.req["model"]), "output": list{}, "usage": nil}
	done := maps.Clone(begun)
	done["status"], done["output"] = "completed", list{item}
	done["usage"] = object{"input_tokens": in, "input_tokens_details": object{"cached_tokens": x.script.num("cached", 0)}, "output_tokens": out,
		"output_tokens_details": object{"reasoning_tokens": x.script.num("thought", 0)}, "total_tokens": in + out}
	if stop := x.script["stop"]; stop != "" {
		done["status"], done["incomplete_details"] = "incomplete", object{"reason": stop}
	}
	if !streams(x.req) {
		writeJSON(x.w, done)
		return "nonstream:" + answer
	}
	x.streamResponse(begun, done, item)
	return answer + " tools=" + strings.Join(o.names, "|")
}

// finalItem is the answer's text, or a sample of the wanted schema.
func (x *exchange) finalItem(id string) object {
	text := x.script.final()
	if f := obj(obj(x.req["text"])["format"]); str(f["type"]) == "json_schema" && x.script["noso"] == "" {
		text = encode(schemaSample(obj(f["schema"])))
	}
	return object{"type": "message", "id": "msg_" + id, "role": "assistant", "status": "completed",
		"content": list{object{"type": "output_text", "text": text, "annotations": list{}}}}
}

func (x *exchange) streamResponse(begun, done, item object) {
	x.w.Header().Set("Content-Type", "text/event-stream")
	seq := 0
	emit := func(kind string, m object) {
		m["type"], m["sequence_number"] = kind, seq
		seq++
		sse(x.w, kind, m)
	}
	emit("response.created", object{"response": begun})
	emit("response.in_progress", object{"response": begun})
	part := maps.Clone(item)
	part["status"] = "in_progress"
	switch str(item["type"]) {
	case "message":
		part["content"] = list{}
		text := str(obj(arr(item["content"])[0])["text"])
		at := func(m object) object {
			m["output_index"], m["content_index"], m["item_id"] = 0, 0, item["id"]
			return m
		}
		emit("response.output_item.added", object{"output_index": 0, "item": part})
		emit("response.content_part.added", at(object{"part": object{"type": "output_text", "text": "", "annotations": list{}}}))
		emit("response.output_text.delta", at(object{"delta": text}))
		emit("response.output_text.done", at(object{"text": text}))
		emit("response.content_part.done", at(object{"part": object{"type": "output_text", "text": text, "annotations": list{}}}))
	case "function_call":
		part["arguments"] = ""
		emit("response.output_item.added", object{"output_index": 0, "item": part})
		emit("response.function_call_arguments.delta", object{"output_index": 0, "item_id": item["id"], "delta": item["arguments"]})
		emit("response.function_call_arguments.done", object{"output_index": 0, "item_id": item["id"], "arguments": item["arguments"]})
	default:
		emit("response.output_item.added", object{"output_index": 0, "item": part})
	}
	emit("response.output_item.done", object{"output_index": 0, "item": item})
	emit("response."+str(done["status"]), object{"response": done})
}
