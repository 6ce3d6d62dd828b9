package expr

import (
	"strconv"
	"strings"
)

// callFormat replaces {N} by the arguments. An argument that the format does not
// name is not evaluated.
func callFormat(e *evaluation, n *node, level int) (Value, *Error) {
	v, err := e.eval(n.args[0], level+1)
	if err != nil {
		return nil, err
	}
	format := String(v)
	pieces, err := e.parseFormat(n, format)
	if err != nil {
		return nil, err
	}
	known := make(map[int]Value)
	out := e.builder(n)
	for _, p := range pieces {
		if p.arg < 0 {
			out.add(p.text)
			continue
		}
		v, ok := known[p.arg]
		if !ok {
			if v, err = e.eval(n.args[p.arg+1], level+1); err != nil {
				return nil, err
			}
			known[p.arg] = v
		}
		if p.text != "" {
			return nil, e.fail(n, "The format specifiers '%s' are not valid for objects of type '%s'", p.text, kindOf(v))
		}
		out.add(String(v))
	}
	return out.result()
}

// piece is text (arg < 0), or an argument with its format specifiers.
type piece struct {
	text string
	arg  int
}

func (e *evaluation) parseFormat(n *node, format string) ([]piece, *Error) {
	var pieces []piece
	text := func(s string) {
		if s != "" {
			pieces = append(pieces, piece{text: s, arg: -1})
		}
	}
	rest := format
	for rest != "" {
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			text(rest)
			break
		}
		if at+1 < len(rest) && rest[at+1] == rest[at] { // {{ or }}
			text(rest[:at+1])
			rest = rest[at+2:]
			continue
		}
		arg, specifiers, after, ok := -1, "", "", false
		if rest[at] == '{' {
			arg, specifiers, after, ok = readArgument(rest[at+1:])
		}
		if !ok {
			err := e.fail(n, "The following format string is invalid: %s", format)
			err.Hint = "a brace that is meant as text is written twice: {{ and }}"
			return nil, err
		}
		if arg > len(n.args)-2 {
			err := e.fail(n, "The following format string references more arguments than were supplied: %s", format)
			err.Hint = "the first argument after the format is {0}"
			return nil, err
		}
		text(rest[:at])
		pieces = append(pieces, piece{text: specifiers, arg: arg})
		rest = after
	}
	return pieces, nil
}

// readArgument reads "N}" or "N:specifiers}"; in specifiers a brace is doubled.
func readArgument(s string) (arg int, specifiers, after string, ok bool) {
	digits := 0
	for digits < len(s) && '0' <= s[digits] && s[digits] <= '9' {
		digits++
	}
	index, err := strconv.ParseUint(s[:digits], 10, 8)
	if err != nil || digits == len(s) {
		return 0, "", "", false
	}
	arg, s = int(index), s[digits:]
	if s[0] == '}' {
		return arg, "", s[1:], true
	}
	if s[0] != ':' {
		return 0, "", "", false
	}
	var out strings.Builder
	for s = s[1:]; ; {
		brace := strings.IndexByte(s, '}')
		if brace < 0 {
			return 0, "", "", false
		}
		out.WriteString(s[:brace])
		if brace+1 < len(s) && s[brace+1] == '}' {
			out.WriteByte('}')
			s = s[brace+2:]
			continue
		}
		return arg, out.String(), s[brace+1:], true
	}
}
