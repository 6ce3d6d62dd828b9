package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// minEncoded is the length in bytes from which an encoded part of a secret is
// masked: shorter ones would be found in any text.
const minEncoded = 4

// manyForms is the length in bytes up to which all forms of a secret are known.
// Of a longer one, a key or a whole file, it is the plain, base64 and JSON ones,
// and all forms of its lines: what is known takes memory for each byte.
const manyForms = 8 << 10

// forms lists the ways in which programs print secret: as it is, in base64 at
// each of the three places it can have in a longer text, and escaped for JSON,
// URIs, shells and XML.
func forms(secret string) []string {
	out := []string{secret}
	add := func(forms ...string) {
		for _, f := range forms {
			if f != secret && len(f) >= minEncoded {
				out = append(out, f)
			}
		}
	}
	if inner := strings.Trim(secret, `"`); len(secret) > 8 && len(inner) == len(secret)-2 {
		add(inner)
	}
	add(base64Forms(secret)...)
	if len(secret) > manyForms {
		add(jsonEscape(secret, false), jsonEscape(secret, true))
		return out
	}
	add(jsonForms(secret)...)
	add(uriForms(secret)...)
	add(shellForms(secret)...)
	add(xmlForms(secret)...)
	return out
}

// base64Forms gives, for 0, 1 and 2 bytes before the secret, the characters that
// depend on the secret alone: those in the middle of a longer text, and those
// where the secret ends it, with and without padding.
func base64Forms(secret string) []string {
	var out []string
	for before := range 3 {
		// Characters that hold a bit of what is before: none, 2, 3.
		first := (8*before + 5) / 6
		last := 8 * (before + len(secret)) / 6
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			text := encoding.EncodeToString(append(make([]byte, before), secret...))
			if first < last {
				out = append(out, text[first:last], text[first:], strings.TrimRight(text[first:], "="))
			}
		}
	}
	return out
}

// jsonForms gives the secret inside of a JSON string, with and without what
// Go escapes for HTML and what Python escapes beyond ASCII, and a JSON string
// inside of one.
func jsonForms(secret string) []string {
	escaped, forHTML := jsonEscape(secret, false), jsonEscape(secret, true)
	return []string{
		escaped, forHTML, asciiEscape(escaped),
		jsonEscape(escaped, false), jsonEscape(escaped, true), jsonEscape(forHTML, false), jsonEscape(asciiEscape(escaped), false),
		strings.ReplaceAll(escaped, "/", `\/`), strings.ReplaceAll(secret, `"`, `\"`),
	}
}

func jsonEscape(s string, forHTML bool) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(forHTML)
	if e.Encode(s) != nil {
		return s
	}
	return strings.TrimSuffix(strings.TrimPrefix(out.String(), `"`), "\"\n")
}

func asciiEscape(s string) string {
	var out strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			out.WriteByte(byte(r))
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		}
	}
	return out.String()
}

// uriForms gives the secret as encodeURIComponent, RFC 3986, a form field, a
// path and a user's password are written.
func uriForms(secret string) []string {
	strict := percent(secret, "-_.~")
	component := percent(secret, "-_.~!'()*")
	out := []string{
		strict, component, url.QueryEscape(secret), url.PathEscape(secret),
		strings.TrimPrefix(url.UserPassword("", secret).String(), ":"),
		percent(secret, "-_.~!'()*;/?:@&=+$,#"),
	}
	for _, form := range []string{strict, component, url.QueryEscape(secret)} {
		out = append(out, lowerPercent(form))
	}
	return out
}

// percent escapes all but ASCII letters, digits and those of plain.
func percent(s, plain string) string {
	var out strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(plain, c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}

func lowerPercent(s string) string {
	out := []byte(s)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:], strings.ToLower(s[i+1:i+3]))
		}
	}
	return string(out)
}

// shellForms gives the secret inside of single and double quotes, escaped by
// backslashes as printf %q does, inside of $'…', and with the doubled quotes of
// the expressions and of PowerShell.
func shellForms(secret string) []string {
	return []string{
		strings.ReplaceAll(secret, `'`, `'\''`),
		strings.ReplaceAll(secret, `'`, `'"'"'`),
		strings.ReplaceAll(secret, `'`, `''`),
		backslash(secret, "\"\\$`"),
		backslash(secret, "\"\\$`!"),
		backslash(secret, " \t!\"#$&'()*,;<>?[\\]^`{|}"),
		backslash(secret, " \t!\"#$&'()*,;<=>?[\\]^`{|}~"),
		strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(secret),
	}
}

func backslash(s, special string) string {
	var out strings.Builder
	for i := range len(s) {
		if strings.IndexByte(special, s[i]) >= 0 {
			out.WriteByte('\\')
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// xmlForms gives the secret in an attribute and in a text.
func xmlForms(secret string) []string {
	text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	return []string{
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace(secret),
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;").Replace(secret),
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;").Replace(secret),
		strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(secret),
		text.Replace(secret), html.EscapeString(secret),
		strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(secret),
	}
}
