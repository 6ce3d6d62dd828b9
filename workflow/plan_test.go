package workflow

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

const planned = `on: push
jobs:
  lint: {steps: [{run: a}, {id: two, run: b}]}
  test: {needs: lint, strategy: {matrix: {os: [mac, win], include: [{os: mac, fast: true}]}}, steps: [{run: a}]}
  fan: {needs: [lint], strategy: {matrix: {x: "${{ fromJSON(needs.lint.outputs.x) }}"}}, steps: [{id: s, run: a}]}
  done: {needs: [test, fan], steps: [{run: a}]}
  apart: {steps: [{run: a}]}
`

func planOf(t *testing.T, src, only string) *Plan {
	t.Helper()
	w, ps := Parse("w.yml", []byte(src))
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	p, ps := NewPlan(w, only)
	if len(ps) > 0 {
		t.Fatal(ps)
	}
	return p
}

func edges(nodes []*Node) string {
	var lines []string
	for _, n := range nodes {
		line := n.ID + " <-"
		for _, need := range n.Needs {
			line += " [" + need.ID + "]"
		}
		lines = append(lines, strings.TrimSuffix(line, " <-"))
	}
	return strings.Join(lines, "\n")
}

// SEMANTICS 10, 15, 19: one DAG without barriers, names with matrix values.
func TestPlan(t *testing.T) {
	want := `lint
lint/step-1 <- [lint]
lint/two <- [lint/step-1]
lint:leg <- [lint/two]
lint:end <- [lint:leg]
test <- [lint:end]
test (mac)/step-1 <- [test]
test (mac):leg <- [test (mac)/step-1]
test (win)/step-1 <- [test]
test (win):leg <- [test (win)/step-1]
test:end <- [test (mac):leg] [test (win):leg]
fan <- [lint:end]
fan:end <- [fan]
done <- [test:end] [fan:end]
done/step-1 <- [done]
done:leg <- [done/step-1]
done:end <- [done:leg]
apart
apart/step-1 <- [apart]
apart:leg <- [apart/step-1]
apart:end <- [apart:leg]`
	p := planOf(t, planned, "")
	if diff := cmp.Diff(want, edges(p.Nodes)); diff != "" {
		t.Error(diff)
	}
	if len(p.Dynamic) != 1 || p.Dynamic[0].ID != "fan" {
		t.Errorf("dynamic: %v", p.Dynamic)
	}
}

// SEMANTICS 15, 18: a dynamic matrix is spelled out when its input is known.
func TestExpand(t *testing.T) {
	p := planOf(t, planned, "")
	before := len(p.Nodes)
	gate := p.Dynamic[0]
	m, _ := expr.FromJSON([]byte(`{"x":["a","a",null]}`))
	nodes, err := p.Expand(gate, m)
	if err != nil {
		t.Fatal(err)
	}
	want := "fan (a)/s <- [fan]\nfan (a):leg <- [fan (a)/s]\nfan (a) #2/s <- [fan]\nfan (a) #2:leg <- [fan (a) #2/s]\nfan/s <- [fan]\nfan:leg <- [fan/s]"
	if diff := cmp.Diff(want, edges(nodes)); diff != "" {
		t.Error(diff)
	}
	if len(p.Nodes) != before+len(nodes) || len(p.End(gate.Job).Needs) != 4 {
		t.Errorf("%d nodes, end needs %d", len(p.Nodes), len(p.End(gate.Job).Needs))
	}
	bad, _ := expr.FromJSON([]byte(`{"x":[]}`))
	if _, err := p.Expand(gate, bad); err == nil || err.(*EvalError).Pos.Line != 5 {
		t.Errorf("%v", err)
	}
}

func TestPlanOfOneJob(t *testing.T) {
	p := planOf(t, planned, "Test")
	if got := edges(p.Nodes); !strings.HasPrefix(got, "lint\n") || strings.Contains(got, "done") || strings.Contains(got, "apart") {
		t.Error(got)
	}
	w, _ := Parse("w.yml", []byte(planned))
	if _, ps := NewPlan(w, "tets"); len(ps) != 1 || !strings.Contains(ps[0].Hint, `"test"`) {
		t.Errorf("%v", ps)
	}
}

func TestPlanRefusesCycles(t *testing.T) {
	w, _ := Parse("w.yml", []byte("on: push\njobs: {a: {needs: b, steps: [{run: a}]}, b: {needs: a, steps: [{run: a}]}}\n"))
	if p, ps := NewPlan(w, ""); p != nil || len(ps) != 1 || !strings.Contains(ps[0].Message, "a → b → a") {
		t.Errorf("%v", ps)
	}
}

func TestGraphFormats(t *testing.T) {
	if err := Graph(&bytes.Buffer{}, planOf(t, planned, ""), "svg"); err == nil {
		t.Error("an unknown format was accepted")
	}
}
