package e2e

import (
	"regexp"
	"strings"
	"testing"
	"text/template"

	"github.com/herd-runner/herd-runner/internal/verify"
)

var (
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	testCommand = regexp.MustCompile(`^go test \./(\S+) -run (Test\w+)$`)
)

// promises are the rows of a table behind a heading of the page about security.
func promises(t *testing.T, heading string) [][2]string {
	t.Helper()
	_, text, ok := strings.Cut(pageText(t, "docs/security.md"), heading)
	if !ok {
		t.Fatalf("docs/security.md has no %q", heading)
	}
	var rows [][2]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		switch {
		case strings.HasPrefix(line, "#"), len(rows) > 0 && !strings.HasPrefix(line, "|"):
			return rows
		case len(cells) != 2, strings.HasPrefix(line, "|---"):
		default:
			rows = append(rows, [2]string{strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1])})
		}
	}
	return rows
}

// Each promise of the page about security names what proves it: attacks, verbs and
// tests that are there. And each attack is named.
func TestEveryPromiseHasItsProof(t *testing.T) {
	attacks := map[string]bool{}
	for _, a := range verify.Attacks() {
		attacks[a.Name] = false
	}
	rows := promises(t, "### What is promised, and what proves it")
	if len(rows) < 15 {
		t.Fatalf("only %d promises", len(rows))
	}
	for _, row := range rows[1:] {
		proofs := codeSpan.FindAllStringSubmatch(row[1], -1)
		if len(proofs) == 0 {
			t.Errorf("%q has no proof", row[0])
		}
		for _, proof := range proofs {
			word := proof[1]
			if _, ok := attacks[word]; ok {
				attacks[word] = true
			} else if verb, ok := strings.CutPrefix(word, "herd-runner "); ok {
				if r := (&machine{}).call(t, append(strings.Fields(verb), "--help")...); r.code != 0 || !strings.Contains(r.stdout, "herd-runner "+verb) {
					t.Errorf("%q: there is no %s", row[0], word)
				}
			} else if m := testCommand.FindStringSubmatch(word); m == nil {
				t.Errorf("%q: %q is no attack, verb or test", row[0], word)
			} else if _, ok := testComments(t, m[1])[m[2]]; !ok {
				t.Errorf("%q: %s has no %s", row[0], m[1], m[2])
			}
		}
	}
	for name, named := range attacks {
		if !named {
			t.Errorf("docs/security.md does not say what the attack %s proves", name)
		}
	}
}

// What the page says of `docker inspect` is what the engine says of a box that
// asks for nothing. THREATS 9.
func TestDocumentedInspection(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	dir := newProject(t, nil)
	p := m.startRun(t, dir, "on: workflow_dispatch\njobs: {a: {steps: [{id: s, run: 'echo begun; while ! test -e over; do sleep 0.1; done'}]}}\n")
	p.awaitOutput("begun")
	box, _ := m.engine.inspect(t, p.awaitBox("a", "s"))
	rows := promises(t, "And with the engine's own eyes")
	if len(rows) < 6 {
		t.Fatalf("only %d lines", len(rows))
	}
	for _, row := range rows[1:] {
		format, want := strings.Trim(row[0], "`"), strings.Trim(row[1], "`")
		tmpl, err := template.New("").Parse(format)
		if err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		var said strings.Builder
		if err := tmpl.Execute(&said, box); err != nil || said.String() != want {
			t.Errorf("%s says %q (%v), the page %q", format, said.String(), err, want)
		}
	}
	write(t, dir+"/over", "")
	p.wait().wantCode(t, 0)
	m.wantNothingLeft(t, dir)
}
