// Package jsonscan reads JSON records without building them: an agent's record
// repeats large tool results in fields nobody needs, and its type may be the
// last field. Values are slices of the input. Malformed JSON ends a walk and
// never panics; nesting costs no stack. The decoders of the runtimes stand on
// it; what must be strict they give to encoding/json.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
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

// Text is the string that raw holds; "" for anything else. Invalid UTF-8 is
// replaced.
func Text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	inner := raw[1 : len(raw)-1]
	if hasControl(inner) { // not allowed as they are
		return ""
	}
	next := bytes.IndexByte(inner, '\\')
	if next < 0 {
		return valid(inner)
	}
	out, n := make([]byte, len(inner)), 0 // an escape is longer than what it means
	for ; next >= 0; next = bytes.IndexByte(inner, '\\') {
		n += copy(out[n:], inner[:next])
		if next+1 >= len(inner) {
			return ""
		}
		if c := simple(inner[next+1]); c != 0 {
			out[n] = c
			n++
			inner = inner[next+2:]
			continue
		}
		r, size := unicodeEscape(inner[next:])
		if size == 0 {
			return ""
		}
		n += utf8.EncodeRune(out[n:], r)
		inner = inner[next+size:]
	}
	n += copy(out[n:], inner)
	return valid(out[:n])
}

// valid is b as a string, with invalid UTF-8 replaced.
func valid(b []byte) string {
	if utf8.Valid(b) { // eight bytes at a time, where they are ASCII
		return string(b)
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// hasControl reports whether a byte of b is below 0x20, eight at a time: a byte
// that is borrows from its own high bit.
func hasControl(b []byte) bool {
	const ones = 0x0101010101010101
	for len(b) >= 8 {
		x := binary.LittleEndian.Uint64(b)
		if (x-ones*0x20)&^x&(ones*0x80) != 0 {
			return true
		}
		b = b[8:]
	}
	for _, c := range b {
		if c < 0x20 {
			return true
		}
	}
	return false
}

// simple is what an escape of one character means; 0 for none.
func simple(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case '"', '\\', '/':
		return c
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	}
	return 0
}

// unicodeEscape reads the \uXXXX, or the pair of them, that s begins with; n is
// its length, 0 for none. Half of a surrogate pair is U+FFFD.
func unicodeEscape(s []byte) (r rune, n int) {
	first := hex4(s)
	if first < 0 {
		return 0, 0
	}
	if !utf16.IsSurrogate(first) {
		return first, 6
	}
	if len(s) >= 12 {
		if pair := utf16.DecodeRune(first, hex4(s[6:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

// hex4 reads \uXXXX; -1 where s does not begin so.
func hex4(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}

// Int is the whole number that raw holds; 0 for anything else.
func Int(raw []byte) int {
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}

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
