package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// request is the top level of a request to a model API.
type request struct {
	endpoint
	model  string
	stream bool
	// uncounted says that the answer will not tell what it cost.
	uncounted bool
	// parts are slices of the body, unread; those the dialect names.
	parts map[string][]byte
}

// readRequest reads the top level only: bodies are large, and every microsecond
// here is before the first byte. Keys are compared exactly and may stand once,
// so that what is checked is what the API will read.
func (d *dialect) readRequest(e endpoint, body []byte) (request, error) {
	r := request{endpoint: e, model: e.model, stream: e.stream, parts: map[string][]byte{}}
	err := eachKey(body, func(key string, value []byte) error {
		if key != "model" && key != "stream" && !slices.Contains(d.parts, key) {
			return nil
		}
		if _, twice := r.parts[key]; twice {
			return fmt.Errorf("key %q stands twice", key)
		}
		r.parts[key] = value
		return nil
	})
	if err != nil {
		return r, err
	}
	if err := r.take("stream", &r.stream); err != nil {
		return r, err
	}
	if err := r.take("model", &r.model); err != nil {
		return r, err
	}
	if e.model != "" && r.model != e.model {
		return r, fmt.Errorf("the path names model %q, the body %q", cutText(e.model, 100), cutText(r.model, 100))
	}
	if r.model == "" {
		return r, errors.New("no model")
	}
	if d.read != nil {
		return r, d.read(&r)
	}
	return r, nil
}

// take reads a part, where it is there.
func (r *request) take(key string, to any) error {
	raw, ok := r.parts[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// eachKey calls found for each key of a JSON object with its value, unread.
func eachKey(body []byte, found func(key string, value []byte) error) error {
	rest := trimSpace(body)
	if len(rest) == 0 || rest[0] != '{' {
		return errors.New("expected a JSON object")
	}
	rest = trimSpace(rest[1:])
	for len(rest) > 0 && rest[0] != '}' {
		n := valueLength(rest)
		var key string
		if rest[0] != '"' || n < 0 || json.Unmarshal(rest[:n], &key) != nil {
			return errors.New("malformed JSON key")
		}
		rest = trimSpace(rest[n:])
		if len(rest) == 0 || rest[0] != ':' {
			return fmt.Errorf("malformed JSON after key %q", cutText(key, 50))
		}
		rest = trimSpace(rest[1:])
		if n = valueLength(rest); n <= 0 {
			return fmt.Errorf("malformed JSON value of %q", cutText(key, 50))
		}
		if err := found(key, rest[:n]); err != nil {
			return err
		}
		rest = trimSpace(rest[n:])
		if len(rest) > 0 && rest[0] == ',' {
			rest = trimSpace(rest[1:])
			continue
		}
		break
	}
	if len(rest) == 0 || rest[0] != '}' || len(trimSpace(rest[1:])) > 0 {
		return errors.New("malformed JSON object")
	}
	return nil
}

// trimSpace removes what JSON allows before a value.
func trimSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

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
