package workflow

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRenderText(t *testing.T) {
	src := "a: b\n\tx: 日本 BAD\n" + strings.Repeat("y", 300) + "BAD" + strings.Repeat("z", 300) + "\nesc \x1b[31m\n"
	ps := []Problem{
		{File: "w.yml", Line: 2, Column: 8, Length: 3, Severity: SeverityError, Message: "wide \x1b[31m"},
		{File: "w.yml", Line: 3, Column: 301, Length: 3, Severity: SeverityWarning, Message: "long", Hint: "a hint"},
		{File: "w.yml", Line: 4, Column: 5, Length: 1, Severity: SeverityError, Message: "escape"},
		{File: "w.yml", Line: 99, Column: 1, Length: 1, Severity: SeverityError, Message: "beyond"},
	}
	var out bytes.Buffer
	if err := RenderText(&out, []byte(src), ps, false); err != nil {
		t.Fatal(err)
	}
	want := "w.yml:2:8: error: wide \ufffd[31m\n" +
		"    2 |     x: 日本 BAD\n" +
		"      |             ^~~\n" +
		"w.yml:3:301: warning: long\n" +
		"    3 | …" + strings.Repeat("y", 40) + "BAD" + strings.Repeat("z", 76) + "…\n" +
		"      | " + strings.Repeat(" ", 41) + "^~~\n" +
		"      = hint: a hint\n" +
		"w.yml:4:5: error: escape\n" +
		"    4 | esc \ufffd[31m\n" +
		"      |     ^\n" +
		"w.yml:99:1: error: beyond\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	out.Reset()
	if err := RenderText(&out, []byte(src), ps[:1], true); err != nil || !strings.Contains(out.String(), "\x1b[1;31merror:\x1b[0m") {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestRenderMachine(t *testing.T) {
	ps := []Problem{{File: "a,b.yml", Line: 1, Column: 2, Length: 3, Severity: SeverityError, Rule: "needs", Message: "100% <bad>", Hint: "do"}}
	var out bytes.Buffer
	if err := RenderGitHub(&out, ps); err != nil {
		t.Fatal(err)
	}
	if err := RenderJSON(&out, ps); err != nil {
		t.Fatal(err)
	}
	if err := RenderJSON(&out, nil); err != nil {
		t.Fatal(err)
	}
	want := `::error file=a%2Cb.yml,line=1,col=2,endColumn=5,title=needs::100%25 <bad>%0Ado
[
  {
    "file": "a,b.yml",
    "line": 1,
    "column": 2,
    "length": 3,
    "severity": "error",
    "rule": "needs",
    "message": "100% <bad>",
    "hint": "do"
  }
]
[]
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
