package workspace

import (
	"path"
	"path/filepath"
	"strings"
)

// gitPart gives the path up to its first part that is .git in any spelling that
// some file system takes for it; empty where there is none.
func gitPart(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		if isGit(part) {
			return strings.Join(parts[:i+1], "/")
		}
	}
	return ""
}

func isGit(part string) bool {
	base := folded(part)
	return base == ".git" || base == "git~1"
}

// folded is a file's name as the least careful file systems see it: without
// case, trailing dots and spaces, what stands behind a colon (NTFS), and code
// points that are not seen (HFS+).
func folded(part string) string {
	part, _, _ = strings.Cut(part, ":")
	part = strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, part)
	return strings.ToLower(strings.TrimRight(part, ". "))
}

// unfit says why a path must not come out of a clone; empty where it may.
func unfit(name string) string {
	if !filepath.IsLocal(name) || path.Clean(name) != name || name == "." {
		return "the path leads out of the project"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch fold := folded(part); {
		case isGit(part):
			return "a nested .git could run code on this machine"
		case fold == ".herd":
			return "herd-runner keeps its own state there"
		case fold == ".github" && part != ".github":
			return "some file systems take it for .github"
		case fold == ".gitmodules":
			return "submodules are not brought back"
		}
	}
	return ""
}

// staysInside says whether a symbolic link at name leads to a place inside the
// project by its text alone.
func staysInside(name, link string) bool {
	if filepath.IsAbs(link) {
		return false
	}
	target := path.Join(path.Dir(name), link)
	return filepath.IsLocal(target)
}

// unfitLink says why a symbolic link must not come out of a clone.
func unfitLink(name, link string) string {
	switch folded(path.Base(name)) {
	case ".gitattributes", ".gitignore", ".mailmap":
		return "git does not read it through a symbolic link"
	}
	if link == "" || strings.ContainsRune(link, 0) || !staysInside(name, link) {
		return "the symbolic link leads out of the project"
	}
	if gitPart(path.Join(path.Dir(name), link)) != "" {
		return "the symbolic link leads into .git"
	}
	return ""
}

// twins finds names of which some file systems make one.
type twins struct{ spelling map[string]string }

// add takes a path and gives the other path that it, or a directory it lies in,
// would fall together with; empty where there is none.
func (t *twins) add(name string) string {
	if t.spelling == nil {
		t.spelling = map[string]string{}
	}
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		prefix := name[:i]
		fold := strings.ToLower(prefix)
		if other, ok := t.spelling[fold]; ok && other != prefix {
			return other
		}
		t.spelling[fold] = prefix
	}
	return ""
}
