package redact

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func streamed(m *Masker, chunks ...string) string {
	var out strings.Builder
	s := NewStream(m, func(p []byte) { out.Write(p) })
	for _, c := range chunks {
		s.Write([]byte(c))
	}
	s.Flush()
	return out.String()
}

// THREATS 1.
func TestSemantics30SecretSplitOverWrites(t *testing.T) {
	m := maskerOf(awkwardSecrets...)
	for _, secret := range awkwardSecrets {
		for name, encode := range encodings {
			text := "a " + encode(secret) + " b"
			if got := streamed(m, strings.Split(text, "")...); got != "a *** b" {
				t.Errorf("%q as %s, byte by byte: %q", secret, name, got)
			}
			for i := range text {
				if got := streamed(m, text[:i], text[i:]); got != "a *** b" {
					t.Errorf("%q as %s, split at %d: %q", secret, name, i, got)
				}
			}
		}
	}
}

func TestStreamHoldsBackOnlyBeginnings(t *testing.T) {
	m := maskerOf("s3cret", "multi\nline secret")
	var out bytes.Buffer
	s := NewStream(m, func(p []byte) { out.Write(p) })
	for _, step := range []struct{ in, shown string }{
		{"hello!", "hello!"}, {" s3c", "hello! "}, {"!", "hello! s3c!"}, {"s3cret", "hello! s3c!***"}, {"s3cret", "hello! s3c!***"},
		{".", "hello! s3c!***."}, {"multi", "hello! s3c!***.***"}, {"\n", "hello! s3c!***.***"}, {"-", "hello! s3c!***.***\n-"}, {"s", "hello! s3c!***.***\n-"},
	} {
		s.Write([]byte(step.in))
		if out.String() != step.shown {
			t.Errorf("after %q: %q, want %q", step.in, out.String(), step.shown)
		}
	}
	s.Flush()
	if want := "hello! s3c!***.***\n-s"; out.String() != want {
		t.Errorf("after Flush: %q, want %q", out.String(), want)
	}
	s.Write([]byte("3cret"))
	s.Flush()
	if want := "hello! s3c!***.***\n-s3cret"; out.String() != want {
		t.Errorf("what was flushed counts as a beginning: %q", out.String())
	}
}

func TestSecretAddedWhileAStreamRuns(t *testing.T) {
	m := maskerOf("abcdef-one")
	var out bytes.Buffer
	s := NewStream(m, func(p []byte) { out.Write(p) })
	s.Write([]byte("later later abc"))
	m.Add("later")
	m.Add("bcxyz")
	s.Write([]byte("xyz later"))
	s.Flush()
	if want := "later later a*** ***"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// No secret comes through, wherever it stands, however it is written and
// wherever the stream is cut.
// THREATS 1.
func TestNoSecretComesThrough(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	names := make([]string, 0, len(encodings))
	for name := range encodings {
		names = append(names, name)
	}
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \"'\\/&<>$%+=-_.:;é→\n"
	alphabet := []rune(letters)
	word := func(n int) string {
		r := make([]rune, n)
		for i := range r {
			r[i] = alphabet[random.IntN(len(alphabet))]
		}
		return string(r)
	}
	for range 400 {
		secrets := []string{"<" + word(6+random.IntN(20)) + ">", "[" + word(8) + "]"}
		m := maskerOf(secrets...)
		var text strings.Builder
		var written []string
		for range 5 {
			text.WriteString(word(random.IntN(30)))
			form := encodings[names[random.IntN(len(names))]](strings.TrimSpace(secrets[random.IntN(2)]))
			written = append(written, form)
			text.WriteString(form)
		}
		got := streamed(m, cut(random, text.String())...)
		for _, form := range append(written, secrets...) {
			if strings.Contains(got, form) {
				t.Fatalf("%q came through: %q", form, got)
			}
		}
		if want := m.String(text.String()); got != want {
			t.Fatalf("the stream gives %q, the whole %q", got, want)
		}
	}
}

func TestTextWithoutSecretsIsUnchanged(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	m := maskerOf("QQQQQQQQ", "ZZZZZZZZZZ")
	for range 300 {
		b := make([]byte, random.IntN(200))
		for i := range b {
			b[i] = byte(random.IntN(256))
		}
		text := string(b)
		if m.Contains(text) {
			continue
		}
		if got := streamed(m, cut(random, text)...); got != text {
			t.Fatalf("%q became %q", text, got)
		}
	}
}

func fiveSecrets() *Masker {
	return maskerOf("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "hunter2!", "-----BEGIN KEY-----\nMIIEpAIBAAKCAQEA7\nq8Zk\n-----END KEY-----",
		"p@ss w0rd", "sk-ant-REDACTED")
}

func TestAMillionLinesPass(t *testing.T) {
	data := bytes.Repeat([]byte("abc de\n"), 1_000_000)
	if n := writeAll(fiveSecrets(), data); n != len(data) {
		t.Errorf("%d of %d bytes", n, len(data))
	}
}

func writeAll(m *Masker, data []byte) (n int) {
	const chunk = 32 << 10
	s := NewStream(m, func(p []byte) { n += len(p) })
	for at := 0; at < len(data); at += chunk {
		s.Write(data[at:min(at+chunk, len(data))])
	}
	s.Flush()
	return n
}

func BenchmarkStream7MB(b *testing.B) {
	for name, line := range map[string]string{
		"short": "abc de\n", "log": "2026-01-02T03:04:05Z INFO handled request path=/api/v1/items status=200 bytes=1834 duration=12.5ms\n",
		"secrets": "token p@ss w0rd and ghp_16C7e42F292c6912E7710c838347Ae178B4a\n",
	} {
		data := bytes.Repeat([]byte(line), 7_000_000/len(line))
		for kind, m := range map[string]*Masker{"none": New(), "five": fiveSecrets()} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					writeAll(m, data)
				}
			})
		}
	}
}

func BenchmarkAddSecret(b *testing.B) {
	for b.Loop() {
		m := fiveSecrets()
		m.Contains("x")
	}
}

func FuzzStream(f *testing.F) {
	f.Add("s3cret", "other", "text with s3cret and other", uint8(3))
	f.Add("aab", "abaab", "aabaabaab", uint8(1))
	f.Add("a\nbcd", "\"q\"", "a\r\nbcd", uint8(2))
	f.Fuzz(func(t *testing.T, one, two, text string, size uint8) {
		m := maskerOf(one, two)
		var chunks []string
		for rest := text; rest != ""; {
			n := min(int(size%16)+1, len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		whole := m.String(text)
		if got := streamed(m, chunks...); got != whole {
			t.Fatalf("%q, whole %q", got, whole)
		}
		if want := naive(m.patterns, text); whole != want {
			t.Fatalf("%q, by the definition %q", whole, want)
		}
	})
}
