package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// request is the top level of a Messages request. The parts are slices of the
// body, unread.
type request struct {
	model                   string
	stream                  bool
	system, tools, messages []byte
}

// readRequest walks only the top level: bodies are large, and every microsecond
// here is before the first byte. Keys are compared exactly and may stand once,
// so that what is checked is what the API will read.
func readRequest(body []byte) (request, error) {
	var r request
	seen := map[string]bool{}
	rest := bytes.TrimLeft(body, jsonSpace)
	if len(rest) == 0 || rest[0] != '{' {
		return r, errors.New("expected a JSON object")
	}
	rest = bytes.TrimLeft(rest[1:], jsonSpace)
	for len(rest) > 0 && rest[0] != '}' {
		n := valueLength(rest)
		var key string
		if rest[0] != '"' || n < 0 || json.Unmarshal(rest[:n], &key) != nil {
			return r, errors.New("malformed JSON key")
		}
		rest = bytes.TrimLeft(rest[n:], jsonSpace)
		if len(rest) == 0 || rest[0] != ':' {
			return r, fmt.Errorf("malformed JSON after key %q", cutText(key, 50))
		}
		rest = bytes.TrimLeft(rest[1:], jsonSpace)
		if n = valueLength(rest); n <= 0 {
			return r, fmt.Errorf("malformed JSON value of %q", cutText(key, 50))
		}
		if err := r.set(key, rest[:n], seen); err != nil {
			return r, err
		}
		rest = bytes.TrimLeft(rest[n:], jsonSpace)
		if len(rest) > 0 && rest[0] == ',' {
			rest = bytes.TrimLeft(rest[1:], jsonSpace)
			continue
		}
		break
	}
	if len(rest) == 0 || rest[0] != '}' || len(bytes.TrimLeft(rest[1:], jsonSpace)) > 0 {
		return r, errors.New("malformed JSON object")
	}
	if r.model == "" {
		return r, errors.New("no model")
	}
	return r, nil
}

func (r *request) set(key string, value []byte, seen map[string]bool) error {
	var err error
	switch key {
	case "model":
		err = json.Unmarshal(value, &r.model)
	case "stream":
		err = json.Unmarshal(value, &r.stream)
	case "system":
		r.system = value
	case "tools":
		r.tools = value
	case "messages":
		r.messages = value
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if seen[key] {
		return fmt.Errorf("key %q stands twice", key)
	}
	seen[key] = true
	return nil
}

const jsonSpace = " \t\r\n"

// valueLength is the length of the JSON value that b begins with; -1 where it
// does not end. It finds the end, it does not validate.
func valueLength(b []byte) int {
	depth := 0
	for i := 0; i < len(b); {
		switch b[i] {
		case '"':
			n := stringLength(b[i:])
			if n < 0 {
				return -1
			}
			i += n
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return -1
}

// stringLength is the length of the JSON string that b begins with, quotes
// included.
func stringLength(b []byte) int {
	for i := 1; i < len(b); {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1
		}
		end := i + q
		slashes := 0
		for end-1-slashes > 0 && b[end-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return end + 1
		}
		i = end + 1
	}
	return -1
}
