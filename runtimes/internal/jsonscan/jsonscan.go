// Package jsonscan reads JSON records without building them: an agent's record
// repeats large tool results in fields nobody needs, and its type may be the
// last field. Values are slices of the input. Malformed JSON ends a walk and
// never panics; nesting costs no stack. The decoders of the runtimes stand on
// it; what must be strict they give to encoding/json.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Object calls visit for each field of the object raw, and reports whether raw
// is one object from end to end.
func Object(raw []byte, visit func(key, value []byte)) bool {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return false
	}
	i = space(raw, i+1)
	if i < len(raw) && raw[i] == '}' {
		return space(raw, i+1) == len(raw)
	}
	for {
		end := skip(raw, i)
		if end < 0 || raw[i] != '"' {
			return false
		}
		key := raw[i+1 : end-1]
		i = space(raw, end)
		if i >= len(raw) || raw[i] != ':' {
			return false
		}
		i = space(raw, i+1)
		if end = skip(raw, i); end < 0 {
			return false
		}
		visit(key, raw[i:end])
		i = space(raw, end)
		if i >= len(raw) {
			return false
		}
		if raw[i] == '}' {
			return space(raw, i+1) == len(raw)
		}
		if raw[i] != ',' {
			return false
		}
		i = space(raw, i+1)
	}
}

// Array calls visit for each element of the array raw.
func Array(raw []byte, visit func(value []byte)) bool {
	i := space(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return false
	}
	i = space(raw, i+1)
	if i < len(raw) && raw[i] == ']' {
		return true
	}
	for {
		end := skip(raw, i)
		if end < 0 {
			return false
		}
		visit(raw[i:end])
		i = space(raw, end)
		if i >= len(raw) || raw[i] != ',' {
			return i < len(raw) && raw[i] == ']'
		}
		i = space(raw, i+1)
	}
}

// Text is the string that raw holds; "" for anything else.
func Text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) && !bytes.ContainsFunc(inner, control) {
		return string(inner)
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// control are the characters JSON does not allow in a string as they are.
func control(r rune) bool { return r < 0x20 }

// Clean copies raw so that it can be kept and put into other JSON; nil where
// raw is not JSON. Invalid UTF-8 is replaced.
func Clean(raw []byte) json.RawMessage {
	if !json.Valid(raw) {
		return nil
	}
	return bytes.Clone(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
}

func space(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t' || raw[i] == '\n' || raw[i] == '\r') {
		i++
	}
	return i
}

// skip returns the index behind the value that begins at i, or -1.
func skip(raw []byte, i int) int {
	if i >= len(raw) {
		return -1
	}
	switch raw[i] {
	case '"':
		return skipString(raw, i)
	case '{', '[':
		return skipNested(raw, i)
	}
	start := i
	for i < len(raw) && raw[i] != ',' && raw[i] != '}' && raw[i] != ']' && raw[i] > ' ' && raw[i] != '"' && raw[i] != '{' && raw[i] != '[' && raw[i] != ':' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func skipString(raw []byte, i int) int {
	for from := i + 1; ; {
		n := bytes.IndexByte(raw[from:], '"')
		if n < 0 {
			return -1
		}
		end := from + n
		slashes := 0
		for raw[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		from = end + 1
	}
}

func skipNested(raw []byte, i int) int {
	for depth := 0; i < len(raw); {
		switch raw[i] {
		case '"':
			if i = skipString(raw, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}
