package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// threats is how many lines there are.
const threats = 21

// testComments gives the comment of every test in a package of the repository.
func testComments(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				found[f.Name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
			}
		}
	}
	return found
}

var threatNumbers = regexp.MustCompile(`THREATS ((?:\d+(?: to |, | and )?)+)`)

// namedThreats are the numbers that a comment names, as in "THREATS 5, 6 and 8" or
// "THREATS 4 to 12".
func namedThreats(comment string) map[int]bool {
	named := map[int]bool{}
	for _, m := range threatNumbers.FindAllStringSubmatch(comment, -1) {
		last := 0
		words := strings.Fields(strings.NewReplacer(",", " ", " and ", " ").Replace(m[1]))
		for i, w := range words {
			n, err := strconv.Atoi(w)
			if err != nil {
				continue
			}
			if i > 0 && words[i-1] == "to" {
				for k := last; k < n; k++ {
					named[k] = true
				}
			}
			named[n], last = true, n
		}
	}
	return named
}

func TestNamedThreats(t *testing.T) {
	for comment, want := range map[string][]int{
		"x. THREATS 9.":                   {9},
		"DOCKER-09, THREATS 5, 6 and 8 y": {5, 6, 8},
		"(THREATS 1, 2, 4 to 6, 8)":       {1, 2, 4, 5, 6, 8},
		"THREATS":                         nil,
	} {
		got := namedThreats(comment)
		if len(got) != len(want) {
			t.Errorf("%s: %v", comment, got)
		}
		for _, n := range want {
			if !got[n] {
				t.Errorf("%s: %v", comment, got)
			}
		}
	}
}

// TestEveryThreatHasTests: each claim of what the sandbox must survive is shown by
// tests that are there and name its number.
func TestEveryThreatHasTests(t *testing.T) {
	packages := map[string]map[string]string{}
	claims := map[int]int{}
	verbs := ""
	for n, line := range strings.Split(read(t, "testdata/threats.txt"), "\n") {
		at := "testdata/threats.txt:" + strconv.Itoa(n+1)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		number, err := strconv.Atoi(fields[0])
		if err != nil || len(fields) != 3 || number < 1 || number > threats || fields[1] == "" {
			t.Fatalf("%s: expected NUMBER | claim | tests, found %q", at, line)
		}
		claims[number]++
		if verb, ok := strings.CutPrefix(fields[2], "missing: "); ok {
			if verbs == "" { // `herd-runner help` asks no engine
				verbs = (&machine{}).call(t, "help").stdout
			}
			if strings.Contains(verbs, "\n  "+verb+" ") {
				t.Errorf("%s: there is a verb %s now: show %q, and name the test", at, verb, fields[1])
			}
			continue
		}
		for _, test := range strings.Split(fields[2], ", ") {
			dir, name, _ := strings.Cut(test, " ")
			if packages[dir] == nil {
				packages[dir] = testComments(t, dir)
			}
			comment, ok := packages[dir][name]
			switch {
			case !ok:
				t.Errorf("%s: %s has no %s", at, dir, name)
			case !namedThreats(comment)[number]:
				t.Errorf("%s: the comment of %s in %s does not say THREATS %d", at, name, dir, number)
			}
		}
	}
	for n := 1; n <= threats; n++ {
		if claims[n] == 0 {
			t.Errorf("THREATS %d has no claim in testdata/threats.txt", n)
		}
	}
}
