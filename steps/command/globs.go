package command

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// glob is one pattern of hashFiles, relative to the workspace. The rules are
// those of @actions/glob: no braces, no extended globs, names with a leading dot
// match, and what matches a directory matches all that is in it.
type glob struct {
	negate   bool
	onlyDirs bool // it ends with a slash
	segments []string
}

type globs []glob

// parseGlobs reads patterns, each of which may hold several lines. workspace and
// real are the two names by which a pattern may name the workspace's root.
func parseGlobs(patterns []string, workspace, real string) (globs, error) {
	var all globs
	for _, text := range strings.Split(strings.Join(patterns, "\n"), "\n") {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		var g glob
		p := text
		for strings.HasPrefix(p, "!") {
			g.negate = !g.negate
			p = strings.TrimSpace(p[1:])
		}
		if path.IsAbs(p) {
			inside, ok := cutRoot(p, workspace, real)
			if !ok {
				continue // matches nothing that is in the workspace
			}
			p = inside
		}
		if p == "~" || strings.HasPrefix(p, "~/") {
			continue
		}
		g.onlyDirs = strings.HasSuffix(p, "/")
		for i, segment := range strings.Split(p, "/") {
			switch {
			case segment == "..", segment == "." && i > 0:
				return nil, fmt.Errorf("invalid pattern %q: relative pathing '.' and '..' is not allowed", text)
			case segment == "", segment == ".":
				continue
			}
			g.segments = append(g.segments, plainGlob(segment))
		}
		for _, segment := range g.segments {
			if !doublestar.ValidatePattern(segment) {
				return nil, fmt.Errorf("invalid pattern %q: %q is no glob", text, segment)
			}
		}
		all = append(all, g)
	}
	return all, nil
}

func cutRoot(p string, roots ...string) (string, bool) {
	for _, root := range roots {
		root = filepath.ToSlash(root)
		if p == root {
			return "", true
		}
		if inside, ok := strings.CutPrefix(p, root+"/"); ok {
			return inside, true
		}
	}
	return "", false
}

// plainGlob escapes what doublestar knows and @actions/glob does not: braces and
// a bracket that is not closed.
func plainGlob(segment string) string {
	var out strings.Builder
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		switch {
		case c == '\\' && i+1 < len(segment):
			out.WriteByte(c)
			i++
			c = segment[i]
		case c == '\\', c == '{', c == '}', c == '[' && !strings.Contains(segment[i+1:], "]"):
			out.WriteByte('\\')
		case c == '[':
			set := i + 2 + strings.IndexByte(segment[i+1:], ']')
			if set == i+2 { // "[]" is text
				out.WriteByte('\\')
				break
			}
			out.WriteString(segment[i:set])
			i = set - 1
			continue
		}
		out.WriteByte(c)
	}
	return out.String()
}

// roots are the literal beginnings of the patterns, without those that lie under
// another, in the order of the patterns.
func (all globs) roots() []string {
	var found []string
	for _, g := range all {
		if !g.negate {
			found = append(found, g.root())
		}
	}
	var out []string
	for _, root := range found {
		covered := slices.Contains(out, root) || slices.ContainsFunc(found, func(other string) bool {
			return other != root && (other == "." || strings.HasPrefix(root, other+"/"))
		})
		if !covered {
			out = append(out, root)
		}
	}
	return out
}

func (g glob) root() string {
	var literal []string
	for _, segment := range g.segments {
		if strings.ContainsAny(strings.ReplaceAll(segment, `\`, ""), "*?[") {
			break
		}
		literal = append(literal, unescapeGlob(segment))
	}
	if len(literal) == 0 {
		return "."
	}
	return path.Join(literal...)
}

func unescapeGlob(segment string) string {
	var out strings.Builder
	for i := 0; i < len(segment); i++ {
		if segment[i] == '\\' && i+1 < len(segment) {
			i++
		}
		out.WriteByte(segment[i])
	}
	return out.String()
}

// match reports whether the last pattern that has a say about name takes it.
func (all globs) match(name string) bool {
	matched := false
	for _, g := range all {
		if g.matches(name) {
			matched = !g.negate
		}
	}
	return matched
}

// matches reports whether g matches name or a directory above it.
func (g glob) matches(name string) bool {
	if len(g.segments) == 0 {
		return true
	}
	pattern := strings.Join(g.segments, "/")
	if !g.onlyDirs && doublestar.MatchUnvalidated(pattern, name) {
		return true
	}
	if g.segments[len(g.segments)-1] == "**" {
		return false
	}
	return doublestar.MatchUnvalidated(pattern+"/**/*", name)
}

// mayMatchBelow reports whether something under the directory name could match.
func (all globs) mayMatchBelow(name string) bool {
	for _, g := range all {
		if !g.negate && g.leadsThrough(name) {
			return true
		}
	}
	return false
}

func (g glob) leadsThrough(name string) bool {
	if name == "." {
		return true
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if i >= len(g.segments) || g.segments[i] == "**" {
			return true
		}
		if !doublestar.MatchUnvalidated(g.segments[i], part) {
			return false
		}
	}
	return true
}
