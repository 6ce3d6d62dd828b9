package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTemplate(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"plain", `"plain"`}, {"", `""`}, {"${{ 1 }}", `1`}, {"${{1}}", `1`}, {"${{ list }}", `["zero","one","two"]`},
		{" ${{ 1 }}", `" 1"`}, {"${{ 1 }}${{ 2 }}", `"12"`}, {"a ${{ null }} b", `"a  b"`}, {"a${{ list }}", `"aArray"`},
		{"${{ '}}' }}", `"}}"`}, {"x ${{ 'it''s }}' }} y", `"x it's }} y"`}, {"$${{ 1 }}", `"$1"`}, {"${ {1}}", `"${ {1}}"`},
		{"}} ${{ text }}", `"}} Hello"`}, {"${{\n  text\n}}", `"Hello"`}, {"${{ format('{{{0}}}', 1) }}", `"{1}"`},
	} {
		env, names := contextEnv(t, contexts)
		tmpl, err := ParseTemplateWith(c.src, names)
		if err != nil {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		v, err := tmpl.Eval(env)
		if got := string(AppendJSON(nil, v)); err != nil || got != c.want {
			t.Errorf("%q = %s (%v), want %s", c.src, got, err, c.want)
		}
		exprs := strings.Count(c.src, "${{")
		if len(tmpl.Exprs()) != exprs || tmpl.Static() != (exprs == 0) {
			t.Errorf("%q: %d expressions, static %v", c.src, len(tmpl.Exprs()), tmpl.Static())
		}
		if whole := strings.HasPrefix(c.src, "${{") && strings.HasSuffix(c.src, "}}") && exprs == 1; tmpl.Whole() != whole {
			t.Errorf("%q: whole %v", c.src, tmpl.Whole())
		}
		for _, e := range tmpl.Exprs() {
			if !strings.HasPrefix(c.src[e.Base():], e.Source()) {
				t.Errorf("%q: base %d of %q", c.src, e.Base(), e.Source())
			}
		}
	}
}

func TestTemplateErrorsAreInTheTemplate(t *testing.T) {
	for _, c := range []struct {
		src, at, message string
	}{
		{"a ${{ 1", "${{", "The expression is not closed"},
		{"a ${{ 'x }}", "${{", "The expression is not closed"},
		{"é ${{ }}", "${{ }}", "An expression was expected"},
		{"é ${{ 1 }} ${{ 1 @x }}", "@x", "Unexpected symbol: '@x'. Located at position 3 within expression: 1 @x"},
		{"é ${{ text }} ${{ fromJSON('') }}", "fromJSON('')", "Error parsing fromJson"},
		{"é ${{ true && foo }}", "foo", "Unrecognized named-value: 'foo'. Located at position 9"},
	} {
		env, _ := contextEnv(t, contexts)
		tmpl, err := ParseTemplate(c.src)
		if err == nil {
			_, err = tmpl.Eval(env)
		}
		var own *Error
		if !errors.As(err, &own) {
			t.Errorf("%q: %v", c.src, err)
			continue
		}
		if at := c.src[own.Offset : own.Offset+own.Length]; at != c.at || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%q: %q at %q, want %q at %q", c.src, err, at, c.message, c.at)
		}
	}
}

func TestRefsAndCalls(t *testing.T) {
	e, err := Parse("contains(GitHub.event['issue'].labels.*.name, steps[matrix.id].outputs.x) && needs.a[0].result || hashFiles(env.A)")
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, r := range e.Refs() {
		refs = append(refs, r.Name+"/"+strings.Join(r.Path, "/")+"="+e.Source()[r.Offset:r.Offset+r.Length])
	}
	if diff := cmp.Diff([]string{
		"github/event/issue/labels/*/name=GitHub.event['issue'].labels.*.name",
		"steps/=steps", "matrix/id=matrix.id", "needs/a/0/result=needs.a[0].result", "env/A=env.A",
	}, refs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Call{
		{Name: "contains", Args: 2, Offset: 0, Length: 8},
		{Name: "hashfiles", Args: 1, Offset: strings.Index(e.Source(), "hashFiles"), Length: 9},
	}, e.Calls()); diff != "" {
		t.Error(diff)
	}
	empty, _ := Parse(" ")
	if len(empty.Refs()) != 0 || len(empty.Calls()) != 0 || empty.UsesStatus() {
		t.Error("an empty expression uses something")
	}
}

// SEMANTICS 1: the word inside of a string does not count.
func TestSemantics1UsesStatus(t *testing.T) {
	for src, want := range map[string]bool{
		"always()": true, "!Cancelled()": true, "contains(format('{0}', failure()), 'x')": true, "a.b || success()": true,
		"'always()' == x": false, "github.ref == 'success()'": false, "steps.always.outcome": false, "1": false,
	} {
		e, err := Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		if e.UsesStatus() != want {
			t.Errorf("%s: %v", src, !want)
		}
	}
}
