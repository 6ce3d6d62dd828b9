package workflow

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpuTime is what the process has used: the machine's load does not count.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// bigWorkflow has n steps, five in a job, the jobs in a tree.
func bigWorkflow(n int) string {
	var b strings.Builder
	b.WriteString("on: push\ndefaults:\n  docker: {memory: 2g}\njobs:\n")
	for j := 0; j*5 < n; j++ {
		fmt.Fprintf(&b, "  job%d:\n    runs-on: ubuntu-latest\n    docker: {cpus: 2}\n", j)
		if j > 1 {
			fmt.Fprintf(&b, "    needs: [job%d]\n", j/2)
		}
		b.WriteString("    steps:\n")
		for s := range 5 {
			fmt.Fprintf(&b, "      - id: s%d\n        name: \"Step %d of ${{ github.ref }}\"\n        if: github.ref == 'refs/heads/main' && success()\n", s, s)
			b.WriteString("        run: |\n          set -e\n          echo hello\n          echo ${{ github.sha }}\n        env: {A: \"${{ env.B }}\", C: d}\n")
		}
	}
	return b.String()
}

// sized makes n smaller for the race detector, which is ten times slower.
func sized(n int) int {
	if raceEnabled {
		return n / 16
	}
	return n
}

func many(s string, n int) string { return strings.Repeat(s, sized(n)) }

func repeatKeys(n int, line string) string {
	n = sized(n)
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

func aliasBomb() string {
	var b strings.Builder
	b.WriteString("on: push\nenv:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		alias := fmt.Sprintf("*a%d", i-1)
		fmt.Fprintf(&b, "  a%d: &a%d [%s]\n", i, i, strings.Join([]string{alias, alias, alias, alias, alias, alias, alias, alias, alias, alias}, ", "))
	}
	return b.String() + "jobs: {a: {env: {A: *a11}, steps: [{run: a}]}}\n"
}

// bounded is far more than any of these files takes and far less than one would
// whose cost grows with the square of its size: bench/ measures the rest.
const bounded = 20 * time.Second

// SEMANTICS 39, THREATS 21: whatever the file, there is an answer in bounded CPU
// time.
func TestBadInputIsBounded(t *testing.T) {
	head := "on: push\njobs: {a: {steps: [{run: a}]}}\n"
	for name, src := range map[string]string{
		"10 MB":                     "on: push\n" + many("# comment\n", 1<<20),
		"4 MB of one comment":       head + "#" + many("x", maxFileBytes-100),
		"one long scalar":           head + "name: " + many("x ", 1<<20),
		"one long quoted scalar":    head + "name: \"" + many("x\\n", 1<<20) + "\"",
		"one long block":            head + "name: |\n" + many("  line\n", 1<<19),
		"one long folded block":     head + "name: >\n" + many("  line\n", 1<<19),
		"blank lines":               head + many("\n", 1<<21),
		"many plain lines":          head + "name: a\n" + many("  b\n", 1<<17),
		"200 levels of flow":        "on: " + strings.Repeat("[", 200) + strings.Repeat("]", 200),
		"200 levels of mappings":    "on: " + strings.Repeat("{a: ", 200) + strings.Repeat("}", 200),
		"a million open brackets":   many("[", 1<<20),
		"a million open braces":     many("{", 1<<20),
		"a million dashes":          many("- ", 1<<20),
		"a million question marks":  many("? ", 1<<20),
		"a million colons":          many(": ", 1<<20),
		"a million anchors":         many("&a ", 1<<18),
		"a million tags":            many("!a ", 1<<18),
		"a million aliases":         many("*a ", 1<<18),
		"200 levels of blocks":      nested(200),
		"alias bomb":                aliasBomb(),
		"NUL":                       "on: push\x00",
		"no UTF-8":                  "on: \xff\xfe",
		"many keys":                 "on: push\nenv:\n" + repeatKeys(100_000, "  K%d: v\n") + "jobs: {a: {steps: [{run: a}]}}\n",
		"many jobs":                 "on: push\njobs:\n" + repeatKeys(50_000, "  j%d: {steps: [{run: a}]}\n"),
		"many unknown keys":         head + repeatKeys(50_000, "k%d: v\n"),
		"a job that needs thousand": "on: push\njobs:\n  a: {steps: [{run: a}], needs: [" + many("a, ", 100_000) + "a]}\n",
		"many expressions":          head + "env: {A: \"" + strings.Repeat("${{ github.ref }}", sized(50_000)) + "\"}\n",
		"many bad expressions":      head + "env: {A: \"" + strings.Repeat("${{ foo.ref }}", sized(20_000)) + "\"}\n",
		"a big matrix":              "on: push\njobs: {a: {steps: [{run: a}], strategy: {matrix: {" + repeatKeys(64, "a%d: [1, 2, 3, 4], ") + "}}}}\n",
		"many jobs in one line":     "on: push\njobs: {" + repeatKeys(100_000, "j%d: {steps: [{run: a}]}, ") + "}\n",
		"many agents in one line":   "on: push\njobs: {" + repeatKeys(9_000, "j%d: {steps: [{prompt: a}]}, ") + "}\n",
		"docker defaults times":     "on: push\ndefaults: {docker: {env: {" + repeatKeys(5000, "K%d: v, ") + "}}}\njobs: {a: {steps: [" + strings.Repeat("{run: a, docker: {env: {A: b}}}, ", sized(5000)) + "]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			start := cpuTime(t)
			_, _, ps := Validate("big.yml", []byte(src))
			took := cpuTime(t) - start
			if took > bounded {
				t.Errorf("took %v", took)
			}
			for _, p := range ps {
				if p.Line < 1 || p.Column < 1 || p.Length < 1 || p.File != "big.yml" {
					t.Fatalf("no position: %+v", p)
				}
			}
			t.Logf("%v, %d problems", took, len(ps))
		})
	}
}

func nested(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

// THREATS 21: a file that is merely large works.
func TestTenThousandStepsWork(t *testing.T) {
	src := []byte(bigWorkflow(sized(10_000)))
	start := cpuTime(t)
	_, plan, ps := Validate("big.yml", src)
	if took := cpuTime(t) - start; took > bounded {
		t.Errorf("took %v", took)
	}
	if len(ps) > 0 {
		t.Fatalf("%d problems, first %+v", len(ps), ps[0])
	}
	if want := sized(10_000) / 5 * 8; len(plan.Nodes) != want {
		t.Errorf("%d nodes, want %d", len(plan.Nodes), want)
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, n := range []int{100, 1000, 10_000} {
		src := []byte(bigWorkflow(n))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if _, _, ps := Validate("big.yml", src); len(ps) > 0 {
					b.Fatal(ps[0])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
		})
	}
}

// SEMANTICS 39: GitHub reads 50 levels in a workflow and more in an action; an
// alias counts as what it stands for.
// THREATS 21.
func TestDepth(t *testing.T) {
	lists := func(n int, inner string) string { return strings.Repeat("[", n) + inner + strings.Repeat("]", n) }
	matrix := func(v string) string {
		return "on: push\njobs:\n  a:\n    strategy: {matrix: {v: " + v + "}}\n    steps: [{run: a}]\n"
	}
	for src, deep := range map[string]bool{
		matrix(lists(45, "x")): false,
		matrix(lists(46, "x")): true,
		matrix("[&a " + lists(40, "x") + ", " + lists(4, "*a") + "]"):                                                 false,
		matrix("[&a " + lists(40, "x") + ", " + lists(5, "*a") + "]"):                                                 true,
		"on: push\nenv: {A: &a " + lists(90, "x") + ", B: " + lists(90, "*a") + "}\njobs: {a: {steps: [{run: a}]}}\n": true,
	} {
		_, ps := Parse("w.yml", []byte(src))
		found := slices.ContainsFunc(ps, func(p Problem) bool { return p.Rule == "limit" && strings.HasPrefix(p.Message, "nested deeper than") })
		if found != deep {
			t.Errorf("%s: %v, want %v", src, ps, deep)
		}
	}
}
