package command

import (
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

func TestSemantics28EnvFile(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       []Pair
	}{
		{"empty", "", nil},
		{"assignments", "a=1\nb=2", []Pair{{"a", "1"}, {"b", "2"}}},
		{"empty value", "a=\n", []Pair{{"a", ""}}},
		{"blank lines between", "\n\na=1\n\nb=2\n\n", []Pair{{"a", "1"}, {"b", "2"}}},
		{"= before <<", "a=b<<c\n", []Pair{{"a", "b<<c"}}},
		{"<< before =", "a<<b=c\nx\nb=c\n", []Pair{{"a", "x"}}},
		{"two =", "a=b=c", []Pair{{"a", "b=c"}}},
		{"blanks are kept", " a = b ", []Pair{{" a ", " b "}}},
		{"heredoc", "a<<EOF\none\n\n two\nEOF\nb=1", []Pair{{"a", "one\n\n two"}, {"b", "1"}}},
		{"empty heredoc", "a<<EOF\nEOF\n", []Pair{{"a", ""}}},
		{"heredoc of one blank line", "a<<EOF\n\nEOF", []Pair{{"a", ""}}},
		{"heredoc of two blank lines", "a<<EOF\n\n\nEOF", []Pair{{"a", "\n"}}},
		{"delimiter inside of a line", "a<<E\nxE\nE x\nE\n", []Pair{{"a", "xE\nE x"}}},
		{"entries inside of a heredoc", "a<<E\nb=1\nc<<F\nE\n", []Pair{{"a", "b=1\nc<<F"}}},
		{"carriage returns are kept", "a=1\r\nb=2\r\n", []Pair{{"a", "1\r"}, {"b", "2\r"}}},
		{"<< in the delimiter", "a<<b<<c\nx\nb<<c\n", []Pair{{"a", "x"}}},
		{"byte order mark", "\xef\xbb\xbfa=1", []Pair{{"a", "1"}}},
		{"utf-16", utf16LE("\ufeffa=é\nb=2\n"), []Pair{{"a", "é"}, {"b", "2"}}},
	} {
		got, err := ParseEnvFile("GITHUB_OUTPUT", []byte(c.data))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func utf16LE(s string) string {
	var out []byte
	for _, u := range utf16.Encode([]rune(s)) {
		out = append(out, byte(u), byte(u>>8))
	}
	return string(out)
}

func TestSemantics28EnvFileErrors(t *testing.T) {
	for _, c := range []struct{ data, message string }{
		{"a=1\n\nb<<EOF\nx\n", `GITHUB_ENV:3: matching delimiter "EOF" of "b" not found`},
		{"a=1\nb<<EOF\nx\nEOF x", `GITHUB_ENV:2: matching delimiter "EOF" of "b" not found`},
		{"a=1\nb<<EOF", `GITHUB_ENV:2: matching delimiter "EOF" of "b" not found`},
		{"a=1\nb<<EOF\r\nx\r\nEOF", `GITHUB_ENV:2: matching delimiter "EOF\r" of "b" not found`},
		{"a=1\njust text", `GITHUB_ENV:2: invalid format "just text"`},
		{"a=1\n<<EOF\nEOF\n", `GITHUB_ENV:2: invalid format`},
		{"a=1\nb<<\n", `GITHUB_ENV:2: invalid format`},
		{"a=1\n=x", `GITHUB_ENV:2: invalid format "=x": the name`},
	} {
		pairs, err := ParseEnvFile("GITHUB_ENV", []byte(c.data))
		if err == nil || !strings.HasPrefix(err.Error(), c.message) {
			t.Errorf("%q: %v, want %s", c.data, err, c.message)
		}
		if diff := cmp.Diff([]Pair{{"a", "1"}}, pairs); diff != "" {
			t.Errorf("%q: the entries before the error: %s", c.data, diff)
		}
	}
}

func TestSemantics28PathsAndNames(t *testing.T) {
	got := ParsePathFile([]byte("/a\n\n/b b\r\n/c\n/a\n"))
	if diff := cmp.Diff([]string{"/b b", "/c", "/a"}, got); diff != "" {
		t.Error(diff)
	}
	if CheckEnvName("node_options") == nil || CheckEnvName("NODE_OPTIONS_X") != nil || CheckEnvName("PATH") != nil {
		t.Error("NODE_OPTIONS, and only that, is to be refused")
	}
}

func FuzzEnvFile(f *testing.F) {
	for _, seed := range []string{"a=1\n", "a<<E\nx\nE\n", "a=b<<c", "\n\n", "a<<b=c", "\xff\xfea\x00=\x00", "<<\n", "a<<E"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		pairs, err := ParseEnvFile("GITHUB_OUTPUT", data)
		if err != nil && !strings.HasPrefix(err.Error(), "GITHUB_OUTPUT:") {
			t.Fatalf("the error does not name file and line: %v", err)
		}
		for _, p := range pairs {
			if p.Key == "" || len(p.Key)+len(p.Value) > 2*len(data) {
				t.Fatalf("%q", p)
			}
		}
		ParsePathFile(data)
	})
}
