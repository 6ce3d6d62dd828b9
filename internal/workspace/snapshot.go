package workspace

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Bounds of what is brought back from one clone, in bytes.
const (
	maxFile  = 100 << 20
	maxTotal = 1 << 30
)

// stamps tell of every file of a tree whether it is still the one it was: a
// process in a box can set each part of a stamp but the time of its last change.
type stamps map[string]stamp

type stamp struct {
	mode         fs.FileMode // type and permissions
	size         int64
	mtime, ctime int64 // nanoseconds
}

// stampTree looks at every file below dir but those of .git and .herd.
func stampTree(dir string) (stamps, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	s := stamps{}
	return s, walk(root, func(_ *os.Root, name, _ string, st fs.FileInfo) (bool, error) {
		if notCloned(name) {
			return false, nil
		}
		if !st.IsDir() {
			s[name] = stampOf(st)
		}
		return true, nil
	})
}

func stampOf(st fs.FileInfo) stamp {
	return stamp{st.Mode() & (fs.ModeType | fs.ModePerm), st.Size(), st.ModTime().UnixNano(), changeTime(st)}
}

// finding is a file of the final tree that differs from the start.
type finding struct {
	name string
	mode fs.FileMode
	link string
	size int64
}

// findings is how the final tree of a clone differs from its start, judged file
// by file.
type findings struct {
	changed []finding
	gone    []string
	notices []string
}

func (f *findings) skip(name, why string) {
	if len(f.notices) < 100 {
		f.notices = append(f.notices, fmt.Sprintf("%q was not brought back: %s", name, why))
	}
}

// look compares the clone's tree with its start.
func (c *Clone) look(ctx context.Context) (findings, error) {
	var f findings
	root, err := os.OpenRoot(c.treeDir())
	if err != nil {
		return f, err
	}
	defer root.Close()
	seen := map[string]bool{}
	skipped := map[string]bool{}
	var total int64
	var names twins
	err = walk(root, func(dir *os.Root, name, base string, st fs.FileInfo) (bool, error) {
		if notCloned(name) {
			return false, nil
		}
		if git := gitPart(name); git != "" {
			// Git had no such name in the project's tree, so it is a step's.
			if !skipped[git] {
				skipped[git] = true
				f.skip(git, "a nested .git could run code on this machine")
			}
			return false, nil
		}
		if st.IsDir() {
			return true, nil
		}
		seen[name] = true
		old, known := c.stamps[name]
		if known && old == stampOf(st) {
			names.add(name)
			return false, nil
		}
		found := finding{name: name, mode: st.Mode(), size: st.Size()}
		why := unfit(name)
		switch {
		case why != "":
		case st.Mode().IsRegular() && st.Size() > maxFile:
			why = fmt.Sprintf("it is larger than %d MiB", maxFile>>20)
		case st.Mode().IsRegular():
			total += st.Size()
		case st.Mode()&fs.ModeSymlink != 0:
			if found.link, err = dir.Readlink(base); err != nil {
				return false, err
			}
			why = unfitLink(name, found.link)
		default:
			why = "it is neither a file, a directory nor a symbolic link"
		}
		if why != "" {
			f.skip(name, why)
			return false, nil
		}
		if total > maxTotal {
			return false, fmt.Errorf("more than %d MiB of changed files", maxTotal>>20)
		}
		f.changed = append(f.changed, found)
		return false, nil
	})
	if err != nil {
		return f, err
	}
	for name := range c.stamps {
		if !seen[name] && unfit(name) == "" {
			f.gone = append(f.gone, name)
		}
	}
	sort.Strings(f.gone)
	f.dropTwins(&names, c.stamps)
	return f, c.dropIgnored(ctx, &f)
}

// dropTwins takes out new names that fall together with what is there, and sorts
// the rest.
func (f *findings) dropTwins(names *twins, known stamps) {
	for _, x := range f.changed {
		if _, old := known[x.name]; old {
			names.add(x.name)
		}
	}
	slices.SortFunc(f.changed, func(a, b finding) int { return strings.Compare(a.name, b.name) })
	f.changed = slices.DeleteFunc(f.changed, func(x finding) bool {
		if _, old := known[x.name]; old {
			return false
		}
		other := names.add(x.name)
		if other != "" {
			f.skip(x.name, fmt.Sprintf("some file systems take it for %q", other))
		}
		return other != ""
	})
	sort.Strings(f.notices)
}

// dropIgnored takes out of the findings what the project's .gitignore files keep
// out, and what lies in a submodule.
func (c *Clone) dropIgnored(ctx context.Context, f *findings) error {
	var fresh strings.Builder
	for _, x := range f.changed {
		if _, known := c.stamps[x.name]; !known {
			fresh.WriteString(x.name + "\x00")
		}
	}
	if fresh.Len() == 0 {
		return nil
	}
	submodules, err := c.submodules(ctx)
	if err != nil {
		return err
	}
	r := c.store.repository
	r.workTree = c.treeDir()
	if err := c.readableIgnores(f); err != nil {
		return err
	}
	out, err := r.git(ctx, strings.NewReader(fresh.String()), "-c", "core.bare=false", "check-ignore", "--no-index", "-z", "--stdin")
	if err != nil && exitCode(err) != 1 {
		return err
	}
	ignored := map[string]bool{}
	for _, name := range fields(out) {
		ignored[name] = true
	}
	f.changed = slices.DeleteFunc(f.changed, func(x finding) bool {
		for _, sub := range submodules {
			if strings.HasPrefix(x.name, sub+"/") {
				f.skip(x.name, "it lies in the submodule "+sub)
				return true
			}
		}
		return ignored[x.name]
	})
	return nil
}

// readableIgnores refuses a tree in which git would wait for a .gitignore.
func (c *Clone) readableIgnores(f *findings) error {
	for _, n := range f.notices {
		if strings.Contains(n, ".gitignore\" was not brought back: it is neither") {
			return fmt.Errorf("%s", n)
		}
	}
	return nil
}

func (c *Clone) submodules(ctx context.Context) ([]string, error) {
	out, err := c.store.git(ctx, nil, "ls-tree", "-r", "-z", c.start)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, line := range fields(out) {
		if name, found := strings.CutPrefix(line, "160000 "); found {
			_, name, _ = strings.Cut(name, "\t")
			list = append(list, name)
		}
	}
	return list, nil
}

// snapshot is the clone's tree at one time, as a commit in the store.
type snapshot struct {
	commit, tree string
	notices      []string
}

// snapshot commits what the clone's tree is now on top of parent. Git never
// looks at the clone itself for it: nothing in it is obeyed.
func (c *Clone) snapshot(ctx context.Context, parent, message string) (snapshot, error) {
	f, err := c.look(ctx)
	if err != nil {
		return snapshot{}, err
	}
	snap := snapshot{c.start, c.tree, f.notices}
	if len(f.changed) == 0 && len(f.gone) == 0 && parent == c.start {
		return snap, nil
	}
	root, err := os.OpenRoot(c.treeDir())
	if err != nil {
		return snap, err
	}
	defer root.Close()
	ref := "refs/herd/" + c.slug + "/tree"
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := c.store.git(ctx, in, "fast-import", "--quiet", "--force", "--done")
		in.CloseWithError(io.ErrClosedPipe)
		done <- err
	}()
	err = c.stream(out, root, ref, parent, message, f)
	out.CloseWithError(err)
	if gitErr := <-done; gitErr != nil && (err == nil || err == io.ErrClosedPipe) {
		err = gitErr
	}
	if err != nil {
		return snap, err
	}
	ids, err := c.store.line(ctx, "rev-parse", ref, ref+"^{tree}")
	if err != nil {
		return snap, err
	}
	snap.commit, snap.tree, _ = strings.Cut(ids, "\n")
	return snap, nil
}

// stream writes the findings in the form of git fast-import.
func (c *Clone) stream(out io.Writer, root *os.Root, ref, parent, message string, f findings) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "commit %s\ncommitter herd-runner <herd-runner@localhost> %d +0000\ndata %d\n%s\nfrom %s\n",
		ref, c.w.now().Unix(), len(message), message, parent)
	fmt.Fprintf(&b, "M 040000 %s \"\"\n", c.tree)
	for _, name := range f.gone {
		fmt.Fprintf(&b, "D %s\n", quoted(name))
	}
	if _, err := out.Write(b.Bytes()); err != nil {
		return err
	}
	for _, x := range f.changed {
		if err := streamFile(out, root, x); err != nil {
			return err
		}
	}
	_, err := io.WriteString(out, "\ndone\n")
	return err
}

func streamFile(out io.Writer, root *os.Root, x finding) error {
	if x.mode&fs.ModeSymlink != 0 {
		_, err := fmt.Fprintf(out, "M 120000 inline %s\ndata %d\n%s\n", quoted(x.name), len(x.link), x.link)
		return err
	}
	mode := "100644"
	if x.mode.Perm()&0o100 != 0 {
		mode = "100755"
	}
	content, err := readRegular(root, x.name, maxFile)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "M %s inline %s\ndata %d\n", mode, quoted(x.name), len(content)); err != nil {
		return err
	}
	if _, err := out.Write(content); err != nil {
		return err
	}
	_, err = io.WriteString(out, "\n")
	return err
}

// readRegular reads a file that must be a regular one of at most limit bytes;
// what else stands there by now is neither opened for long nor followed.
func readRegular(root *os.Root, name string, limit int64) ([]byte, error) {
	dir, err := root.OpenRoot(path.Dir(name))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.OpenFile(path.Base(name), os.O_RDONLY|openPlain, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is no regular file any more", name)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%q has grown beyond %d bytes", name, limit)
	}
	return b, err
}

// quoted writes a path as fast-import reads it.
func quoted(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch ch := name[i]; {
		case ch == '"' || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch < ' ' || ch == 0x7f:
			fmt.Fprintf(&b, `\%03o`, ch)
		default:
			b.WriteByte(ch)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Mark names what the clone's tree is now, for Since; empty where the clone is
// thrown away.
func (c *Clone) Mark(ctx context.Context) (string, error) {
	if c.store == nil {
		return "", nil
	}
	snap, err := c.snapshot(ctx, c.start, c.name)
	return snap.tree, err
}

// Since tells what was changed in the clone since a mark.
func (c *Clone) Since(ctx context.Context, mark string) (Work, error) {
	w := Work{Name: c.name}
	if c.store == nil {
		return w, nil
	}
	snap, err := c.snapshot(ctx, c.start, c.name)
	if err != nil {
		return w, err
	}
	w.Notices = snap.notices
	return w, c.store.describe(ctx, &w, mark, snap.tree)
}

// describe fills in how two trees or commits differ.
func (s *store) describe(ctx context.Context, w *Work, from, to string) error {
	out, err := s.git(ctx, nil, "diff-tree", "-r", "-z", "--no-renames", "--name-only", from, to)
	if err != nil {
		return err
	}
	w.Changed = fields(out)
	sort.Strings(w.Changed)
	if len(w.Changed) == 0 {
		return nil
	}
	patch, err := s.git(ctx, nil, "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", from, to)
	if err != nil {
		return err
	}
	if len(patch) <= MaxPatch {
		w.Patch = string(patch)
	} else {
		w.Notices = append(w.Notices, "the patch of "+w.Name+" is larger than "+strconv.Itoa(MaxPatch>>20)+" MiB: look at its branch")
	}
	return nil
}
