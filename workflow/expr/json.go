package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

const maxJSONDepth = 100

// FromJSON reads one JSON value. Mappings keep their order; of keys that are
// equal without regard to case the last value wins, at the place and in the case
// of the first.
func FromJSON(data []byte) (Value, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("%w, at byte %d", err, syntax.Offset)
		}
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return readJSON(d, 1)
}

func readJSON(d *json.Decoder, depth int) (Value, error) {
	t, err := d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		// A number out of range is an infinity or zero.
		f, _ := strconv.ParseFloat(t.String(), 64)
		return f, nil
	case json.Delim:
		if depth > maxJSONDepth {
			return nil, fmt.Errorf("nested deeper than %d levels, at byte %d", maxJSONDepth, d.InputOffset())
		}
		if t == '[' {
			return readJSONArray(d, depth)
		}
		return readJSONObject(d, depth)
	}
	return t, nil // nil, bool, string
}

func readJSONArray(d *json.Decoder, depth int) (Value, error) {
	a := &Array{}
	for d.More() {
		v, err := readJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		a.Items = append(a.Items, v)
	}
	_, err := d.Token()
	return a, err
}

func readJSONObject(d *json.Decoder, depth int) (Value, error) {
	o := NewObject()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := readJSON(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.Set(key.(string), v)
	}
	_, err := d.Token()
	return o, err
}

// ToJSON is the toJSON of the language: two blanks of indentation, keys in their
// order, numbers as String prints them.
func ToJSON(v Value) string {
	var out plainWriter
	writeJSON(&out, v, 0)
	return out.String()
}

// stringWriter is what writeJSON writes to: bounded in an evaluation, plain
// outside of one.
type stringWriter interface{ add(s string) }

type plainWriter struct{ strings.Builder }

func (w *plainWriter) add(s string) { w.WriteString(s) }

func writeJSON(out stringWriter, v Value, level int) {
	line := func(level int) string { return "\n" + strings.Repeat("  ", level) }
	switch v := v.(type) {
	case nil:
		out.add("null")
	case string:
		out.add(string(appendQuoted(nil, v)))
	case *Array:
		if len(v.Items) == 0 {
			out.add("[]")
			return
		}
		out.add("[")
		for i, item := range v.Items {
			if i > 0 {
				out.add(",")
			}
			out.add(line(level + 1))
			writeJSON(out, item, level+1)
		}
		out.add(line(level) + "]")
	case *Object:
		if v.Len() == 0 {
			out.add("{}")
			return
		}
		out.add("{")
		for i, key := range v.keys {
			if i > 0 {
				out.add(",")
			}
			out.add(line(level+1) + string(appendQuoted(nil, key)) + ": ")
			writeJSON(out, v.values[i], level+1)
		}
		out.add(line(level) + "}")
	default:
		out.add(String(v))
	}
}

// AppendJSON appends v as compact JSON. NaN and the infinities, which JSON does
// not have, are strings.
func AppendJSON(dst []byte, v Value) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case float64:
		return appendNumber(dst, v)
	case string:
		return appendQuoted(dst, v)
	case *Array:
		dst = append(dst, '[')
		for i, item := range v.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSON(dst, item)
		}
		return append(dst, ']')
	case *Object:
		dst = append(dst, '{')
		for i, key := range v.Keys() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendQuoted(dst, key), ':')
			dst = AppendJSON(dst, v.values[i])
		}
		return append(dst, '}')
	}
	return append(dst, String(v)...)
}

func appendNumber(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return appendQuoted(dst, formatNumber(f))
	}
	if f == 0 {
		return append(dst, '0')
	}
	if abs := math.Abs(f); abs >= 1e21 || abs < 1e-6 {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(dst, f, 'f', -1, 64)
}

// appendQuoted writes a JSON string with the escapes of Newtonsoft.Json, which
// the runner uses: HTML is left alone, three line ends of Unicode are not.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		r, n := decode(s[i:])
		switch r {
		case '"', '\\':
			dst = append(dst, '\\', byte(r))
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\u0085', '\u2028', '\u2029':
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			if r < ' ' {
				dst = fmt.Appendf(dst, `\u%04x`, r)
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		}
		i += n
	}
	return append(dst, '"')
}
