package workflow

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// How much of a source line is shown, in columns of the terminal.
const (
	maxShown  = 120
	tabStop   = 4
	shownLead = 40 // before the caret, where a long line is cut
)

// RenderText writes problems for a person: where, what, the source line with a
// caret under the exact text, and a hint. With color it uses ANSI sequences.
func RenderText(w io.Writer, src []byte, ps []Problem, color bool) error {
	out := bufio.NewWriter(w)
	text := strings.TrimPrefix(string(src), "\ufeff")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(text, "\n")
	paint := func(code, s string) string {
		if !color || s == "" {
			return s
		}
		return "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	for _, p := range ps {
		severity := paint("1;31", string(p.Severity)+":")
		switch p.Severity {
		case SeverityWarning:
			severity = paint("1;33", string(p.Severity)+":")
		case SeverityNote:
			severity = paint("1;34", string(p.Severity)+":")
		}
		fmt.Fprintf(out, "%s %s %s\n", paint("1", fmt.Sprintf("%s:%d:%d:", printable(p.File), p.Line, p.Column)), severity, printable(p.Message))
		if p.Line >= 1 && p.Line <= len(lines) && len(src) > 0 {
			shown, indent, carets := excerpt(lines[p.Line-1], p.Column, p.Length)
			number := fmt.Sprintf("%5d", p.Line)
			fmt.Fprintf(out, "%s | %s\n", number, shown)
			fmt.Fprintf(out, "%s | %s%s\n", strings.Repeat(" ", len(number)), strings.Repeat(" ", indent), paint("1;31", "^"+strings.Repeat("~", carets-1)))
		}
		if p.Hint != "" {
			fmt.Fprintf(out, "      = %s %s\n", paint("36", "hint:"), printable(p.Hint))
		}
	}
	return out.Flush()
}

// excerpt is a source line as shown, and how many columns stand before and
// under the caret.
func excerpt(line string, column, length int) (shown string, indent, carets int) {
	var cells []string
	var widths []int
	before, under := 0, 0
	for i := 0; i < len(line); {
		r, n := utf8.DecodeRuneInString(line[i:])
		cell, w := cellOf(r)
		i += n
		cells, widths = append(cells, cell), append(widths, w)
		switch at := len(cells); {
		case at < column:
			before += w
		case at < column+length:
			under += w
		}
		if len(cells) > column+maxShown {
			break
		}
	}
	start, prefix := 0, ""
	if before > maxShown-shownLead {
		for before > shownLead && start < len(cells) {
			before -= widths[start]
			start++
		}
		prefix = "…"
	}
	var b strings.Builder
	b.WriteString(prefix)
	total := len([]rune(prefix))
	indent = before + total
	for i := start; i < len(cells); i++ {
		if total+widths[i] > maxShown {
			b.WriteString("…")
			break
		}
		b.WriteString(cells[i])
		total += widths[i]
	}
	return strings.TrimRight(b.String(), " "), indent, max(1, min(under, maxShown-indent))
}

// cellOf is a character as shown, and its width in columns.
func cellOf(r rune) (string, int) {
	switch {
	case r == '\t':
		return strings.Repeat(" ", tabStop), tabStop
	case r == utf8.RuneError || unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
		return "\ufffd", 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return string(r), 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return string(r), 2
	}
	return string(r), 1
}

// printable takes from a text what would drive a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r):
			return '\ufffd'
		}
		return r
	}, s)
}
