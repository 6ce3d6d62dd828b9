package expr

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// parseJSON reads what fromJSON takes at GitHub. The runner gives the text to
// Newtonsoft.Json, which takes more than JSON: comments, texts in single quotes
// and over several lines, names without quotes, commas at the end, NaN, the
// infinities, hexadecimal and octal numbers; an element left out is an empty
// text. It reads one value and does not look at what follows that.
func parseJSON(s string) (Value, error) {
	p := &jsonParser{s: s}
	if err := p.blanks(); err != nil {
		return nil, err
	}
	if p.s[p.i:] == "" {
		return nil, errors.New("there is no value")
	}
	return p.value(1)
}

type jsonParser struct {
	s string
	i int
}

// fail says what stands where something else was expected.
func (p *jsonParser) fail(want string) error {
	if p.i >= len(p.s) {
		return fmt.Errorf("expected %s, the text ends", want)
	}
	r, _ := utf8.DecodeRuneInString(p.s[p.i:])
	return fmt.Errorf("expected %s, found %q at byte %d", want, r, p.i)
}

// peek gives the next byte; 0 at the end.
func (p *jsonParser) peek() byte {
	if p.i >= len(p.s) {
		return 0
	}
	return p.s[p.i]
}

// take skips c if it comes next.
func (p *jsonParser) take(c byte) bool {
	if p.i < len(p.s) && p.s[p.i] == c {
		p.i++
		return true
	}
	return false
}

// blanks skips white space and comments.
func (p *jsonParser) blanks() error {
	for p.i < len(p.s) {
		r, n := utf8.DecodeRuneInString(p.s[p.i:])
		rest := p.s[p.i:]
		switch {
		case unicode.IsSpace(r):
			p.i += n
		case strings.HasPrefix(rest, "//"):
			if end := strings.IndexAny(rest, "\r\n"); end >= 0 {
				p.i += end
			} else {
				p.i = len(p.s)
			}
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return fmt.Errorf("the comment at byte %d has no end", p.i)
			}
			p.i += end + 4
		default:
			return nil
		}
	}
	return nil
}

func (p *jsonParser) value(depth int) (Value, error) {
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if depth > maxJSONDepth {
			return nil, fmt.Errorf("nested deeper than %d levels, at byte %d", maxJSONDepth, p.i)
		}
		p.i++
		if c == '[' {
			return p.array(depth)
		}
		return p.object(depth)
	case c == '"' || c == '\'':
		return p.text()
	case c >= '0' && c <= '9', c == '.', c == '-' && !strings.HasPrefix(p.s[p.i:], "-I"):
		return p.number()
	}
	return p.word()
}

func (p *jsonParser) array(depth int) (Value, error) {
	a := &Array{}
	for {
		if err := p.blanks(); err != nil {
			return nil, err
		}
		if p.take(']') {
			return a, nil
		}
		item, err := p.element(depth)
		if err != nil {
			return nil, err
		}
		a.Items = append(a.Items, item)
		if done, err := p.next(']'); done || err != nil {
			return a, err
		}
	}
}

func (p *jsonParser) object(depth int) (Value, error) {
	o := NewObject()
	for {
		if err := p.blanks(); err != nil {
			return nil, err
		}
		if p.take('}') {
			return o, nil
		}
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if err := p.blanks(); err != nil {
			return nil, err
		}
		if !p.take(':') {
			return nil, p.fail("':'")
		}
		if err := p.blanks(); err != nil {
			return nil, err
		}
		item, err := p.element(depth)
		if err != nil {
			return nil, err
		}
		o.Set(name, item)
		if done, err := p.next('}'); done || err != nil {
			return o, err
		}
	}
}

// element is a value inside of an array or object; one left out is empty.
func (p *jsonParser) element(depth int) (Value, error) {
	if p.peek() == ',' {
		return "", nil
	}
	return p.value(depth + 1)
}

// next reads what follows an element: a comma, or the end.
func (p *jsonParser) next(end byte) (done bool, err error) {
	if err := p.blanks(); err != nil {
		return false, err
	}
	if p.take(end) {
		return true, nil
	}
	if !p.take(',') {
		return false, p.fail(fmt.Sprintf("',' or %q", end))
	}
	return false, nil
}

func (p *jsonParser) name() (string, error) {
	if c := p.peek(); c == '"' || c == '\'' {
		return p.text()
	}
	start := p.i
	for p.i < len(p.s) {
		r, n := utf8.DecodeRuneInString(p.s[p.i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '$' {
			break
		}
		p.i += n
	}
	if p.i == start {
		return "", p.fail("a name")
	}
	return p.s[start:p.i], nil
}

func (p *jsonParser) word() (Value, error) {
	for _, w := range []struct {
		text  string
		value Value
	}{
		{"true", true}, {"false", false}, {"null", nil}, {"undefined", ""},
		{"NaN", math.NaN()}, {"Infinity", math.Inf(1)}, {"-Infinity", math.Inf(-1)},
	} {
		after, ok := strings.CutPrefix(p.s[p.i:], w.text)
		if !ok {
			continue
		}
		if r, _ := utf8.DecodeRuneInString(after); after != "" && !unicode.IsSpace(r) && !strings.ContainsRune(",]}/", r) {
			break
		}
		p.i += len(w.text)
		return w.value, nil
	}
	return nil, p.fail("a value")
}

func (p *jsonParser) number() (Value, error) {
	start := p.i
	for p.i < len(p.s) && strings.IndexByte("0123456789abcdefABCDEFxX.+-", p.s[p.i]) >= 0 {
		p.i++
	}
	text := p.s[start:p.i]
	if r, _ := utf8.DecodeRuneInString(p.s[p.i:]); p.i < len(p.s) && !unicode.IsSpace(r) && !strings.ContainsRune(",]})/", r) {
		return nil, p.fail("the end of a number")
	}
	if f, ok := jsonNumber(text); ok {
		return f, nil
	}
	return nil, fmt.Errorf("%q at byte %d is no number", text, start)
}

func jsonNumber(text string) (float64, bool) {
	if len(text) > 1 && text[0] == '0' && strings.IndexByte(".eE", text[1]) < 0 {
		digits, base := text, 8
		if text[1] == 'x' || text[1] == 'X' {
			digits, base = text[2:], 16
		}
		// 64 bits, the highest is the sign.
		n, err := strconv.ParseUint(digits, base, 64)
		return float64(int64(n)), err == nil
	}
	if strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

func (p *jsonParser) text() (string, error) {
	start, quote := p.i, p.s[p.i]
	p.i++
	var b strings.Builder
	for p.i < len(p.s) {
		end := strings.IndexAny(p.s[p.i:], "\\"+string(quote))
		if end < 0 {
			break
		}
		b.WriteString(p.s[p.i : p.i+end])
		p.i += end + 1
		if p.s[p.i-1] == quote {
			return b.String(), nil
		}
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
	}
	return "", fmt.Errorf("the text at byte %d has no closing %c", start, quote)
}

func (p *jsonParser) escape() (rune, error) {
	c := p.peek()
	if i := strings.IndexByte(`btnfr\"'/`, c); i >= 0 && c != 0 {
		p.i++
		return rune("\b\t\n\f\r\\\"'/"[i]), nil
	}
	if c != 'u' {
		return 0, p.fail("an escape such as \\n after the backslash")
	}
	r, err := p.unicode()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	before := p.i
	if strings.HasPrefix(p.s[p.i:], `\u`) {
		p.i++
		low, err := p.unicode()
		if err != nil {
			return 0, err
		}
		if both := utf16.DecodeRune(r, low); both != unicode.ReplacementChar {
			return both, nil
		}
	}
	p.i = before
	return unicode.ReplacementChar, nil
}

// unicode reads uXXXX.
func (p *jsonParser) unicode() (rune, error) {
	digits := p.s[p.i+1 : min(p.i+5, len(p.s))]
	n, err := strconv.ParseUint(digits, 16, 16)
	if err != nil || len(digits) < 4 {
		return 0, fmt.Errorf("expected four hexadecimal digits at byte %d", p.i+1)
	}
	p.i += 5
	return rune(n), nil
}
