package workflow

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// source is the text of a file, to find positions inside scalars again. It is
// read-only after newSource.
type source struct {
	file  string
	lines []string
	width []int // characters in each line
	// marks gives, for a long line, the byte of every markEvery-th character.
	marks map[int][]int
}

const markEvery = 1024

func newSource(file, text string) *source {
	s := &source{file: file, lines: strings.Split(text, "\n"), marks: map[int][]int{}}
	s.width = make([]int, len(s.lines))
	for i, line := range s.lines {
		s.width[i] = utf8.RuneCountInString(line)
		if len(line) < 4*markEvery {
			continue
		}
		column := 0
		for at := range line {
			if column%markEvery == 0 {
				s.marks[i] = append(s.marks[i], at)
			}
			column++
		}
	}
	return s
}

// cursor walks over the characters of a source.
type cursor struct {
	lines []string
	line  int // 0-based
	rest  string
	col   int // 1-based
}

func (s *source) at(p Pos) *cursor {
	c := &cursor{lines: s.lines, line: p.Line - 1, col: 1}
	if c.line < 0 || c.line >= len(s.lines) {
		return c
	}
	c.rest = s.lines[c.line]
	if marks := s.marks[c.line]; len(marks) > 0 && p.Column > markEvery {
		n := min((p.Column-1)/markEvery, len(marks)-1)
		c.rest, c.col = c.rest[marks[n]:], n*markEvery+1
	}
	for c.col < p.Column && c.rest != "" {
		c.skip()
	}
	return c
}

func (c *cursor) pos() Pos { return Pos{c.line + 1, c.col} }

// peek gives the next character; '\n' at the end of a line, -1 at the end.
func (c *cursor) peek() rune {
	if c.rest == "" {
		if c.line+1 >= len(c.lines) {
			return -1
		}
		return '\n'
	}
	r, _ := utf8.DecodeRuneInString(c.rest)
	return r
}

func (c *cursor) skip() {
	if c.rest == "" {
		if c.line+1 < len(c.lines) {
			c.line++
			c.rest, c.col = c.lines[c.line], 1
		}
		return
	}
	_, n := utf8.DecodeRuneInString(c.rest)
	c.rest = c.rest[n:]
	c.col++
}

// next gives the next character of the decoded scalar and where it stands;
// ok is false where the source gives none (an escaped line break).
func (c *cursor) next(quote rune) (r rune, at Pos, ok bool) {
	at, r = c.pos(), c.peek()
	c.skip()
	switch {
	case quote == '\'' && r == '\'':
		c.skip()
	case quote == '"' && r == '\\':
		e := c.peek()
		c.skip()
		return c.escape(e, at)
	}
	return r, at, r != -1
}

func (c *cursor) escape(e rune, at Pos) (rune, Pos, bool) {
	width := map[rune]int{'x': 2, 'u': 4, 'U': 8}[e]
	for range width {
		c.skip()
	}
	switch {
	case e == '\n':
		return 0, at, false
	case strings.ContainsRune("tnrN_LP ve\t", e):
		return ' ', at, true
	}
	return 'x', at, true
}

// locate gives the place in the file of byte offset in the text of scalar v.
// Folding, escapes and indentation are undone by counting the characters that
// are no white space: those are the same in the text and in the file.
func (v *Value) locate(offset int) Pos {
	if v.src == nil || v.Pos.Line == 0 || v.Kind != Scalar {
		return v.Pos
	}
	offset = max(0, min(offset, len(v.Text)))
	before := v.Text[:offset]
	want := 0
	for _, r := range before {
		if !unicode.IsSpace(r) {
			want++
		}
	}
	c := v.src.at(v.Pos)
	quote := rune(0)
	if v.Quoted {
		switch c.peek() {
		case '"', '\'':
			quote = c.peek()
			c.skip()
		case '|', '>':
			for r := c.peek(); r != '\n' && r != -1; r = c.peek() {
				c.skip()
			}
		}
	}
	trailing := 0
	if trimmed := strings.TrimRight(before, " \t"); want > 0 && !strings.HasSuffix(trimmed, "\n") {
		trailing = len(before) - len(trimmed)
	}
	last := c.pos()
	for seen := 0; ; {
		r, at, ok := c.next(quote)
		if r == -1 {
			return last
		}
		if !ok || unicode.IsSpace(r) {
			continue
		}
		after := c.pos()
		if seen == want {
			if offset < len(v.Text) && isSpaceAt(v.Text, offset) {
				return Pos{last.Line, last.Column + trailing}
			}
			return at
		}
		seen++
		last = after
		if seen == want && offset == len(v.Text) {
			return Pos{last.Line, last.Column + trailing}
		}
	}
}

func isSpaceAt(s string, i int) bool {
	r, _ := utf8.DecodeRuneInString(s[i:])
	return unicode.IsSpace(r)
}

// span gives the place of the bytes [offset, offset+length) of v's text and how
// many characters they take up on their first line in the file.
func (v *Value) span(offset, length int) (Pos, int) {
	start := v.locate(offset)
	if length <= 0 || v.src == nil {
		return start, 1
	}
	end := v.locate(offset + length - 1)
	if end.Line != start.Line || end.Column < start.Column {
		line := v.src.lines[min(max(start.Line-1, 0), len(v.src.lines)-1)]
		return start, max(1, utf8.RuneCountInString(strings.TrimRight(line, " \t"))-start.Column+1)
	}
	return start, end.Column - start.Column + 1
}

// width is how many characters of its first line v takes up in the file.
func (v *Value) width() int {
	if v.src == nil || v.Kind != Scalar || v.Pos.Line == 0 {
		return 1
	}
	if !v.Quoted {
		_, n := v.span(0, len(v.Text))
		return n
	}
	if quote := v.src.at(v.Pos).peek(); quote == '|' || quote == '>' {
		return 1
	}
	if strings.TrimSpace(v.Text) == "" {
		return utf8.RuneCountInString(v.Text) + 2
	}
	_, n := v.span(0, len(v.Text))
	return n + 2
}
