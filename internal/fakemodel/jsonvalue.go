package fakemodel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Requests are read as loose JSON: a fake answers whatever a CLI sends, also
// fields no SDK knows yet.
type (
	object = map[string]any
	list   = []any
)

func str(v any) string { s, _ := v.(string); return s }
func arr(v any) list   { a, _ := v.(list); return a }
func obj(v any) object { m, _ := v.(object); return m }

// parse reads JSON of a script; what is no JSON is no input.
func parse(s string) any {
	var v any
	_ = json.Unmarshal([]byte(s), &v)
	return v
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%q", "fakemodel: "+err.Error())
	}
	return string(b)
}

// digest makes ids that are the same for the same request content.
func digest(parts ...any) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%v\x00", p)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// schemaSample is a smallest value that fits a JSON schema.
func schemaSample(s object) any {
	if e := arr(s["enum"]); len(e) > 0 {
		return e[0]
	}
	switch str(s["type"]) {
	case "string":
		return "sample"
	case "integer", "number":
		return 7
	case "boolean":
		return true
	case "array":
		return list{schemaSample(obj(s["items"]))}
	case "object":
		m := object{}
		for k, v := range obj(s["properties"]) {
			m[k] = schemaSample(obj(v))
		}
		return m
	}
	return nil
}

// The client may be gone at any write; then there is nobody to tell.

func writeString(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	writeString(w, encode(v)+"\n")
}

func flush(w io.Writer) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func sse(w io.Writer, event string, v any) {
	writeString(w, "event: "+event+"\ndata: "+encode(v)+"\n\n")
	flush(w)
}

func streams(req object) bool { b, _ := req["stream"].(bool); return b }

func isReminder(text string) bool {
	return strings.HasPrefix(strings.TrimSpace(text), "<system-reminder>")
}
