package workflow

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// step gives the first step of a workflow that must be without errors.
func step(t *testing.T, body string) *Step {
	t.Helper()
	w, _, ps := Validate("w.yml", []byte("on: push\njobs:\n  a:\n    steps:\n      - run: a\n"+body))
	if HasErrors(ps) {
		t.Fatalf("%+v", ps)
	}
	return w.Jobs[0].Steps[0]
}

func scalar(text string) *Value { return &Value{Text: text, Plain: text, Pos: Pos{1, 1}} }

func status(success, failure, cancelled bool) expr.Env {
	fn := func(v bool) expr.Func {
		return expr.Func{Call: func([]expr.Value) (expr.Value, error) { return v, nil }}
	}
	return expr.Env{
		Context: func(name string) (expr.Value, bool) { return expr.NewObject(), true },
		Function: func(name string) (expr.Func, bool) {
			switch name {
			case "success":
				return fn(success), true
			case "failure":
				return fn(failure), true
			case "cancelled":
				return fn(cancelled), true
			case "always":
				return fn(true), true
			}
			return expr.Func{}, false
		},
	}
}

// SEMANTICS 1, 3: the implicit success(), and what is falsy.
func TestCondition(t *testing.T) {
	good, bad := status(true, false, false), status(false, true, false)
	for _, tt := range []struct {
		text       string
		good, fail bool
	}{
		{"", true, false},
		{"true", true, false},
		{"${{ true }}", true, false},
		{"always()", true, true},
		{"${{ always() }}", true, true},
		{"failure()", false, true},
		{"!cancelled()", true, true},
		{"'always()' == 'always()'", true, false},
		{"contains('success()', 'x') || true", true, false},
		{"success() || failure()", true, true},
		{"null", false, false},
		{"0", false, false},
		{"-0", false, false},
		{"''", false, false},
		{"'false'", true, false},
		{"fromJSON('[]')", true, false},
		{"fromJSON('{}')", true, false},
		{"github.x", false, false},
	} {
		for _, v := range []*Value{scalar(tt.text)} {
			for env, want := range map[string]bool{"good": tt.good, "fail": tt.fail} {
				e := good
				if env == "fail" {
					e = bad
				}
				got, err := Condition(v, e)
				if err != nil || got != want {
					t.Errorf("if: %s after %s: %v, %v, want %v", tt.text, env, got, err, want)
				}
			}
		}
	}
	if ok, err := Condition(nil, good); !ok || err != nil {
		t.Error("no condition is success()")
	}
}

// SEMANTICS 2, 5: a condition that cannot be evaluated is an error with a place.
func TestConditionErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"${{ true }} && false", "text outside ${{ }}"},
		{"a b", "Unexpected symbol"},
		{"fromJSON('{')", ""},
		{"${{ fromJSON('{') }}", ""},
	} {
		_, err := Condition(scalar(tt.text), status(true, false, false))
		e, ok := err.(*EvalError)
		if !ok || !strings.Contains(e.Msg, tt.want) || e.Pos != (Pos{1, 1}) && e.Pos.Line != 1 {
			t.Errorf("if: %s: %v", tt.text, err)
		}
	}
}

// The caret stands under the exact text, however the scalar is written.
func TestPlacesInsideScalars(t *testing.T) {
	for _, src := range []string{
		"run: echo ${{ BAD }}\n",
		"run: \"tab\\t \\u00e9 \\\"q\\\" ${{ BAD }}\"\n",
		"run: 'it''s ${{ BAD }}'\n",
		"run: |\n  one\n\n    two ${{ BAD }}\n",
		"run: |2-  # comment\n    one ${{ BAD }}\n",
		"run: >\n  one\n  two\n\n  three ${{ BAD }}\n",
		"run: one\n  two\n  three ${{ BAD }}\n",
		"run: \"one\n  two \\\n  three ${{ BAD }}\"\n",
		"{run: \"日本 ${{ BAD }}\"}\n",
		"run: !!str echo ${{ BAD }}\n",
		"run: &a echo ${{ BAD }}\n",
	} {
		root, ps := readYAML("x", []byte(src))
		if len(ps) > 0 {
			t.Errorf("%q: %+v", src, ps)
			continue
		}
		v := root.Get("run")
		pos, n := v.span(strings.Index(v.Text, "BAD"), 3)
		line := []rune(strings.Split(src, "\n")[pos.Line-1])
		if pos.Column+2 > len(line) || string(line[pos.Column-1:pos.Column+2]) != "BAD" || n != 3 {
			t.Errorf("%q: %v, length %d", src, pos, n)
		}
	}
}

// SEMANTICS 37: YAML 1.2 core scalars.
func TestCoreScalars(t *testing.T) {
	for text, want := range map[string]expr.Value{
		"on": "on", "yes": "yes", "no": "no", "off": "off", "y": "y", "true": true, "False": false, "~": nil, "null": nil, "": nil,
		"12": 12.0, "-1.5e3": -1500.0, ".5": 0.5, "0x10": 16.0, "0o17": 15.0, "017": 17.0, "0b1": "0b1", "1_000": "1_000",
		"1:30": "1:30", "2001-01-01": "2001-01-01", ".inf": math.Inf(1), "-.INF": math.Inf(-1), "1e": "1e", "+": "+", "-": "-", ".": ".",
	} {
		if text == "-" {
			continue // alone it begins a list
		}
		root, ps := readYAML("x", []byte("a: "+text+"\n"))
		if len(ps) > 0 {
			t.Errorf("%q: %+v", text, ps)
			continue
		}
		if got := root.Get("a").Plain; got != want {
			t.Errorf("%q is %v (%T), want %v", text, got, got, want)
		}
	}
}

// SEMANTICS 37: anchors and aliases work.
func TestAliases(t *testing.T) {
	s := step(t, "        env: &e {A: x}\n      - run: b\n        env: *e\n")
	if s.Env.Get("A").Text != "x" {
		t.Error(s.Env)
	}
}

func TestMerge(t *testing.T) {
	for _, tt := range []struct{ name, defaults, job, step, want string }{
		{"nearest wins", "{memory: 1g, cpus: 1}", "{cpus: 2}", "{cpus: 3}", `{"memory":"1g","cpus":3}`},
		{"lists are replaced", "{volumes: [/a:/a]}", "{volumes: [/b:/b]}", "{}", `{"volumes":["/b:/b"]}`},
		{"names merge", "{env: {A: x, B: y}}", "{env: {B: z}}", "{}", `{"env":{"A":"x","B":"z"}}`},
		{"a network is replaced", "{network: {allow: [a.b]}}", "{network: {gateway: false}}", "{}", `{"network":{"gateway":false}}`},
		{"an image alone", "{memory: 1g}", "busybox", "{}", `{"memory":"1g","image":"busybox"}`},
		{"false means the host", "{memory: 1g}", "false", "false", `false`},
		{"a mapping after false starts afresh", "{memory: 1g}", "false", "{cpus: 1}", `{"cpus":1}`},
		{"true after false", "{memory: 1g}", "false", "true", `{}`},
	} {
		src := fmt.Sprintf("on: push\ndefaults: {docker: %s}\njobs: {a: {docker: %s, steps: [{run: a, docker: %s}]}}\n", tt.defaults, tt.job, tt.step)
		w, ps := Parse("w.yml", []byte(src))
		if len(ps) > 0 {
			t.Errorf("%s: %+v", tt.name, ps)
			continue
		}
		v, err := Evaluate(w.Jobs[0].Steps[0].Docker, expr.Env{})
		if got := string(expr.AppendJSON(nil, v)); err != nil || got != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestEvaluateKeepsTypes(t *testing.T) {
	env := expr.Env{Context: func(name string) (expr.Value, bool) {
		o := expr.NewObject()
		o.Set("n", 3.0)
		return o, name == "vars"
	}}
	s := step(t, "        env: {A: \"${{ vars.n }}\", B: \"n is ${{ vars.n }}\", C: 1.50, D: true, \"${{ vars.n }}\": x, E: ''}\n")
	v, err := Evaluate(s.Env, env)
	if want := `{"A":3,"B":"n is 3","C":1.5,"D":true,"3":"x","E":""}`; err != nil || string(expr.AppendJSON(nil, v)) != want {
		t.Errorf("%s, %v", expr.AppendJSON(nil, v), err)
	}
	_, err = Evaluate(scalar("a ${{ fromJSON('{') }}"), env)
	if _, ok := err.(*EvalError); !ok {
		t.Errorf("%v", err)
	}
}

// SEMANTICS 9, THREATS 21.
func TestTimeouts(t *testing.T) {
	for text, want := range map[string]float64{"0.5": 0.5, "360": 360, "0": -1, "-1": -1, "1e308": -1, ".nan": -1, ".inf": -1, "x": -1, "'10'": 10, "true": -1} {
		root, _ := readYAML("x", []byte("a: "+text))
		got, err := EvalTimeout(root.Get("a"), expr.Env{})
		if (want < 0) != (err != nil) || err == nil && got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// SEMANTICS 27: types, required, defaults, options.
func TestResolveInputs(t *testing.T) {
	w, ps := Parse("w.yml", []byte(`on:
  workflow_dispatch:
    inputs:
      s: {required: true}
      b: {type: boolean}
      n: {type: number, default: 2}
      c: {type: choice, options: [lo, hi], default: hi}
jobs: {a: {steps: [{run: a}]}}
`))
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	for _, tt := range []struct {
		event string
		given map[string]string
		want  string
	}{
		{"workflow_dispatch", map[string]string{"S": "x", "b": "true"}, `{"s":"x","b":true,"n":2,"c":"hi"}`},
		{"workflow_dispatch", map[string]string{"s": "1", "n": "1.5"}, `{"s":"1","b":false,"n":1.5,"c":"hi"}`},
		{"workflow_dispatch", nil, `4:7 input "s" is required`},
		{"workflow_dispatch", map[string]string{"s": "x", "b": "yes"}, `5:7 input "b" must be true or false, found "yes"`},
		{"workflow_dispatch", map[string]string{"s": "x", "n": "many"}, `6:7 input "n" must be a number, found "many"`},
		{"workflow_dispatch", map[string]string{"s": "x", "c": "low"}, `7:7 input "c" cannot be "low"`},
		{"workflow_dispatch", map[string]string{"s": "x", "sx": "low"}, `2:3 there is no input "sx"`},
		{"push", nil, `{}`},
		{"push", map[string]string{"s": "x"}, `1:1 there is no input "s": the event push has none`},
	} {
		o, ps := ResolveInputs(w.On, tt.event, tt.given)
		got := string(expr.AppendJSON(nil, o))
		if len(ps) > 0 {
			got = fmt.Sprintf("%d:%d %s", ps[0].Line, ps[0].Column, ps[0].Message)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v: %s", tt.given, diff)
		}
	}
}

// A colon without a space after it belongs to a plain scalar, inside of {} too.
func TestColonsInFlow(t *testing.T) {
	for src, want := range map[string]string{
		"{v: [./c:/c:ro, /d:/d/], u: 1000:1000, h: http://a.b:80/c}": `{"v":["./c:/c:ro","/d:/d/"],"u":"1000:1000","h":"http://a.b:80/c"}`,
		"{\"a\":1, b: x:y:z, p: [8080:80, 1.2.3.4:80:80/tcp]}":       `{"a":1,"b":"x:y:z","p":["8080:80","1.2.3.4:80:80/tcp"]}`,
		"{a: b, c: {d: e:f}}": `{"a":"b","c":{"d":"e:f"}}`,
	} {
		root, ps := readYAML("x", []byte(src))
		if len(ps) > 0 {
			t.Errorf("%s: %+v", src, ps)
			continue
		}
		v, err := staticEval(root)
		if got := string(expr.AppendJSON(nil, v)); err != nil || got != want {
			t.Errorf("%s: %s, %v", src, got, err)
		}
	}
}
