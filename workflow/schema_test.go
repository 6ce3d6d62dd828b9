package workflow

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("workflow.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("workflow.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// editorValue is a file as an editor sees it: YAML, its expressions texts.
func editorValue(v *Value) any {
	switch v.Kind {
	case Sequence:
		list := []any{}
		for _, item := range v.Items {
			list = append(list, editorValue(item))
		}
		return list
	case Mapping:
		m := map[string]any{}
		for _, e := range v.Entries {
			m[e.Key.Text] = editorValue(e.Value)
		}
		return m
	}
	return v.Plain
}

func readFor(t *testing.T, src string) any {
	t.Helper()
	root, _ := readYAML("w.yml", []byte(src))
	if root == nil {
		return nil
	}
	return editorValue(root)
}

func TestSchemaTakesGoodFiles(t *testing.T) {
	s := compiledSchema(t)
	for _, path := range append(mustGlob(t, "testdata/ok/*.yml"), mustGlob(t, "../examples/workflows/*.yml")...) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(readFor(t, string(src))); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// What the parser says of a file's shape the schema refuses too.
func TestSchemaRefusesBadShapes(t *testing.T) {
	s := compiledSchema(t)
	refused := 0
	for _, path := range mustGlob(t, "testdata/err/*.yml") {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		v := readFor(t, string(src))
		_, ps := Parse(path, src)
		bad := slices.ContainsFunc(ps, func(p Problem) bool {
			return p.Rule == "unknown-key" || p.Rule == "missing-key" || p.Rule == "type"
		})
		if !bad || v == nil {
			continue
		}
		refused++
		if s.Validate(v) == nil {
			t.Errorf("%s is taken, although: %+v", filepath.Base(path), ps)
		}
	}
	if refused < 5 {
		t.Errorf("only %d files with bad shapes", refused)
	}
}

// probe is what the parser and the schema say about a file.
func probe(t *testing.T, s *jsonschema.Schema, src string) (parser []Problem, schema error) {
	t.Helper()
	_, _, ps := Validate("w.yml", []byte(src))
	parser = slices.DeleteFunc(ps, func(p Problem) bool { return p.Severity != SeverityError || p.Rule == "unsupported" })
	return parser, s.Validate(readFor(t, src))
}

// Parser, table and schema are of one mind about every key: its example is
// taken, a wrong shape is not, and a name beside the keys of a block is not.
func TestEveryKeyOfTheLanguage(t *testing.T) {
	s := compiledSchema(t)
	for _, b := range blocks() {
		for _, k := range b.keys {
			src := b.withKey(k, k.example)
			if ps, err := probe(t, s, src); len(ps) > 0 || err != nil {
				t.Errorf("%s of %s:\n%s\n%+v\n%v", k.name, b.name, src, ps, err)
			}
			if k.doc == "" || k.example == "" || !strings.HasSuffix(k.doc, ".") {
				t.Errorf("%s of %s has no sentence or no example", k.name, b.name)
			}
			if k.place != "" && places()[k.place].key == "" {
				t.Errorf("%s of %s: no place %s", k.name, b.name, k.place)
			}
			src = b.withKey(k, "[[[[]]]]")
			if _, _, ps := Validate("w.yml", []byte(src)); !HasErrors(ps) || s.Validate(readFor(t, src)) == nil {
				t.Errorf("%s of %s takes a list of lists:\n%s\n%+v", k.name, b.name, src, ps)
			}
		}
		if b.free != nil {
			continue
		}
		src := b.withKey(key{name: "no-such-key"}, "x")
		ps, err := probe(t, s, src)
		unknown := slices.ContainsFunc(ps, func(p Problem) bool { return p.Rule == "unknown-key" || strings.HasPrefix(p.Message, "unknown ") })
		if !unknown || err == nil {
			t.Errorf("%s takes any key:\n%s\n%+v\n%v", b.name, src, ps, err)
		}
	}
}
