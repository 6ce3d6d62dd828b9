package expr

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The comparisons here are .NET's OrdinalIgnoreCase: each character is
// upper-cased by its simple mapping, whatever the locale, and what is compared
// is UTF-16.

// upper is the simple upper-case mapping. The dotless i and the long s keep
// themselves, as in .NET's table of ordinal casing.
func upper(r rune) rune {
	if r < utf8.RuneSelf {
		if 'a' <= r && r <= 'z' {
			return r - ('a' - 'A')
		}
		return r
	}
	if r == 'ı' || r == 'ſ' {
		return r
	}
	return unicode.ToUpper(r)
}

// foldKey maps strings that are equal without regard to case to one string.
// ASCII goes to lower case, so that the usual key needs no copy.
func foldKey(s string) string {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf || 'A' <= c && c <= 'Z' {
			return strings.Map(foldRune, s)
		}
	}
	return s
}

func foldRune(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + ('a' - 'A')
	}
	if r < utf8.RuneSelf {
		return r
	}
	return upper(r)
}

func equalFold(a, b string) bool {
	rest, ok := cutPrefixFold(a, b)
	return ok && rest == ""
}

// cutPrefixFold returns what follows prefix in s.
func cutPrefixFold(s, prefix string) (rest string, ok bool) {
	for prefix != "" {
		if s == "" {
			return "", false
		}
		a, na := decode(s)
		b, nb := decode(prefix)
		if a != b && upper(a) != upper(b) {
			return "", false
		}
		s, prefix = s[na:], prefix[nb:]
	}
	return s, true
}

func decode(s string) (rune, int) {
	if c := s[0]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRuneInString(s)
}

// compareFold orders a and b by their upper-cased UTF-16 units.
func compareFold(a, b string) int {
	for a != "" && b != "" {
		x, nx := decode(a)
		y, ny := decode(b)
		if x != y {
			if x, y = upper(x), upper(y); x != y {
				return compareUTF16(x, y)
			}
		}
		a, b = a[nx:], b[ny:]
	}
	return len(a) - len(b)
}

// compareUTF16 orders two runes by their UTF-16 form: those beyond the basic
// plane begin with a surrogate and so come before U+E000..U+FFFF.
func compareUTF16(x, y rune) int {
	const firstAstral, firstPrivate = 0x10000, 0xE000
	switch {
	case x >= firstAstral && y >= firstPrivate && y < firstAstral:
		return -1
	case y >= firstAstral && x >= firstPrivate && x < firstAstral:
		return 1
	}
	return int(x) - int(y)
}

func containsFold(s, part string) bool {
	if part == "" {
		return true
	}
	if isASCII(s) && isASCII(part) {
		return strings.Contains(foldKey(s), foldKey(part))
	}
	return strings.Contains(strings.Map(upper, s), strings.Map(upper, part))
}

func hasPrefixFold(s, prefix string) bool {
	_, ok := cutPrefixFold(s, prefix)
	return ok
}

func hasSuffixFold(s, suffix string) bool {
	return strings.HasSuffix(strings.Map(upper, s), strings.Map(upper, suffix))
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// utf16Len is the length of s in UTF-16 units.
func utf16Len(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 0xF0:
			n += 2
		case c < 0x80 || c >= 0xC0:
			n++
		}
	}
	return n
}
