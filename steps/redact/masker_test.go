package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
)

func maskerOf(secrets ...string) *Masker {
	m := New()
	for _, s := range secrets {
		m.Add(s)
	}
	return m
}

func TestSemantics30Masking(t *testing.T) {
	for _, c := range []struct {
		name     string
		secrets  []string
		in, want string
	}{
		{"none known", nil, "text", "text"},
		{"plain", []string{"s3cret"}, "a s3cret b s3cret", "a *** b ***"},
		{"nothing but blanks", []string{"", " \n\t"}, "a b\n", "a b\n"},
		{"blanks around", []string{"  s3cret\n"}, "as3cretb", "a***b"},
		{"case counts", []string{"s3cret"}, "S3CRET", "S3CRET"},
		{"overlap", []string{"abcdef", "defghi"}, "xabcdefghiy", "x***y"},
		{"one in another", []string{"bcd", "abcde"}, "abcdx abcde bcd", "a***x *** ***"},
		{"touching", []string{"abc", "def"}, "abcdef abc def", "*** *** ***"},
		{"repeating", []string{"aaaa"}, "aaaaaaa aaa", "*** aaa"},
		{"short", []string{"x"}, "axb", "a***b"},
		{"lines", []string{"first line\n  second\r\n}\n\nxy\nthird"}, "third, second; first line } xy", "***, ***; *** } xy"},
		{"lines together", []string{"first\nsecond"}, "-first\nsecond-", "-***-"},
		{"a prefix is no secret", []string{"s3cret"}, "s3cre", "s3cre"},
		{"bytes that are no text", []string{"pa\xffss"}, "\xfepa\xffss\xfe", "\xfe***\xfe"},
	} {
		m := maskerOf(c.secrets...)
		if got := m.String(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := string(m.Bytes([]byte(c.in))); got != c.want {
			t.Errorf("%s, bytes: %q, want %q", c.name, got, c.want)
		}
		if m.Contains(c.in) != (c.in != c.want) {
			t.Errorf("%s: Contains is %v", c.name, m.Contains(c.in))
		}
	}
}

// encodings are ways to print a secret; the function gives what must not be
// there after masking.
var encodings = map[string]func(s string) string{
	"plain":          func(s string) string { return s },
	"json":           func(s string) string { b, _ := json.Marshal(s); return string(b[1 : len(b)-1]) },
	"json in json":   func(s string) string { b, _ := json.Marshal(jsonEscape(s, false)); return string(b[1 : len(b)-1]) },
	"python json":    func(s string) string { return asciiEscape(jsonEscape(s, false)) },
	"form":           url.QueryEscape,
	"path":           url.PathEscape,
	"uri":            func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") },
	"password":       func(s string) string { return strings.TrimPrefix(url.UserPassword("", s).String(), ":") },
	"html":           html.EscapeString,
	"xml":            func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "&#34;", "&quot;") },
	"single quotes":  func(s string) string { return strings.ReplaceAll(s, "'", `'\''`) },
	"double quotes":  func(s string) string { return backslash(s, "\"\\$`") },
	"base64":         func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64, no pad": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 url":     func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) },
}

var awkwardSecrets = []string{
	"hunter2-hunter2", `a"b\c/d'e&f<g>h`, "p@ss w0rd+=?#%~!*()", "ünï→😀cødé", "$HOME`x`;rm -rf|&", "{\"key\": \"va lue\"}", "k1\tk2\x01k3", "AKIAIOSFODNN7EXAMPLE",
}

// THREATS 1.
func TestSemantics30EncodedForms(t *testing.T) {
	for _, secret := range awkwardSecrets {
		m := maskerOf(secret)
		for name, encode := range encodings {
			if got := m.String("<" + encode(secret) + ">"); got != "<***>" {
				t.Errorf("%q as %s %q gives %q", secret, name, encode(secret), got)
			}
		}
	}
}

// THREATS 1.
func TestSemantics30Base64AtAllOffsets(t *testing.T) {
	for _, secret := range append(awkwardSecrets, "hunter22", "hunter222") {
		m := maskerOf(secret)
		for before := range 7 {
			for after := range 7 {
				for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding} {
					text := encoding.EncodeToString([]byte("user=:x"[:before] + secret + "\n&%$§!"[:after]))
					got := m.String(text)
					// What a mask leaves is the characters that the secret shares with what is beside it.
					if left := len(strings.ReplaceAll(got, Mask, "")); !strings.Contains(got, Mask) || left > (before*8+5)/6+(after*8)/6+3 {
						t.Errorf("%q after %d and before %d bytes: %q gives %q", secret, before, after, text, got)
					}
				}
			}
		}
	}
}

func TestTextWithoutSecretsIsNotCopied(t *testing.T) {
	m := maskerOf("s3cret", "another one")
	text := []byte(strings.Repeat("nothing to see, s3cre anothe ", 100))
	if got := m.Bytes(text); &got[0] != &text[0] || len(got) != len(text) {
		t.Error("the bytes were copied")
	}
	if n := testing.AllocsPerRun(10, func() { m.Bytes(text) }); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func TestHugeSecretIsBounded(t *testing.T) {
	line := "0123456789abcdef\"\\<>&+/ " // each form differs
	secret := strings.TrimSpace(strings.Repeat(line, 60<<10/len(line)))
	m := maskerOf(secret)
	if n := len(m.automaton().nodes); n > 12*len(secret) {
		t.Errorf("%d nodes for a secret of %d bytes", n, len(secret))
	}
	text, _ := json.Marshal(secret)
	if got := streamed(m, "<", secret[:5000], secret[5000:], ">", string(text)); got != "<***>\"***\"" {
		t.Errorf("%.200q", got)
	}
}

func TestSecretsAddedConcurrently(t *testing.T) {
	m := New()
	done := make(chan bool)
	for i := range 8 {
		go func() {
			for j := range 20 {
				secret := fmt.Sprintf("secret-%d-%d", i, j)
				m.Add(secret)
				if m.Contains("x"+secret) != true {
					t.Errorf("%s is not known after Add", secret)
				}
			}
			done <- true
		}()
	}
	for range 8 {
		<-done
	}
}

// naive masks as the definition says: every occurrence of every form, what
// overlaps or touches joined.
func naive(secrets []string, text string) string {
	hidden := make([]bool, len(text))
	for _, s := range secrets {
		for at := 0; at+len(s) <= len(text); at++ {
			if text[at:at+len(s)] == s {
				for i := at; i < at+len(s); i++ {
					hidden[i] = true
				}
			}
		}
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if !hidden[i] {
			out.WriteByte(text[i])
		} else if i == 0 || !hidden[i-1] {
			out.WriteString(Mask)
		}
	}
	return out.String()
}

func TestAgainstTheDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func(n int) string {
		b := make([]byte, 1+random.IntN(n))
		for i := range b {
			b[i] = "abc"[random.IntN(3)]
		}
		return string(b)
	}
	for range 3000 {
		m := New()
		secrets := []string{word(6), word(6), word(4) + "b" + word(4)}
		for _, s := range secrets {
			m.Add(s)
		}
		text := word(60)
		want := naive(m.patterns, text)
		if got := m.String(text); got != want {
			t.Fatalf("%q in %q: %q, want %q", secrets, text, got, want)
		}
		if got := streamed(m, cut(random, text)...); got != want {
			t.Fatalf("%q in %q as a stream: %q, want %q", secrets, text, got, want)
		}
	}
}

func cut(random *rand.Rand, text string) []string {
	var pieces []string
	for text != "" {
		n := 1 + random.IntN(min(len(text), 9))
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return pieces
}
