package workspace

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sort"
	"strings"
)

// bringBack makes the project what the clone has become, file by file, judging
// the clone's final tree and nothing else. What the person changed meanwhile is
// kept; kinds of files that could reach out of the project are left out. Both
// are said in the report, and the clone is then kept by the caller.
func (m manifest) bringBack(clone, project string) (Report, error) {
	var rep Report
	src, err := os.OpenRoot(clone)
	if err != nil {
		return rep, err
	}
	defer src.Close()
	dst, err := os.OpenRoot(project)
	if err != nil {
		return rep, err
	}
	defer dst.Close()

	seen := map[string]bool{}
	err = fs.WalkDir(src.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		if name == ".git" || name == ".herd" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		seen[name] = true
		st, err := src.Lstat(name)
		if err != nil {
			return err
		}
		e := entryOf(src, name, st)
		old, known := m[name]
		if known && old == e {
			return nil
		}
		if known && e.Mode.IsDir() && old.Mode.IsDir() && old.Mode == e.Mode|0o700 {
			return nil
		}
		if git := gitPart(name); git != "" {
			rep.skipGit(git)
			return nil
		}
		m.take(&rep, src, dst, name, e)
		return nil
	})
	if err != nil {
		return rep, fmt.Errorf("bring back %s: %w", clone, err)
	}
	m.removeGone(&rep, dst, seen)
	sort.Strings(rep.Changed)
	return rep, nil
}

// skipGit leaves out a change inside a .git, once for each.
func (r *Report) skipGit(name string) {
	if !slices.ContainsFunc(r.Notices, func(n string) bool { return strings.HasPrefix(n, fmt.Sprintf("%q ", name)) }) {
		r.skip(name, "a nested .git could run code on this machine")
	}
}

func (r *Report) skip(name, why string) {
	r.Notices = append(r.Notices, fmt.Sprintf("%q was not brought back: %s", name, why))
}

// take brings one new or changed entry to the project.
func (m manifest) take(rep *Report, src, dst *os.Root, name string, e entry) {
	if why := m.conflict(dst, name); why != "" {
		rep.skip(name, why)
		return
	}
	var err error
	switch {
	case e.Mode.IsDir():
		if err = dst.Mkdir(name, e.Mode.Perm()); os.IsExist(err) {
			if st, statErr := dst.Lstat(name); statErr == nil && st.IsDir() {
				err = dst.Chmod(name, e.Mode.Perm())
			}
		}
	case e.Mode.IsRegular():
		// A new file of our own, never through what stands there: it may be a
		// link.
		if st, statErr := dst.Lstat(name); statErr == nil && !st.Mode().IsRegular() {
			err = dst.Remove(name)
		}
		if err == nil {
			err = copyFile(src, name, dst, name, e)
		}
	case e.Mode&fs.ModeSymlink != 0:
		if why := unfitLink(name, e.Link); why != "" {
			rep.skip(name, why)
			return
		}
		if _, statErr := dst.Lstat(name); statErr == nil {
			err = dst.Remove(name)
		}
		if err == nil {
			err = dst.Symlink(e.Link, name)
		}
	default:
		rep.skip(name, "it is neither a file, a directory nor a symbolic link")
		return
	}
	if err != nil {
		rep.skip(name, err.Error())
		return
	}
	rep.Changed = append(rep.Changed, name)
}

// conflict says why the project's own name must not be touched: the person
// changed it since the clone was made.
func (m manifest) conflict(dst *os.Root, name string) string {
	old, known := m[name]
	st, err := dst.Lstat(name)
	switch {
	case err != nil && known && !old.Mode.IsDir():
		return "it was removed from the project during the run"
	case err != nil:
		return ""
	case !known && !st.IsDir():
		return "it appeared in the project during the run"
	case known && !st.IsDir() && entryOf(dst, name, st) != old:
		return "it was changed in the project during the run"
	}
	return ""
}

// removeGone removes what the clone no longer has, deepest first.
func (m manifest) removeGone(rep *Report, dst *os.Root, seen map[string]bool) {
	var gone []string
	for name := range m {
		if !seen[name] {
			gone = append(gone, name)
		}
	}
	sort.Sort(sort.Reverse(sort.StringSlice(gone)))
	for _, name := range gone {
		if _, err := dst.Lstat(name); os.IsNotExist(err) {
			continue
		}
		if git := gitPart(name); git != "" {
			rep.skipGit(git)
			continue
		}
		if why := m.conflict(dst, name); why != "" {
			rep.skip(name, why)
			continue
		}
		if err := dst.Remove(name); err != nil {
			rep.skip(name, err.Error())
			continue
		}
		rep.Changed = append(rep.Changed, name)
	}
}
