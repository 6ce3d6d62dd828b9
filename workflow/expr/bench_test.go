package expr

import "testing"

const typicalIf = "github.event_name == 'push' && contains(github.ref, 'heads/main') && !cancelled()"

func BenchmarkEvalIf(b *testing.B) {
	env, _ := contextEnv(b, contexts)
	e, err := Parse(typicalIf)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if v, err := e.Eval(env); err != nil || v != true {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkParseIf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(typicalIf); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTemplate(b *testing.B) {
	env, _ := contextEnv(b, contexts)
	b.ReportAllocs()
	for b.Loop() {
		t, err := ParseTemplate("ref ${{ github.ref }} of ${{ github.sha }}")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := t.Eval(env); err != nil {
			b.Fatal(err)
		}
	}
}
