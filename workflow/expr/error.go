package expr

import (
	"fmt"
	"strings"
)

// Error is an expression that can not be parsed or evaluated.
type Error struct {
	Offset  int // bytes, 0-based, in what was given to the function that failed
	Length  int // bytes; 0 when the whole expression is meant
	Message string
	Hint    string
	// Expression is the text of the expression, Position the place in it as
	// GitHub's messages count it: 1-based, in UTF-16 units; 0: the whole.
	Expression string
	Position   int
}

// Error is GitHub's message: what, where, and in which expression.
func (e *Error) Error() string {
	if e.Position == 0 {
		return e.Message
	}
	return fmt.Sprintf("%s. Located at position %d within expression: %s", e.Message, e.Position, e.Expression)
}

func errorAt(src string, offset, length int, format string, args ...any) *Error {
	return &Error{
		Offset: offset, Length: length,
		Message:    fmt.Sprintf(format, args...),
		Expression: src,
		Position:   utf16Len(src[:offset]) + 1,
	}
}

// shifted returns e for a text in which its expression begins at base.
func (e *Error) shifted(base int) *Error {
	moved := *e
	moved.Offset += base
	return &moved
}

// nearest returns the candidate that name was likely meant to be, or "".
func nearest(name string, candidates []string) string {
	name = strings.ToLower(name)
	best, limit := "", 1+len(name)/4
	for _, c := range candidates {
		if d := distance(name, strings.ToLower(c)); d <= limit {
			best, limit = c, d-1
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
