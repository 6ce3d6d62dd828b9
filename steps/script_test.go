package steps_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// TestOutput runs one job and looks at what step "s" printed.
func TestScriptOutput(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"SEMANTICS 34: env merges workflow < job < step, and a step's sees the job's", `
env: {A: w, B: w, C: w}
jobs:
  a:
    env: {B: j, C: j}
    steps: [{id: s, env: {C: s, D: "${{ env.B }}"}, run: echo $A $B $C $D}]
`, "w j s j\n"},
		{"SEMANTICS 28: GITHUB_ENV and GITHUB_PATH reach the later steps", `
jobs:
  a:
    steps:
      - run: |
          echo A=1 >> $GITHUB_ENV
          printf 'B<<X\nl1\n\nl2\nX\n' >> $GITHUB_ENV
          mkdir bin && printf '#!/bin/sh\necho tool' > bin/tool && chmod +x bin/tool
          echo "$PWD/bin" >> $GITHUB_PATH
      - {id: s, run: 'echo $A; echo "$B"; echo ${{ env.A }}; tool'}
`, "1\nl1\n\nl2\n1\ntool\n"},
		{"SEMANTICS 12: outputs of earlier steps and jobs", `
jobs:
  one:
    outputs: {o: "${{ steps.x.outputs.o }}-${{ steps.x.outcome }}"}
    steps: [{id: x, run: echo o=v >> $GITHUB_OUTPUT}]
  a:
    needs: one
    steps: [{id: s, run: "echo ${{ needs.one.outputs.o }} ${{ needs.one.result }}"}]
`, "v-success success\n"},
		{"SEMANTICS 33: the default shell stops at the first error but not in a pipe", `
jobs:
  a: {steps: [{id: s, run: "false | true\necho on\nfalse\necho off"}]}
`, "on\n"},
		{"SEMANTICS 33: shell bash has pipefail, and defaults reach every step", `
jobs:
  a:
    defaults: {run: {shell: bash, working-directory: sub}}
    steps: [{run: "mkdir -p x", working-directory: "."}, {run: mkdir sub, working-directory: "."}, {id: s, run: "basename $PWD\nfalse | true\necho off"}]
`, "sub\n"},
		{"SEMANTICS 33: custom shells get the script by {0}", `
jobs:
  a: {steps: [{id: s, shell: "cat {0}", run: hello}]}
`, "hello"},
		{"SEMANTICS 33: pwsh gets a .ps1 that stops at errors and ends with the exit code, by GitHub's command line", `
jobs:
  a:
    steps:
      - run: |
          mkdir bin && cat > bin/pwsh <<'END' && chmod +x bin/pwsh
          #!/bin/sh
          file=$(echo "$2" | cut -d"'" -f2)
          echo $# $1 ${file##*.} && cat "$file"
          END
          echo "$PWD/bin" >> $GITHUB_PATH
      - {id: s, shell: pwsh, run: Write-Output hi}
`, "2 -command ps1\n$ErrorActionPreference = 'stop'\nWrite-Output hi\nif ((Test-Path -LiteralPath variable:\\LASTEXITCODE)) { exit $LASTEXITCODE }"},
		{"SEMANTICS 33: a custom shell's arguments are taken apart as by GitHub's runner", `
jobs:
  a: {steps: [{id: s, shell: "sh -c \"cat '{0}'; printf ' %s' $1\" 'a \\\"b\\\"", run: hello}]}
`, "hello \"b\""},
		{"SEMANTICS 26: what differs between jobs and steps in github and runner", `
jobs:
  a:
    steps:
      - run: echo
      - {id: s, env: {OUT: "${{ github.output }}"}, run: 'echo ${{ github.job }} ${{ github.action }} $GITHUB_ACTION; test ${{ github.env }} = $GITHUB_ENV && test $OUT = $GITHUB_OUTPUT && test ${{ github.step_summary }} = $GITHUB_STEP_SUMMARY && test ${{ runner.tool_cache }} = $RUNNER_TOOL_CACHE && test ${{ runner.temp }} = $RUNNER_TEMP && echo same'}
`, "a s s\nsame\n"},
		{"SEMANTICS 26: RUNNER_TOOL_CACHE is there", `
jobs:
  a: {steps: [{run: "cd $RUNNER_TOOL_CACHE && echo kept > tool"}, {id: s, run: "cat $RUNNER_TOOL_CACHE/tool"}]}
`, "kept\n"},
		{"SEMANTICS 26: github.action of steps without an id", `
jobs:
  a:
    env: {N: "${{ github.job }}"}
    steps: [{run: echo}, {id: x, run: echo}, {run: "echo first=${{ github.action }} >> $GITHUB_ENV"}, {id: s, run: 'echo $first $N'}]
`, "__run_2 a\n"},
		{"mappings are inserted into env", `
jobs:
  a: {env: {A: 1, "${{ insert }}": "${{ fromJSON('{A: 2, B: 3}') }}"}, steps: [{id: s, run: 'echo $A $B'}]}
`, "2 3\n"},
		{"SEMANTICS 30: secrets and added masks do not show", `
jobs:
  a: {steps: [{id: s, env: {T: "${{ secrets.TOKEN }}"}, run: "echo ::add-mask::hidden-word\necho $T hidden-word"}]}
`, "*** ***\n"},
		{"SEMANTICS 26: the matrix, strategy and job contexts", `
jobs:
  a:
    strategy: {matrix: {x: [only]}}
    steps: [{id: s, run: "echo ${{ matrix.x }} ${{ strategy.job-index }} ${{ strategy.job-total }} ${{ strategy.fail-fast }} ${{ job.status }}"}]
`, "only 0 1 true success\n"},
		{"a script of more than one argument's length", `
jobs:
  a: {steps: [{id: s, run: "x='` + strings.Repeat("0123456789", 20_000) + `'\necho ${#x}"}]}
`, "200000\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := prepare(t, tt.src)
			e.run()
			job := "a"
			if strings.Contains(tt.src, "matrix: {x: [only]}") {
				job = "a (only)"
			}
			if diff := cmp.Diff(tt.want, e.output(job+"/s")); diff != "" {
				t.Errorf("output (-want +got):\n%s\n%s", diff, e.notes())
			}
		})
	}
}

// SEMANTICS 31: a job output that holds a secret is dropped with a warning.
func TestSecretOutputIsDropped(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a:
    outputs: {bad: "x${{ secrets.TOKEN }}", good: fine}
    steps: [{run: echo ::add-mask::s3cr3t-value}]
  b: {needs: a, steps: [{id: s, run: "echo [${{ needs.a.outputs.bad }}] ${{ needs.a.outputs.good }}"}]}
`)
	e.run()
	if got, want := e.output("b/s"), "[] fine\n"; got != want {
		t.Errorf("output: got %q, want %q", got, want)
	}
	if !strings.Contains(e.notes(), "warning: output bad was dropped") {
		t.Errorf("no warning in %q", e.notes())
	}
}

// SEMANTICS 28: a file without its delimiter fails the step and is named.
func TestBadOutputFile(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a: {steps: [{id: s, run: "printf 'a<<END\nx\n' >> $GITHUB_OUTPUT"}]}
`)
	if out := e.run(); out.Conclusion != "failure" || !strings.Contains(e.notes(), "GITHUB_OUTPUT") {
		t.Errorf("got %q, notes %q", out.Conclusion, e.notes())
	}
}

// SEMANTICS 29: commands become annotations; set-env is off.
func TestAnnotations(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a: {steps: [{id: s, run: "echo '::error file=f.go,line=3::bad%0Athing'\necho ::set-env name=X::y\necho plain"}]}
`)
	e.run()
	var notes []event.Note
	for _, ev := range e.events.events {
		if ev.Type == event.Annotation {
			notes = append(notes, *ev.Note)
		}
	}
	if len(notes) != 2 || notes[0].File != "f.go" || notes[0].Line != 3 || notes[0].Message != "bad\nthing" || !strings.Contains(notes[1].Message, "set-env") {
		t.Errorf("annotations: %+v", notes)
	}
	if got := e.output("a/s"); got != "plain\n" {
		t.Errorf("output: %q", got)
	}
	if got := e.finished("a/s"); got.Outcome != "failure" {
		t.Errorf("a refused command does not fail the step: %+v", got)
	}
}

func TestExitCodeAndOutcome(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a: {steps: [{id: s, run: exit 42}]}
`)
	e.run()
	for _, ev := range e.events.events {
		if ev.Type == event.StepFinished && (ev.Outcome.ExitCode != 42 || ev.Outcome.Cause != event.CauseExitCode) {
			t.Errorf("outcome: %+v", ev.Outcome)
		}
	}
}

// SEMANTICS 26, 34: neither env nor GITHUB_ENV changes what github and runner say.
func TestDefaultVariablesStay(t *testing.T) {
	t.Parallel()
	e := prepare(t, `
jobs:
  a:
    env: {RUNNER_OS: Plan9, GITHUB_MINE: job}
    steps:
      - run: 'printf "GITHUB_SHA=zz\nGITHUB_ACTIONS=no\nCI=ours\nGITHUB_TOKEN=t\n" >> $GITHUB_ENV'
      - {id: s, env: {GITHUB_JOB: b}, run: 'echo $GITHUB_SHA $RUNNER_OS $GITHUB_JOB $GITHUB_ACTIONS $CI $GITHUB_TOKEN $GITHUB_MINE'}
`)
	contexts := e.options.Contexts
	e.options.Contexts = func(name string, onHost bool) (expr.Value, bool) {
		o := expr.NewObject()
		switch name {
		case "github":
			o.Set("sha", "abc")
			o.Set("token", "theirs")
		case "runner":
			o.Set("os", "Linux")
		default:
			return contexts(name, onHost)
		}
		return o, true
	}
	e.options.Env = func(sandbox.Info) map[string]string {
		return map[string]string{"GITHUB_SHA": "abc", "RUNNER_OS": "Linux", "GITHUB_ACTIONS": "true", "CI": "true", "GITHUB_TOKEN": "theirs", "GITHUB_MINE": "file"}
	}
	e.run()
	if got, want := e.output("a/s"), "abc Linux a true ours t job\n"; got != want {
		t.Errorf("got %q, want %q\n%s", got, want, e.notes())
	}
}

// A script that can not be written is the machine's failure, not that of a
// program that is not there. The steps after it get another box.
func TestScriptThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	e := prepareProject(t, `
jobs:
  a:
    steps:
      - {id: before, run: 'rm -r "$RUNNER_TEMP" && echo >"$RUNNER_TEMP"'}
      - {id: s, run: echo}
      - {id: after, if: always(), run: echo}
      - {id: missing, if: always(), shell: "no-such-program {0}", run: echo}
`, nil)
	e.run()
	want := map[string]string{"a": "failure", "a/before": "success", "a/s": "failure", "a/after": "success", "a/missing": "failure"}
	if diff := cmp.Diff(want, e.results()); diff != "" {
		t.Errorf("results (-want +got):\n%s\n%s", diff, e.notes())
	}
	said := map[string]event.Outcome{}
	for _, ev := range e.events.events {
		if ev.Type == event.StepFinished {
			said[ev.Step] = *ev.Outcome
		}
	}
	if o := said["s"]; o.Cause != event.CauseInfrastructure || !strings.Contains(o.Message, "write file") || !strings.Contains(o.Hint, "is there room") {
		t.Errorf("no room for the script: %+v", o)
	}
	if o := said["missing"]; o.Cause != event.CauseExitCode || o.ExitCode != 127 || !strings.Contains(o.Hint, "in the box's image") {
		t.Errorf("no such program: %+v", o)
	}
}
