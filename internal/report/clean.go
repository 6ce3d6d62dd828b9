package report

import (
	"strings"
	"unicode/utf8"
)

// plain says whether line can go to a screen as it is. It decides the fast path.
func plain(line []byte) bool {
	for _, c := range line {
		if c < 0x20 && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// Clean makes one line of untrusted text harmless: escape sequences are taken
// out, other control characters become pictures of themselves, characters that
// reorder text and invalid UTF-8 become U+FFFD. It holds no line end.
func Clean(s string) string {
	if plain([]byte(s)) {
		return s
	}
	return string(appendClean(nil, []byte(s), false))
}

// appendClean appends line to dst, made harmless. With colour, sequences that
// only set colours stay, and are reset at the end.
func appendClean(dst, line []byte, colour bool) []byte {
	painted := false
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case c == 0x1b:
			n, sgr := escape(line[i:])
			if sgr && colour {
				dst = append(dst, line[i:i+n]...)
				painted = true
			}
			i += n
		case c == '\t' || c >= 0x20 && c < 0x7f:
			dst = append(dst, c)
			i++
		case c < 0x20:
			dst = utf8.AppendRune(dst, 0x2400+rune(c))
			i++
		case c == 0x7f:
			dst = utf8.AppendRune(dst, 0x2421)
			i++
		default:
			r, n := utf8.DecodeRune(line[i:])
			if r == utf8.RuneError || drives(r) {
				r = utf8.RuneError
			}
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	if painted {
		dst = append(dst, "\x1b[0m"...)
	}
	return dst
}

// drives says whether r steers a terminal or the order text is shown in.
func drives(r rune) bool {
	return r >= 0x80 && r <= 0x9f || // C1, 0x9b is CSI
		r == 0x2028 || r == 0x2029 || r == 0x061c || r == 0x200e || r == 0x200f ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// escape gives the length of the escape sequence at the start of b, and whether
// it only sets colours. A string that does not end on this line is not one: its
// text is shown.
func escape(b []byte) (n int, sgr bool) {
	if len(b) == 1 {
		return 1, false
	}
	switch b[1] {
	case '[':
		digits := true
		for i := 2; i < len(b); i++ {
			switch c := b[i]; {
			case c >= 0x40 && c <= 0x7e:
				return i + 1, c == 'm' && digits
			case c < 0x20 || c > 0x7e:
				return i, false
			case (c < '0' || c > '9') && c != ';' && c != ':':
				digits = false
			}
		}
		return len(b), false
	case ']', 'P', '_', '^', 'X':
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1, false
			}
			if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
				return i + 2, false
			}
		}
		return 2, false
	}
	if b[1] >= 0x20 && b[1] < 0x30 && len(b) > 2 {
		return 3, false
	}
	if b[1] >= 0x30 && b[1] <= 0x7e {
		return 2, false
	}
	return 1, false
}

// oneLine makes text fit a single line of at most width characters.
func oneLine(text string, width int) string {
	return cut(Clean(strings.Join(strings.Fields(head(text, 4*width)), " ")), width)
}

// head cuts text at about n bytes, so that huge texts are not walked through.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// textLines cuts a text into harmless lines, at most n; more says how many
// were left out.
func textLines(text string, n int) (lines []string, more int) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimRight(text, "\r\n"))
	for line := range strings.SplitSeq(text, "\n") {
		if len(lines) == n {
			more++
			continue
		}
		lines = append(lines, Clean(head(line, maxLine)))
	}
	return lines, more
}
