package report

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/event"
)

// The page about --json names every field and every word there is, and no other.
func TestTheDocumentedEventsAreTheRealOnes(t *testing.T) {
	page, err := os.ReadFile("../../docs/json-events.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split("\n"+string(page), "\n## ")[1:] {
		title, body, _ := strings.Cut(s, "\n")
		sections[strings.Trim(title, "`")] = body
	}
	for title, value := range map[string]any{
		"Every event": event.Event{}, "run": event.RunInfo{}, "step_info": event.StepInfo{}, "box": event.BoxInfo{}, "message": event.Message{},
		"exchange": event.ModelCall{}, "egress": event.EgressCall{}, "wait": event.Wait{}, "usage": event.Usage{}, "note": event.Note{}, "outcome": event.Outcome{}, "work": event.Work{},
		"condition": event.ConditionInfo{}, "tree": event.ConditionPart{}, "needs": event.NeedResult{},
	} {
		var want []string
		typ := reflect.TypeOf(value)
		for i := range typ.NumField() {
			name, opts, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name == "-" {
				continue
			}
			want = append(want, name)
			row := rowOf(sections[title], name)
			always := strings.HasSuffix(strings.TrimRight(row, " |"), "always")
			if always == strings.Contains(opts, "omit") {
				t.Errorf("%s.%s: the page says always=%v, which it is not: %q", title, name, always, row)
			}
		}
		if got := firstColumn(sections[title]); !slices.Equal(sorted(got), sorted(want)) {
			t.Errorf("%s: documented %v, there are %v", title, sorted(got), sorted(want))
		}
	}
	words := constants(t, "../event/event.go")
	if got := firstColumn(sections["Types"]); !slices.Equal(sorted(got), sorted(words["Type"])) {
		t.Errorf("types: documented %v, there are %v", sorted(got), sorted(words["Type"]))
	}
	for section, row := range map[string]string{"message": "kind", "outcome": "cause"} {
		want := words[map[string]string{"kind": "MessageKind", "cause": "Cause"}[row]]
		_, text, _ := strings.Cut(rowOf(sections[section], row), "|")
		got := regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(text, -1)
		var documented []string
		for _, m := range got[1:] {
			documented = append(documented, m[1])
		}
		if !slices.Equal(sorted(documented), sorted(want)) {
			t.Errorf("%s: documented %v, there are %v", row, sorted(documented), sorted(want))
		}
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

func rowOf(section, name string) string {
	for line := range strings.Lines(section) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		if strings.Contains(first, "`"+name+"`") {
			return strings.TrimSpace(line)
		}
	}
	return ""
}

// firstColumn gives the words in code font of a table's first column.
func firstColumn(section string) []string {
	var words []string
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, w := range strings.Fields(first) {
			words = append(words, strings.Trim(w, "`"))
		}
	}
	return words
}

// constants gives the values of a file's string constants by their type.
func constants(t *testing.T, path string) map[string][]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string][]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if typ, ok := spec.Type.(*ast.Ident); ok && len(spec.Values) == 1 {
				if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
					word, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					words[typ.Name] = append(words[typ.Name], word)
				}
			}
		}
		return true
	})
	return words
}
