package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	maxPaths    = 1000
	maxMatches  = 200
	maxGrepLine = 400 // bytes
)

func (w workspace) glob() tool {
	return tool{
		name: "glob",
		description: "Find files by name, such as **/*_test.go, sorted by path. A pattern without a slash matches names at any depth. " +
			".git and node_modules are left out.",
		schema: `{"type":"object","properties":{` +
			`"pattern":{"type":"string"},"path":{"type":"string","description":"Directory to search; the working directory when left out"}},` +
			`"required":["pattern"]}`,
		readOnly: true,
		run:      w.runGlob,
	}
}

func (w workspace) runGlob(ctx context.Context, input json.RawMessage) (string, error) {
	var in struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path"`
	}
	if err := decode(input, &in); err != nil {
		return "", err
	}
	root, pattern := w.path(in.Path), in.Pattern
	if filepath.IsAbs(pattern) {
		root, pattern = doublestar.SplitPattern(pattern)
	}
	match, err := matcher(pattern)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	found := 0
	err = walk(ctx, root, func(rel string, _ fs.DirEntry) error {
		if !match(rel) {
			return nil
		}
		if found++; found > maxPaths {
			fmt.Fprintf(&out, "[more than %d files: narrow the pattern]\n", maxPaths)
			return errEnough
		}
		out.WriteString(w.shown(filepath.Join(root, rel)) + "\n")
		return nil
	})
	if err = enough(err); err != nil {
		return "", err
	}
	if found == 0 {
		return "[no file matches]", nil
	}
	return clipped(out.String()), nil
}

// matcher matches slash-separated relative paths.
func matcher(pattern string) (func(rel string) bool, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	if pattern == "" || !doublestar.ValidatePattern(pattern) {
		return nil, fmt.Errorf("%q is not a valid pattern", pattern)
	}
	byName := !strings.Contains(pattern, "/")
	return func(rel string) bool {
		if byName {
			rel = path.Base(rel)
		}
		return doublestar.MatchUnvalidated(pattern, rel)
	}, nil
}

func (w workspace) grep() tool {
	return tool{
		name: "grep",
		description: "Search the contents of files with a regular expression (RE2 syntax). Gives path:line:text, or only paths with files_only. " +
			"Binary files, .git and node_modules are left out.",
		schema: `{"type":"object","properties":{` +
			`"pattern":{"type":"string","description":"Regular expression"},` +
			`"path":{"type":"string","description":"File or directory; the working directory when left out"},` +
			`"glob":{"type":"string","description":"Only files that match, such as *.go"},` +
			`"ignore_case":{"type":"boolean"},"files_only":{"type":"boolean"},` +
			`"context":{"type":"integer","description":"Lines to show before and after each match, at most 20"}},` +
			`"required":["pattern"]}`,
		readOnly: true,
		run:      w.runGrep,
	}
}

type grepInput struct {
	Pattern    string `json:"pattern"`
	Path       string `json:"path"`
	Glob       string `json:"glob"`
	IgnoreCase bool   `json:"ignore_case"`
	FilesOnly  bool   `json:"files_only"`
	Context    int    `json:"context"`
}

func (w workspace) runGrep(ctx context.Context, input json.RawMessage) (string, error) {
	var in grepInput
	if err := decode(input, &in); err != nil {
		return "", err
	}
	if in.Pattern == "" {
		return "", errors.New("pattern is empty")
	}
	in.Context = max(0, min(in.Context, 20))
	expr := in.Pattern
	if in.IgnoreCase {
		expr = "(?i)" + expr
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return "", fmt.Errorf("not a regular expression: %w", err)
	}
	match := func(string) bool { return true }
	if in.Glob != "" {
		if match, err = matcher(in.Glob); err != nil {
			return "", err
		}
	}
	g := &grepping{re: re, in: in}
	root := w.path(in.Path)
	info, err := os.Stat(root)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		if err := regular(in.Path, info); err != nil {
			return "", err
		}
		err = g.file(root, w.shown(root))
	} else {
		err = walk(ctx, root, func(rel string, _ fs.DirEntry) error {
			if !match(rel) {
				return nil
			}
			return g.file(filepath.Join(root, rel), w.shown(filepath.Join(root, rel)))
		})
	}
	if err = enough(err); err != nil {
		return "", err
	}
	if g.found == 0 {
		return "[no match]", nil
	}
	return clipped(g.out.String()), nil
}

// grepping collects matches over files.
type grepping struct {
	re    *regexp.Regexp
	in    grepInput
	out   strings.Builder
	found int
}

func (g *grepping) file(path, shown string) error {
	data, err := readWhole(path)
	if err != nil || binary(data) {
		return nil // what can not be read or is too large is left out
	}
	if prefix, _ := g.re.LiteralPrefix(); prefix != "" && !bytes.Contains(data, []byte(prefix)) {
		return nil
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	printed := -1 // last line printed, for context
	for i, line := range lines {
		if !g.re.Match(bytes.TrimSuffix(line, []byte("\r"))) {
			continue
		}
		if g.found++; g.found > maxMatches {
			fmt.Fprintf(&g.out, "[more than %d matches: narrow the search]\n", maxMatches)
			return errEnough
		}
		if g.in.FilesOnly {
			g.out.WriteString(shown + "\n")
			return nil
		}
		from := max(i-g.in.Context, printed+1)
		if g.in.Context > 0 && printed >= 0 && from > printed+1 {
			g.out.WriteString("--\n")
		}
		for j := from; j <= min(i+g.in.Context, len(lines)-1); j++ {
			g.line(shown, j, lines[j], j == i || g.re.Match(lines[j]))
			printed = j
		}
	}
	return nil
}

func (g *grepping) line(shown string, i int, line []byte, match bool) {
	mark := "-"
	if match {
		mark = ":"
	}
	text := strings.TrimSuffix(string(line), "\r")
	if len(text) > maxGrepLine {
		text = text[:maxGrepLine] + "…"
	}
	fmt.Fprintf(&g.out, "%s%s%d%s%s\n", shown, mark, i+1, mark, strings.ToValidUTF8(text, "\uFFFD"))
}
