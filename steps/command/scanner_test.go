package command

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// scanned is what a stream gave: the text that was passed on, with a command as
// <name value {props}>.
func scanned(chunks ...string) string {
	var out strings.Builder
	s := NewScanner(func(c Command) {
		fmt.Fprintf(&out, "<%s %s", c.Name, c.Value)
		if len(c.Props) > 0 {
			fmt.Fprintf(&out, " %v", c.Props)
		}
		if c.Refused != "" {
			out.WriteString(" refused")
		}
		out.WriteString(">")
	}, func(p []byte) { out.Write(p) })
	for _, c := range chunks {
		s.Write([]byte(c))
	}
	s.Flush()
	return out.String()
}

// SEMANTICS 29
var streams = []struct{ name, in, want string }{
	{"text", "a\nb\n", "a\nb\n"},
	{"error", "::error file=a.go,line=3,endLine=4,col=5,endColumn=6,title=T t::bad\n", "<error bad map[col:5 endColumn:6 endLine:4 file:a.go line:3 title:T t]>"},
	{"no properties", "::warning::w\n::notice::n\n::debug::d\n", "<warning w><notice n><debug d>"},
	{"names and properties without case", "::ERROR FILE=x,endline=2::m\n", "<error m map[endLine:2 file:x]>"},
	{"value with ::", "::error::a::b\n", "<error a::b>"},
	{"= in a property", "::error file=a=b.go,title=x::m\n", "<error m map[file:a=b.go title:x]>"},
	{"empty properties", "::error file=,line::m\n", "<error m>"},
	{"blanks around", "  \t::error::m\n", "<error m>"},
	{"text before", "x ::error::m\n", "x ::error::m\n"},
	{"groups", "::group::Title\nin\n::endgroup::\n", "<group Title>in\n<endgroup >"},
	{"data escapes", "::error::a%0Ab%0D%25%3A%2C\n", "<error a\nb\r%%3A%2C>"},
	{"%25 last", "::error::%250A %25250A\n", "<error %0A %250A>"},
	{"property escapes", "::error title=a%3Ab%2Cc%250A%25::m\n", "<error m map[title:a:b,c%0A%]>"},
	{"unknown", "::frobnicate::x\n::error\n:: error::m\n", "::frobnicate::x\n::error\n:: error::m\n"},
	{"mask", "a\n::add-mask::s3cret\nb\n", "a\n<add-mask s3cret>b\n"},
	{"old form", "##[error]bad\n ##[group]T\n##[error file=a;line=2]m%3B%5D\nx ##[error]y\n", "<error bad><group T><error m;] map[file:a line:2]>x ##[error]y\n"},
	{"old form that is none", "##[nope]x\n## a\n#\n##[error\n", "##[nope]x\n## a\n#\n##[error\n"},
	{"stop", "::stop-commands::tok\n::error::x\n##[error]x\n::TOK::\n::error::y\n", "<stop-commands tok>::stop-commands::tok\n::error::x\n##[error]x\n::TOK::\n<error y>"},
	{"stop with a bad token", "::stop-commands::\n::stop-commands::error\n::error::x\n", "<stop-commands  refused><stop-commands error refused><error x>"},
	{"set-env and add-path", "::set-env name=a::b\n::add-path::/x\n", "<set-env b map[name:a] refused><add-path /x refused>"},
	{"set-output and save-state", "::set-output name=a::b\n::save-state name=c::d\n::set-output::x\n", "<set-output b map[name:a]><save-state d map[name:c]><set-output x refused>"},
	{"no line end", "a\n::error::m", "a\n<error m>"},
	{"carriage returns", "::error::a\r\nb\r::error::c\rd\r\n", "<error a>b\r<error c>d\r\n"},
	{"blank lines", "\n \n\t\n::\n:\n", "\n \n\t\n::\n:\n"},
	{"many markers in a line", "a::b::c ::error::x\nstd::vec::Vec\n", "a::b::c ::error::x\nstd::vec::Vec\n"},
}

func TestSemantics29Commands(t *testing.T) {
	for _, c := range streams {
		if diff := cmp.Diff(c.want, scanned(c.in)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestSemantics29CommandsSplitAnywhere(t *testing.T) {
	for _, c := range streams {
		if got := scanned(strings.Split(c.in, "")...); got != c.want {
			t.Errorf("%s, byte by byte: %q, want %q", c.name, got, c.want)
		}
		for i := range len(c.in) {
			if got := scanned(c.in[:i], c.in[i:]); got != c.want {
				t.Errorf("%s, split at %d: %q, want %q", c.name, i, got, c.want)
			}
		}
	}
}

func TestTextIsNotHeldBack(t *testing.T) {
	var out bytes.Buffer
	s := NewScanner(func(Command) {}, func(p []byte) { out.Write(p) })
	for _, step := range []struct{ in, shown string }{
		{"50%", "50%"}, {"\r60%", "50%\r60%"}, {"\n: ", "50%\r60%\n: "}, {"\n::", "50%\r60%\n: \n"}, {"x", "50%\r60%\n: \n"},
	} {
		s.Write([]byte(step.in))
		if out.String() != step.shown {
			t.Errorf("after %q: %q, want %q", step.in, out.String(), step.shown)
		}
	}
}

// THREATS 18.
func TestEndlessLinesAreBounded(t *testing.T) {
	chunk := strings.Repeat("x", 1000)
	for begin, want := range map[string]struct{ passed, commands int }{
		"::error::": {passed: 9 + 200_000 + 4, commands: 1}, "::add-mask::": {passed: 0, commands: 2}, "\t##[Add-Mask]": {passed: 0, commands: 2},
		"   ": {passed: 3 + 200_000 + 4, commands: 1},
	} {
		passed, commands := 0, 0
		s := NewScanner(func(Command) { commands++ }, func(p []byte) { passed += len(p) })
		s.Write([]byte(begin))
		for range 200 {
			s.Write([]byte(chunk))
			if cap(s.held) > 2*MaxLine {
				t.Fatalf("%s: holds %d bytes", begin, cap(s.held))
			}
		}
		s.Write([]byte("end\n::error::m\n"))
		s.Flush()
		if passed != want.passed || commands != want.commands {
			t.Errorf("%s: %d bytes passed, %d commands, want %v", begin, passed, commands, want)
		}
	}
	whole := scanned("::add-mask::" + strings.Repeat("x", MaxLine) + "\nafter\n")
	if want := "<add-mask  refused>after\n"; whole != want {
		t.Errorf("a mask that is too long, in one write: %.200q", whole)
	}
}

func TestWarningOfDeprecatedCommands(t *testing.T) {
	for line, want := range map[string]string{
		"::set-output name=a::b": "GITHUB_OUTPUT", "::save-state name=a::b": "GITHUB_STATE", "::add-mask:: ": "empty string",
	} {
		if c, ok := Parse(line, ""); !ok || !strings.Contains(c.Warning, want) {
			t.Errorf("%s: %+v", line, c)
		}
	}
}

func TestAMillionLinesPass(t *testing.T) {
	data := bytes.Repeat([]byte("abc de\n"), 1_000_000)
	n := 0
	s := NewScanner(func(Command) {}, func(p []byte) { n += len(p) })
	writeChunks(s, data)
	if n != len(data) {
		t.Errorf("%d of %d bytes", n, len(data))
	}
}

func writeChunks(s *Scanner, data []byte) {
	const chunk = 32 << 10
	for at := 0; at < len(data); at += chunk {
		s.Write(data[at:min(at+chunk, len(data))])
	}
	s.Flush()
}

func BenchmarkScanMillionLines(b *testing.B) {
	for name, line := range map[string]string{"plain": "abc de\n", "markers": "a::b:c\n", "commands": "::debug::x\n"} {
		data := bytes.Repeat([]byte(line), 1_000_000)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				writeChunks(NewScanner(func(Command) {}, func([]byte) {}), data)
			}
		})
	}
}

func FuzzScanner(f *testing.F) {
	for _, c := range streams {
		f.Add([]byte(c.in), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, size uint8) {
		whole := scanned(string(data))
		var chunks []string
		for rest := string(data); rest != ""; {
			n := min(int(size%16)+1, len(rest))
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		if split := scanned(chunks...); split != whole {
			t.Fatalf("%q in pieces of %d: %q, whole: %q", data, size%16+1, split, whole)
		}
		if len(whole) < len(data) && !bytes.Contains(data, []byte(marker)) && !bytes.Contains(data, []byte(oldMarker)) {
			t.Fatalf("%q lost text: %q", data, whole)
		}
	})
}
