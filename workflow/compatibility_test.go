package workflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// TestDocsOfCompatibility asks the parser and the evaluator what they make of
// every key, context and function of GitHub's and writes the answers down.
func TestDocsOfCompatibility(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Beside GitHub Actions\n\n" + strings.Replace(generated, "schema_*.go", "schema_*.go and compatibility_test.go", 1) +
		"What becomes of each key, context and function of GitHub's. *Works* means as at\n" +
		"GitHub; *no effect* that it is checked and nothing is done with it; *not yet* that\n" +
		"`validate` and `run` refuse a file with it, in words.\n\n## Keys\n\n")
	for _, block := range blocks() {
		if block.name == "job defaults" || block.name == "job defaults.run" {
			continue // as of the workflow
		}
		keys := slices.DeleteFunc(slices.Clone(block.keys), func(k key) bool { return k.ours })
		if len(keys) == 0 {
			continue
		}
		byStatus := map[string][]string{}
		for _, k := range keys {
			status := statusOf(t, block, k)
			byStatus[status] = append(byStatus[status], "`"+k.name+"`")
		}
		fmt.Fprintf(&b, "- %s:", block.title)
		sep := " "
		for _, status := range []string{"works", "no effect", "not yet"} {
			if names := byStatus[status]; len(names) > 0 {
				fmt.Fprintf(&b, "%s*%s* %s", sep, status, strings.Join(names, " "))
				sep = "; "
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\nOurs are `runtime`, `docker` and `workspace` (of `defaults`, jobs and steps), and of\nsteps `prompt`, `prompt-file`, `retry` and `needs`, `budget` of all three, and the\ncontext `budget`.\n\n## Contexts\n\n| Context | |\n|---|---|\n")
	for _, name := range contextNames() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, contextStatus(t, name))
	}
	b.WriteString("\n## Functions\n\n| Function | | Seen by |\n|---|---|---|\n")
	for _, f := range functionProbes() {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` |\n", f.name, f.status(t), strings.ReplaceAll(f.source, "|", `\|`))
	}
	b.WriteString("\n## Where we differ on purpose\n\n")
	for _, d := range differences() {
		if got := verdict(d.src); got != d.verdict {
			t.Errorf("%s: %s, not %s", d.what, got, d.verdict)
		}
		fmt.Fprintf(&b, "- %s\n", d.what)
	}
	golden(t, "../docs/compatibility.md", []byte(b.String()))
}

func statusOf(t *testing.T, b block, k key) string {
	t.Helper()
	if strings.HasPrefix(b.name, "call ") || b.name == "on.workflow_call" || k.name == "workflow_call" {
		b, k = callingKey() // of no use where nothing can call
	}
	src := b.withKey(k, k.example)
	_, _, ps := Validate("w.yml", []byte(src))
	status := "works"
	if k.inert {
		status = "no effect"
	}
	for _, p := range ps {
		switch {
		case p.Rule == "unsupported":
			return "not yet"
		case p.Rule == "no-effect" && strings.HasPrefix(p.Message, "`"+k.name+"`") && !k.inert:
			t.Errorf("%s of %s is said to have no effect", k.name, b.name)
		case p.Severity == SeverityError:
			t.Errorf("%s of %s: %+v", k.name, b.name, p)
		}
	}
	return status
}

// callingKey is `uses` of a job.
func callingKey() (block, key) {
	b := language()["job"]
	i := slices.IndexFunc(b.keys, func(k key) bool { return k.name == "uses" })
	return *b, b.keys[i]
}

// contextStatus says whether a context can be used where GitHub has it.
func contextStatus(t *testing.T, name string) string {
	t.Helper()
	src := "on: push\njobs: {a: {runs-on: x, steps: [{run: \"${{ toJSON(" + name + ") }}\"}]}}\n"
	if name == "jobs" {
		src = "on: {workflow_call: {outputs: {o: {value: \"${{ toJSON(jobs) }}\"}}}}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n"
	}
	if v := verdict(src); v != "taken" {
		t.Errorf("context %s is %s", name, v)
		return "not yet"
	}
	if name == "jobs" {
		b, k := callingKey()
		return statusOf(t, b, k)
	}
	return "works"
}

// functionProbe is a function of GitHub's with an expression of known value.
type functionProbe struct {
	name, source string
	want         expr.Value // nil: it depends on the run
}

func functionProbes() []functionProbe {
	return []functionProbe{
		{"contains", "contains('Herd', 'her')", true},
		{"startsWith", "startsWith('Herd', 'HE')", true},
		{"endsWith", "endsWith('Herd', 'RD')", true},
		{"format", "format('{0} {{{1}}}', 'a', 1)", "a {1}"},
		{"join", "join(fromJSON('[1, true]'))", "1,true"},
		{"toJSON", "toJSON(fromJSON('[]'))", "[]"},
		{"fromJSON", "fromJSON('{\"a\": 2}').a", 2.0},
		{"case", "case(false, 1, true, 2, 3)", 2.0},
		{"hashFiles", "hashFiles('**/go.sum')", nil},
		{"success", "success()", nil},
		{"failure", "failure()", nil},
		{"always", "always()", nil},
		{"cancelled", "cancelled()", nil},
	}
}

func (f functionProbe) status(t *testing.T) string {
	t.Helper()
	if f.want == nil {
		src := "on: push\njobs: {a: {runs-on: x, steps: [{run: a, if: \"" + f.source + "\"}]}}\n"
		if v := verdict(src); v != "taken" {
			t.Errorf("%s is %s", f.source, v)
			return "not yet"
		}
		return "works"
	}
	e, err := expr.Parse(f.source)
	if err != nil {
		t.Error(err)
		return "not yet"
	}
	if got, err := e.Eval(expr.Env{}); err != nil || got != f.want {
		t.Errorf("%s is %v, %v, want %v", f.source, got, err, f.want)
		return "not yet"
	}
	return "works"
}

// verdict is what becomes of a file: taken, warned about or refused.
func verdict(src string) string {
	_, _, ps := Validate("w.yml", []byte(src))
	switch {
	case HasErrors(ps):
		return "refused"
	case slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity == SeverityWarning }):
		return "warned"
	}
	return "taken"
}

// difference is a file that is not treated as by GitHub's published parser.
type difference struct{ what, verdict, src string }

func differences() []difference {
	job := func(s string) string { return "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], " + s + "}}\n" }
	step := func(s string) string { return "on: push\njobs: {a: {runs-on: x, steps: [{run: a, " + s + "}]}}\n" }
	const rest = "\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n"
	return []difference{
		{"`runs-on` may be left out.", "taken", "on: push\njobs: {a: {steps: [{run: a}]}}\n"},
		{"A job without `steps` is refused, as GitHub refuses it when the run starts.", "refused", "on: push\njobs: {a: {runs-on: x}}\n"},
		{"`branches` beside `branches-ignore` gets a warning, and so do tags and paths: GitHub reads such a file, and refuses it on push.", "warned", "on: {push: {branches: [a], branches-ignore: [b]}}" + rest},
		{"An unknown key is refused everywhere, below `workflow_dispatch` too.", "refused", "on: {workflow_dispatch: {other: 1}}" + rest},
		{"An `if` with text outside of `${{ }}`, which is always true at GitHub, is refused.", "refused", step("if: \"${{ false }} || false\"")},
		{"An expression that names a step, job, input or matrix key that is not there gets a warning (in `prompt`, `prompt-file`, `retry`, `runtime`, `docker` and `workspace` it is refused); at GitHub it is silently empty.", "warned", step("env: {A: \"${{ steps.nobody.outputs.x }}\"}")},
		{"A script that pastes in what strangers or agents wrote gets a warning.", "warned", "on: push\njobs: {a: {runs-on: x, steps: [{run: \"echo ${{ github.event.issue.title }}\"}]}}\n"},
		{"A timeout of 0, below 0, or longer than a year is refused; fractions work.", "refused", job("timeout-minutes: 0")},
		{"`max-parallel` below 1 is refused.", "refused", job("strategy: {max-parallel: 0}")},
		{"`shell: cmd`, which is there on Windows only, is refused; `pwsh` and `powershell` work where the box's image has them.", "refused", step("shell: cmd")},
		{"`permissions` of a called workflow beyond those of its caller are refused, as at GitHub; where a caller says nothing, GitHub's repository settings decide, and all are allowed here.", "taken", "on: push\npermissions: {}" + rest},
		{"`shell: node` runs a script with Node.js.", "taken", step("shell: node")},
		{"Step ids of the form `step-1` are kept for steps without an id.", "refused", step("id: step-1")},
		{"`uses` takes composite actions and reusable workflows of the project (`./path`), and `actions/checkout`; everything else is refused.", "refused", "on: push\njobs: {a: {runs-on: x, steps: [{uses: actions/setup-go@v5}]}}\n"},
		{"The key `${{ insert }}`, which GitHub does not document, works in `env`, `with`, `secrets`, `outputs` and matrices: the keys of its value stand in its place.", "taken", step("env: {\"${{ insert }}\": \"${{ github.event }}\"}")},
		{"`fromJSON` takes what the runner's own reader takes (comments, single quotes, names without quotes, a comma at the end, NaN, anything after the first value); nothing deeper than 100 levels.", "taken", step("env: {A: \"${{ fromJSON('[1,]')[0] }}\"}")},
		{"A number or boolean in quotes is refused where GitHub refuses it; one that an expression gives as a text is taken.", "taken", job("timeout-minutes: \"${{ vars.T }}\"")},
		{"Bounds on a file: 4 MiB, 50 levels (100 of an action), 10,000 jobs, 1,000,000 values with aliases spelled out, 256 combinations of a matrix.", "taken", "on: push" + rest},
	}
}
