package workflow

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// SEMANTICS 16, 17, 18: one line for each combination.
func TestMatrixCombinations(t *testing.T) {
	for _, tt := range []struct{ name, matrix, want string }{
		{"the first key varies slowest", `{"a":[1,2],"b":["x","y"]}`, `{"a":1,"b":"x"} {"a":1,"b":"y"} {"a":2,"b":"x"} {"a":2,"b":"y"}`},
		{"a partial exclude", `{"a":[1,2],"b":["x","y"],"exclude":[{"a":1}]}`, `{"a":2,"b":"x"} {"a":2,"b":"y"}`},
		{"a full exclude", `{"a":[1,2],"b":["x","y"],"exclude":[{"a":1,"b":"Y"}]}`, `{"a":1,"b":"x"} {"a":2,"b":"x"} {"a":2,"b":"y"}`},
		{"exclude compares lists and mappings deeply", `{"a":[{"k":[1]},{"k":[2]}],"exclude":[{"a":{"k":[1]}}]}`, `{"a":{"k":[2]}}`},
		{"exclude comes before include", `{"a":[1,2],"exclude":[{"a":1}],"include":[{"a":1,"b":3}]}`, `{"a":2} {"a":1,"b":3}`},
		{"include adds to every match", `{"a":[1,2],"include":[{"x":9}]}`, `{"a":1,"x":9} {"a":2,"x":9}`},
		{"include adds to one", `{"a":[1,2],"include":[{"a":2,"x":9}]}`, `{"a":1} {"a":2,"x":9}`},
		{"a later include overrides an extra", `{"a":[1],"include":[{"x":1},{"x":2}]}`, `{"a":1,"x":2}`},
		{"what matches none stands alone", `{"a":[1],"include":[{"a":3,"x":1},{"a":3,"y":2}]}`, `{"a":1} {"a":3,"x":1} {"a":3,"y":2}`},
		{"GitHub's example", `{"fruit":["apple","pear"],"animal":["cat","dog"],"include":[{"color":"green"},{"color":"pink","animal":"cat"},{"fruit":"apple","shape":"circle"},{"fruit":"banana"},{"fruit":"banana","animal":"cat"}]}`,
			`{"fruit":"apple","animal":"cat","color":"pink","shape":"circle"} {"fruit":"apple","animal":"dog","color":"green","shape":"circle"} {"fruit":"pear","animal":"cat","color":"pink"} {"fruit":"pear","animal":"dog","color":"green"} {"fruit":"banana"} {"fruit":"banana","animal":"cat"}`},
		{"include alone", `{"include":[{"a":1},{"a":2}]}`, `{"a":1} {"a":2}`},
		{"an empty vector", `{"a":[]}`, `matrix vector "a" has no values`},
		{"an unknown exclude key", `{"a":[1],"exclude":[{"b":1}]}`, "`exclude` names \"b\", which is no key of the matrix"},
		{"no mapping", `[1]`, `a matrix must be a mapping, found a list`},
		{"no vector", `{}`, `the matrix has no vector`},
		{"all excluded", `{"a":[1],"exclude":[{"a":1}]}`, `the matrix has no combinations left`},
		{"an empty entry", `{"a":[1],"include":[{}]}`, "an entry of `include` is empty"},
	} {
		v, err := expr.FromJSON([]byte(tt.matrix))
		if err != nil {
			t.Fatal(err)
		}
		all, err := MatrixCombinations(v)
		var lines []string
		for _, o := range all {
			lines = append(lines, string(expr.AppendJSON(nil, o)))
		}
		got := strings.Join(lines, " ")
		if err != nil {
			got = err.(*MatrixError).Msg
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// SEMANTICS 18: at most 256.
func TestMatrixLimit(t *testing.T) {
	list := func(n int) *expr.Array {
		a := &expr.Array{}
		for i := range n {
			a.Items = append(a.Items, float64(i))
		}
		return a
	}
	m := expr.NewObject()
	m.Set("a", list(16))
	m.Set("b", list(16))
	if all, err := MatrixCombinations(m); err != nil || len(all) != 256 {
		t.Errorf("%d, %v", len(all), err)
	}
	m.Set("b", list(17))
	if _, err := MatrixCombinations(m); err == nil {
		t.Error("272 combinations were accepted")
	}
}
