package expr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

func explainEnv(t *testing.T) expr.Env {
	t.Helper()
	contexts := map[string]expr.Value{}
	for name, json := range map[string]string{
		"github": `{"ref":"refs/heads/topic","event":{"action":"opened","labels":[{"name":"a"},{"name":"b"}]},"secret":"hunter2"}`,
		"needs":  `{"build":{"result":"success"},"lint":{"result":"failure"}}`,
		"matrix": `{"os":"linux"}`,
		"env":    `{"linux":"yes"}`,
	} {
		v, err := expr.FromJSON([]byte(json))
		if err != nil {
			t.Fatal(err)
		}
		contexts[name] = v
	}
	return expr.Env{
		Context: func(name string) (expr.Value, bool) { v, ok := contexts[name]; return v, ok },
		Function: func(name string) (expr.Func, bool) {
			return expr.Func{Call: func([]expr.Value) (expr.Value, error) { return name == "always", nil }}, name == "success" || name == "always"
		},
	}
}

// outline writes an Explanation as indented lines.
func outline(x *expr.Explanation, depth int) string {
	value := x.Value
	switch {
	case x.Skipped:
		value = "skipped"
	case x.Error != "":
		value = "error: " + x.Error
	case value == "":
		value = "no value"
	}
	s := fmt.Sprintf("%s%s = %s\n", strings.Repeat("  ", depth), x.Source, value)
	for _, p := range x.Parts {
		s += outline(p, depth+1)
	}
	if x.More > 0 {
		s += fmt.Sprintf("%s… %d more\n", strings.Repeat("  ", depth+1), x.More)
	}
	return s
}

func TestExplain(t *testing.T) {
	tests := []struct{ src, want string }{
		{`true`, "true = true\n"},
		{``, " = null\n"},
		{`github.ref == 'refs/heads/main' && success()`, `
github.ref == 'refs/heads/main' && success() = false
  github.ref == 'refs/heads/main' = false
    github.ref = 'refs/heads/topic'
  success() = skipped
`},
		{`always() && (needs.lint.result == 'failure' || github.event.action)`, `
always() && (needs.lint.result == 'failure' || github.event.action) = true
  always() = true
  needs.lint.result == 'failure' || github.event.action = true
    needs.lint.result == 'failure' = true
      needs.lint.result = 'failure'
    github.event.action = skipped
`},
		{`(github.ref == '(' || success()) && (always())`, `
(github.ref == '(' || success()) && (always()) = false
  github.ref == '(' || success() = false
    github.ref == '(' = false
      github.ref = 'refs/heads/topic'
    success() = false
  always() = skipped
`},
		{`!contains(needs.*.result, 'failure')`, `
!contains(needs.*.result, 'failure') = false
  contains(needs.*.result, 'failure') = true
    needs.*.result = ['success', 'failure']
`},
		{`env[matrix.os] == 'yes' && github.nothing && github.event`, `
env[matrix.os] == 'yes' && github.nothing && github.event = null
  env[matrix.os] == 'yes' = true
    env[matrix.os] = 'yes'
      matrix.os = 'linux'
  github.nothing = null
  github.event = skipped
`},
		{`fromJSON(github.ref).x == 1 || success()`, `
fromJSON(github.ref).x == 1 || success() = no value
  fromJSON(github.ref).x == 1 = no value
    fromJSON(github.ref).x = no value
      fromJSON(github.ref) = error: Error parsing fromJson
        github.ref = 'refs/heads/topic'
  success() = skipped
`},
		{`github.secret`, "github.secret = '***'\n"},
		{`github.event`, "github.event = a mapping of 2\n"},
		{`format('it''s {0}', github.event.action)`, "format('it''s {0}', github.event.action) = 'it''s opened'\n  github.event.action = 'opened'\n"},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			e, err := expr.Parse(tt.src)
			if err != nil {
				t.Fatal(err)
			}
			env := explainEnv(t)
			want, wantErr := e.Eval(env)
			got, x, err := expr.Explain(e, env, func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
			if fmt.Sprint(wantErr) != fmt.Sprint(err) {
				t.Fatalf("error %v, Eval says %v", err, wantErr)
			}
			if err == nil && expr.Truthy(want) != expr.Truthy(got) {
				t.Errorf("got %v, Eval says %v", got, want)
			}
			text := outline(x, 0)
			if i := strings.Index(text, "error: Error parsing fromJson"); i >= 0 { // what follows is the JSON library's
				end := i + strings.Index(text[i:], "\n")
				text = text[:i] + "error: Error parsing fromJson" + text[end:]
			}
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is told of a huge expression with huge values stays small, and a secret
// is found before it is cut.
func TestExplainIsBounded(t *testing.T) {
	terms := make([]string, 400)
	for i := range terms {
		terms[i] = "env.big == 'y'"
	}
	env := expr.Env{Context: func(string) (expr.Value, bool) {
		o := expr.NewObject()
		o.Set("big", strings.Repeat("x", 150)+"hunter2"+strings.Repeat("x", 100_000))
		return o, true
	}}
	e, err := expr.Parse(strings.Join(terms, " || "))
	if err != nil {
		t.Fatal(err)
	}
	_, x, err := expr.Explain(e, env, func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") })
	if err != nil {
		t.Fatal(err)
	}
	text := outline(x, 0)
	if len(text) > 64<<10 || !strings.Contains(text, "more\n") {
		t.Errorf("%d bytes", len(text))
	}
	if strings.Contains(text, "hunt") || !strings.Contains(text, "***") {
		t.Error("a part of the secret is told")
	}
}
