package expr

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The lexer is ours and not actionlint's: GitHub's decides from the token before
// whether a token is legal at all, reads numbers to the next boundary and then
// asks whether they are numbers, and reports what it did not expect in those
// terms. Positions and refusals follow from that.

type tokenKind uint

const (
	tokenNone tokenKind = iota // before the first token and after the last
	tokenStartGroup
	tokenStartIndex
	tokenStartParameters
	tokenEndGroup
	tokenEndIndex
	tokenEndParameters
	tokenSeparator
	tokenDereference
	tokenWildcard
	tokenOperator
	tokenLiteral
	tokenProperty
	tokenFunction
	tokenContext
)

type tokenSet uint

func setOf(kinds ...tokenKind) tokenSet {
	var s tokenSet
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

func (s tokenSet) has(k tokenKind) bool { return s&(1<<k) != 0 }

const (
	// beforeOperand are the tokens after which an operand begins.
	beforeOperand tokenSet = 1<<tokenNone | 1<<tokenSeparator | 1<<tokenStartGroup |
		1<<tokenStartParameters | 1<<tokenStartIndex | 1<<tokenOperator
	// indexable are the tokens after which "." and "[" may stand.
	indexable tokenSet = 1<<tokenEndGroup | 1<<tokenEndParameters | 1<<tokenEndIndex |
		1<<tokenWildcard | 1<<tokenProperty | 1<<tokenContext
	// endOperand are the tokens that may end an operand.
	endOperand = indexable | 1<<tokenLiteral
)

type token struct {
	kind        tokenKind
	start, end  int
	value       Value // of a literal
	unrecovered bool
}

type lexer struct {
	src      string
	at       int
	last     token
	unclosed []tokenKind
}

// next returns the next token, of kind tokenNone at the end of the expression.
func (l *lexer) next() (token, *Error) {
	l.skipSpace()
	if l.at >= len(l.src) {
		return token{start: l.at, end: l.at}, nil
	}
	t := l.read()
	if t.unrecovered || !l.legal(t) {
		text := l.src[t.start:t.end]
		err := errorAt(l.src, t.start, t.end-t.start, "Unexpected symbol: '%s'", text)
		err.Hint = symbolHint(text)
		return t, err
	}
	l.last = t
	return t, nil
}

func (l *lexer) skipSpace() {
	for l.at < len(l.src) {
		r, n := decode(l.src[l.at:])
		if !unicode.IsSpace(r) {
			return
		}
		l.at += n
	}
}

// read cuts the next token without regard to whether it may stand here.
func (l *lexer) read() token {
	start := l.at
	single := func(k tokenKind) token {
		l.at++
		return token{kind: k, start: start, end: l.at}
	}
	switch c := l.src[l.at]; c {
	case '(':
		if l.last.kind == tokenFunction {
			return single(tokenStartParameters)
		}
		return single(tokenStartGroup)
	case ')':
		if n := len(l.unclosed); n > 0 && l.unclosed[n-1] == tokenStartParameters {
			return single(tokenEndParameters)
		}
		return single(tokenEndGroup)
	case '[':
		return single(tokenStartIndex)
	case ']':
		return single(tokenEndIndex)
	case ',':
		return single(tokenSeparator)
	case '*':
		return single(tokenWildcard)
	case '\'':
		return l.readString()
	case '!', '>', '<', '=', '&', '|':
		return l.readOperator()
	case '.':
		if !beforeOperand.has(l.last.kind) {
			return single(tokenDereference)
		}
		return l.readNumber()
	default:
		if c == '-' || c == '+' || '0' <= c && c <= '9' {
			return l.readNumber()
		}
		return l.readName()
	}
}

func (l *lexer) readNumber() token {
	start := l.at
	l.at++
	l.toBoundary(true)
	f := parseNumber(l.src[start:l.at])
	return token{kind: tokenLiteral, start: start, end: l.at, value: f, unrecovered: math.IsNaN(f)}
}

func (l *lexer) readString() token {
	start := l.at
	l.at++
	for {
		quote := strings.IndexByte(l.src[l.at:], '\'')
		if quote < 0 {
			l.at = len(l.src)
			return token{kind: tokenLiteral, start: start, end: l.at, unrecovered: true}
		}
		l.at += quote + 1
		if l.at >= len(l.src) || l.src[l.at] != '\'' {
			break
		}
		l.at++
	}
	text := l.src[start+1 : l.at-1]
	if strings.Contains(text, "''") {
		text = strings.ReplaceAll(text, "''", "'")
	}
	return token{kind: tokenLiteral, start: start, end: l.at, value: text}
}

func (l *lexer) readOperator() token {
	start := l.at
	if l.at+1 < len(l.src) {
		switch l.src[start : start+2] {
		case "!=", ">=", "<=", "==", "&&", "||":
			l.at += 2
			return token{kind: tokenOperator, start: start, end: l.at}
		}
	}
	l.at++
	switch l.src[start] {
	case '!', '>', '<':
		return token{kind: tokenOperator, start: start, end: l.at}
	}
	l.toBoundary(false)
	return token{start: start, end: l.at, unrecovered: true}
}

func (l *lexer) readName() token {
	start := l.at
	_, n := decode(l.src[start:])
	l.at += n
	l.toBoundary(false)
	t := token{start: start, end: l.at}
	text := l.src[start:l.at]
	if !IsName(text) {
		t.unrecovered = true
		return t
	}
	if l.last.kind == tokenDereference {
		t.kind = tokenProperty
		return t
	}
	t.kind = tokenLiteral
	switch text {
	case "null":
	case "true":
		t.value = true
	case "false":
		t.value = false
	case "NaN":
		t.value = math.NaN()
	case "Infinity":
		t.value = math.Inf(1)
	default:
		t.kind = tokenContext
		rest := strings.TrimLeftFunc(l.src[l.at:], unicode.IsSpace)
		if strings.HasPrefix(rest, "(") {
			t.kind = tokenFunction
		}
	}
	return t
}

// toBoundary goes on to the next character that ends a name, or with dots a
// number.
func (l *lexer) toBoundary(dots bool) {
	for l.at < len(l.src) {
		r, n := decode(l.src[l.at:])
		switch r {
		case '.':
			if !dots {
				return
			}
		case '(', '[', ')', ']', ',', '!', '>', '<', '=', '&', '|':
			return
		default:
			if r != utf8.RuneError && unicode.IsSpace(r) {
				return
			}
		}
		l.at += n
	}
}

// legal reports whether t may follow the token before it, and keeps account of
// what is open.
func (l *lexer) legal(t token) bool {
	last := l.last.kind
	switch t.kind {
	case tokenStartGroup:
		if !beforeOperand.has(last) {
			return false
		}
	case tokenStartIndex, tokenDereference:
		if !indexable.has(last) {
			return false
		}
	case tokenStartParameters:
		if last != tokenFunction {
			return false
		}
	case tokenEndParameters:
		if !(endOperand | 1<<tokenStartParameters).has(last) {
			return false
		}
	case tokenEndGroup, tokenEndIndex, tokenSeparator:
		if !endOperand.has(last) {
			return false
		}
	case tokenWildcard:
		if !setOf(tokenStartIndex, tokenDereference).has(last) {
			return false
		}
	case tokenProperty:
		if last != tokenDereference {
			return false
		}
	case tokenOperator:
		if l.src[t.start:t.end] != "!" {
			if !endOperand.has(last) {
				return false
			}
		} else if !beforeOperand.has(last) {
			return false
		}
	default:
		if !beforeOperand.has(last) {
			return false
		}
	}
	return l.nests(t.kind)
}

func (l *lexer) nests(k tokenKind) bool {
	top := tokenNone
	if n := len(l.unclosed); n > 0 {
		top = l.unclosed[n-1]
	}
	closes := func(open tokenKind) bool {
		if top != open {
			return false
		}
		l.unclosed = l.unclosed[:len(l.unclosed)-1]
		return true
	}
	switch k {
	case tokenStartGroup, tokenStartIndex, tokenStartParameters:
		l.unclosed = append(l.unclosed, k)
	case tokenEndGroup:
		return closes(tokenStartGroup)
	case tokenEndIndex:
		return closes(tokenStartIndex)
	case tokenEndParameters:
		return closes(tokenStartParameters)
	case tokenSeparator:
		return top == tokenStartParameters
	}
	return true
}

// IsName reports whether s may be a context, a function or a property after a
// dot: a letter or _, then letters, digits, _ and -.
func IsName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
		case i > 0 && ('0' <= c && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return s != ""
}

// symbolHint says what to write instead of what people often write.
func symbolHint(text string) string {
	switch {
	case strings.HasPrefix(text, `"`):
		return "strings are written in single quotes: 'text'"
	case strings.HasPrefix(text, "'") && len(text) > 1 && strings.HasSuffix(text, "'"):
		return "two values stand side by side; join texts with format(), values with an operator"
	case strings.HasPrefix(text, "'"):
		return "the string is not closed; a quote inside it is written ''"
	case text == "=":
		return "equality is written =="
	case text == "&":
		return "and is written &&"
	case text == "|":
		return "or is written ||"
	case strings.HasPrefix(text, "$"), strings.HasPrefix(text, "{"):
		return "inside ${{ }} names are written bare: github.ref"
	case text != "" && strings.ContainsRune("+-*/%0123456789", rune(text[0])) && len(text) <= 20:
		return "the language has no arithmetic"
	}
	return ""
}
