package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/herd-runner/herd-runner/internal/policy"
	"github.com/herd-runner/herd-runner/workflow"
)

// page is a page of the documentation.
type page struct {
	path string // from the root of the repository
	text string
}

func readPages(t *testing.T) []page {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil || len(files) < 7 {
		t.Fatalf("found %d pages (%v), want at least 7", len(files), err)
	}
	var pages []page
	for _, file := range append(files, "../README.md", "../CONTRIBUTING.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, page{strings.TrimPrefix(file, "../"), string(text)})
	}
	return pages
}

func pageText(t *testing.T, path string) string {
	t.Helper()
	for _, p := range readPages(t) {
		if p.path == path {
			return p.text
		}
	}
	t.Fatalf("there is no %s", path)
	return ""
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Workflows in the documentation hold, but for what GitHub itself runs and the
// policy file.
func TestDocumentedWorkflowsAreValid(t *testing.T) {
	seen := 0
	for _, p := range readPages(t) {
		for _, m := range yamlBlock.FindAllStringSubmatch(p.text, -1) {
			src := m[1]
			if strings.Contains(src, "uses:") || strings.HasPrefix(src, "allow:") || strings.HasPrefix(src, "credentials:") {
				continue
			}
			if strings.HasPrefix(src, "runtime:") {
				src = "defaults:\n  " + strings.ReplaceAll(src, "\n", "\n  ") + "\njobs: {a: {steps: [{run: 'true'}]}}\n"
			}
			if strings.HasPrefix(src, "steps:") {
				src = "jobs:\n  a:\n    " + strings.ReplaceAll(src, "\n", "\n    ")
			}
			if !strings.Contains(src, "\non:") {
				src = "on: workflow_dispatch\n" + src
			}
			seen++
			if _, _, problems := workflow.Validate(p.path, []byte(src)); len(problems) > 0 {
				t.Errorf("%s: %v in\n%s", p.path, problems, src)
			}
		}
	}
	if seen < 4 {
		t.Errorf("found %d workflows in the documentation, want at least 4", seen)
	}
}

var (
	pageLink     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	pageHeading  = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInHeading = regexp.MustCompile(`[^a-z0-9 _-]`)
)

func TestLinksInTheDocumentationLead(t *testing.T) {
	for _, p := range readPages(t) {
		for _, m := range pageLink.FindAllStringSubmatch(p.text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") {
				continue
			}
			path := p.path
			if target != "" {
				path = filepath.Join(filepath.Dir(p.path), target)
			}
			if _, err := os.Stat(filepath.Join("..", path)); err != nil {
				t.Errorf("%s links to %s, which is not there", p.path, m[1])
				continue
			}
			if anchor != "" && !hasHeading(pageText(t, path), anchor) {
				t.Errorf("%s links to %s, which has no such heading", p.path, m[1])
			}
		}
	}
}

// hasHeading says whether a heading has the anchor that GitHub gives it.
func hasHeading(text, anchor string) bool {
	for _, m := range pageHeading.FindAllStringSubmatch(text, -1) {
		if strings.ReplaceAll(notInHeading.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}

var (
	helpFlag = regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`)
	tableRow = regexp.MustCompile("(?m)^\\| (`-[^|]*`) \\|")
	anyFlag  = regexp.MustCompile(`--[a-z-]+`)
)

// The page about running knows the flags of run, and no others.
func TestDocumentedFlagsAreTheRealOnes(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), built(t).herd, "run", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	real, documented := map[string]bool{}, map[string]bool{}
	for _, m := range helpFlag.FindAllStringSubmatch(string(out), -1) {
		real[m[1]] = m[1] != "--help"
	}
	for _, m := range tableRow.FindAllStringSubmatch(pageText(t, "docs/running.md"), -1) {
		for _, flag := range anyFlag.FindAllString(m[1], -1) {
			documented[flag] = true
		}
	}
	for flag, wanted := range real {
		if wanted && !documented[flag] {
			t.Errorf("docs/running.md does not tell of %s", flag)
		}
	}
	for flag := range documented {
		if !real[flag] {
			t.Errorf("docs/running.md tells of %s, which run does not have", flag)
		}
	}
	if len(documented) < 20 {
		t.Errorf("found %d flags in docs/running.md, want at least 20", len(documented))
	}
}

// The page about security has a row for every rule of the policy.
func TestEveryPolicyRuleIsDocumented(t *testing.T) {
	_, err := policy.Load("", []string{"no-such-rule"})
	var unknown *policy.UnknownRuleError
	if !errors.As(err, &unknown) {
		t.Fatalf("got %v, want an unknown rule", err)
	}
	_, rules, ok := strings.Cut(unknown.Hint(), ": ")
	if !ok {
		t.Fatalf("the hint %q lists no rules", unknown.Hint())
	}
	text := pageText(t, "docs/security.md")
	for _, rule := range strings.Split(rules, ", ") {
		if !strings.Contains(text, "`"+rule+"`") {
			t.Errorf("docs/security.md does not tell of the rule %s", rule)
		}
	}
}
