package fakemodel

import (
	"cmp"
	"strings"
)

func (x *exchange) gemini() string {
	var names []string
	for _, t := range arr(x.req["tools"]) {
		for _, f := range arr(obj(t)["functionDeclarations"]) {
			names = append(names, str(obj(f)["name"]))
		}
	}
	part, answer := object{"text": x.script.final()}, "text"
	config := obj(x.req["generationConfig"])
	results := geminiResults(x.req)
	switch {
	case str(config["responseMimeType"]) == "application/json":
		schema := obj(config["responseJsonSchema"])
		if schema == nil {
			schema = obj(config["responseSchema"])
		}
		part, answer = object{"text": encode(schemaSample(schema))}, "json"
	default:
		if name, args := x.chatCall(names, results); name != "" {
			part, answer = object{"functionCall": object{"name": name, "args": args}}, "call:"+name
		}
	}
	v := object{
		"candidates":    list{object{"content": object{"role": "model", "parts": list{part}}, "finishReason": cmp.Or(x.script["stop"], "STOP"), "index": 0}},
		"usageMetadata": x.geminiUsage(),
		"modelVersion":  "fake",
	}
	if !strings.Contains(x.path, ":stream") {
		writeJSON(x.w, v)
		return "nonstream:" + answer
	}
	x.w.Header().Set("Content-Type", "text/event-stream")
	writeString(x.w, "data: "+encode(v)+"\r\n\r\n")
	return answer + " tools=" + strings.Join(names, "|")
}

// geminiUsage leaves counters of zero out, as the API does. Thoughts are no part
// of the candidates' tokens, cached ones are of the prompt's.
func (x *exchange) geminiUsage() object {
	in, out, thought := x.script.num("in", 100), x.script.num("out", 20), x.script.num("thought", 0)
	u := object{"promptTokenCount": in, "candidatesTokenCount": out - thought, "totalTokenCount": in + out}
	if n := x.script.num("cached", 0); n > 0 {
		u["cachedContentTokenCount"] = n
	}
	if thought > 0 {
		u["thoughtsTokenCount"] = thought
	}
	return u
}

// geminiResults counts tool results since the last user text.
func geminiResults(req object) int {
	results := 0
	for _, c := range arr(req["contents"]) {
		if str(obj(c)["role"]) != "user" {
			continue
		}
		n := 0
		for _, p := range arr(obj(c)["parts"]) {
			if obj(p)["functionResponse"] != nil {
				n++
			}
		}
		if n == 0 {
			results = 0
		}
		results += n
	}
	return results
}
