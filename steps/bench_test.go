package steps_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// chain and wide give n host steps that do nothing, one after the other and
// all independent.
func chain(n int) string {
	var b strings.Builder
	b.WriteString("jobs:\n  a:\n    steps:\n")
	for range n {
		b.WriteString("      - {shell: sh, run: \"true\"}\n")
	}
	return b.String()
}

func wide(n int) string {
	var b strings.Builder
	b.WriteString("jobs:\n")
	for i := range n {
		fmt.Fprintf(&b, "  j%d: {steps: [{shell: sh, run: \"true\"}]}\n", i)
	}
	return b.String()
}

// jobs gives n jobs, each needing the one before it.
func jobs(n int) string {
	var b strings.Builder
	b.WriteString("jobs:\n")
	needs := ""
	for i := range n {
		fmt.Fprintf(&b, "  j%d: {%ssteps: [{shell: sh, run: \"true\"}]}\n", i, needs)
		needs = fmt.Sprintf("needs: j%d, ", i)
	}
	return b.String()
}

// BenchmarkHostSteps is the cost of a step that does nothing, beside the bare
// start of its process.
func BenchmarkHostSteps(b *testing.B) {
	const n = 1000
	b.Run("bare fork and exec", func(b *testing.B) {
		for b.Loop() {
			for range n {
				if err := exec.Command("sh", "-c", "true").Run(); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/step")
	})
	for name, src := range map[string]string{"steps of one job": chain(n), "independent jobs": wide(n), "jobs in a chain": jobs(n)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				e := prepare(b, src)
				e.options.MaxParallel = 2
				if out := e.run(); out.Conclusion != "success" {
					b.Fatalf("got %+v: %s", out, e.notes())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/step")
		})
	}
}
