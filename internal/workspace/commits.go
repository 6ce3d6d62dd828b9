package workspace

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Bounds of the commits that come out of a clone.
const (
	maxBundle  = 512 << 20 // bytes
	maxCommits = 10_000
)

// BundleCommand makes the bundle of a clone's commits; it is run where the
// clone's steps run, for git obeys what they wrote into .git.
type BundleCommand func(ctx context.Context, argv []string, stdout io.Writer) error

// Finish brings the work of an isolated clone to the person's repository, as a
// branch that nobody has checked out: the commits that were made in it where
// they pass every check, and what is not committed on top of them. What is
// judged is what lies there, not what anybody says of it.
func (c *Clone) Finish(ctx context.Context, bundle BundleCommand) (Work, error) {
	work := Work{Name: c.name}
	if c.store == nil {
		return work, nil
	}
	head, err := c.commits(ctx, bundle)
	if err != nil {
		var refused *refusal
		if !errors.As(err, &refused) {
			return work, err
		}
		head = c.start
		work.Notices = append(work.Notices, "the commits of "+c.name+" were not brought back, its files are: "+refused.why)
	}
	snap, err := c.snapshot(ctx, head, c.message())
	if err != nil {
		return work, err
	}
	work.Notices = append(work.Notices, snap.notices...)
	final := head
	if tree, err := c.store.line(ctx, "rev-parse", head+"^{tree}"); err != nil {
		return work, err
	} else if tree != snap.tree {
		final = snap.commit
	}
	if final == c.base {
		return work, nil
	}
	if err := c.store.describe(ctx, &work, c.base, final); err != nil {
		return work, err
	}
	work.Commit, work.Branch = final, c.branch()
	return work, c.store.publish(ctx, final, work.Branch, c.slug)
}

func (c *Clone) message() string {
	return "Work of " + strings.Map(printable, c.name) + "\n\nRun: " + filepath.Base(c.w.runDir) + "\n"
}

func printable(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// refusal says why commits stay where they are.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// commits gives the last commit that was made in the clone, once it is in the
// store and has been checked; the start where there is none.
func (c *Clone) commits(ctx context.Context, bundle BundleCommand) (string, error) {
	if c.head() == c.start {
		return c.start, nil
	}
	file := filepath.Join(c.store.dir, "scratch", c.slug+".bundle")
	defer os.Remove(file)
	if err := c.writeBundle(ctx, file, bundle); err != nil {
		return "", err
	}
	claimed, pack, err := bundleHead(file)
	if err != nil {
		return "", err
	}
	if claimed == "" || claimed == c.start {
		return c.start, nil
	}
	if err := c.store.unbundle(ctx, file, pack); err != nil {
		if exitCode(err) > 0 {
			return "", refuse("%v", err)
		}
		return "", err
	}
	head, err := c.store.line(ctx, "rev-parse", "--verify", "-q", claimed+"^{commit}")
	if err != nil {
		return "", refuse("HEAD is no commit: %v", err)
	}
	return head, c.checkCommits(ctx, head)
}

// head is the commit that the clone's HEAD names, as far as it can be read
// without git; empty where that is not plain.
func (c *Clone) head() string {
	root, err := os.OpenRoot(c.gitDir())
	if err != nil {
		return ""
	}
	defer root.Close()
	read := func(name string, limit int64) string {
		b, err := readRegular(root, name, limit)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	head := read("HEAD", 4096)
	ref, symbolic := strings.CutPrefix(head, "ref: ")
	if !symbolic {
		return head
	}
	if !filepath.IsLocal(ref) {
		return ""
	}
	if id := read(ref, 4096); id != "" {
		return id
	}
	for line := range strings.Lines(read("packed-refs", 64<<20)) {
		if id, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref {
			return id
		}
	}
	return ""
}

func (c *Clone) writeBundle(ctx context.Context, file string, bundle BundleCommand) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	out := &limited{w: f, left: maxBundle}
	argv := []string{"git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "bundle", "create", "--quiet", "-", "HEAD", "^" + c.start}
	err = bundle(ctx, argv, out)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	switch {
	case out.left < 0:
		return refuse("they are larger than %d MiB", maxBundle>>20)
	case err != nil:
		return refuse("git bundle: %v", err)
	}
	return nil
}

// limited passes on what fits and takes the rest.
type limited struct {
	w    io.Writer
	left int64 // negative: there was more
}

func (l *limited) Write(p []byte) (int, error) {
	n := len(p)
	if l.left < int64(n) {
		l.left = -1
		return n, nil
	}
	l.left -= int64(n)
	_, err := l.w.Write(p)
	return n, err
}

// bundleHead reads the head of a bundle, which must hold HEAD and nothing else,
// and says at which byte its objects begin.
func bundleHead(file string) (head string, pack int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	in := bufio.NewReader(io.LimitReader(f, 1<<20))
	line := func() string {
		s, err := in.ReadString('\n')
		if err != nil {
			return "\x00"
		}
		pack += int64(len(s))
		return strings.TrimSuffix(s, "\n")
	}
	first := line()
	if first != "# v2 git bundle" && first != "# v3 git bundle" {
		return "", 0, refuse("what git made of them is no bundle")
	}
	for {
		l := line()
		switch {
		case l == "":
			if head == "" {
				return "", 0, refuse("the bundle has no HEAD")
			}
			return head, pack, nil
		case strings.HasPrefix(l, "@"):
			if !strings.HasPrefix(l, "@object-format=") {
				return "", 0, refuse("the bundle asks for %.40q", l)
			}
		case strings.HasPrefix(l, "-"):
		default:
			id, name, _ := strings.Cut(l, " ")
			if _, err := hex.DecodeString(id); err != nil || name != "HEAD" || head != "" {
				return "", 0, refuse("the bundle holds %.80q beside HEAD", l)
			}
			head = id
		}
	}
}

// unbundle takes the objects of a bundle, which begin at byte pack, into the
// store. Git checks each of them, and that what they name is there.
func (s *store) unbundle(ctx context.Context, file string, pack int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(pack, io.SeekStart); err != nil {
		return err
	}
	_, err = s.git(ctx, f, "index-pack", "--strict", "--fix-thin", "--stdin")
	return err
}

// checkCommits looks at every change of every commit since the start.
func (c *Clone) checkCommits(ctx context.Context, head string) error {
	s := c.store
	list, err := s.git(ctx, nil, "rev-list", "--max-count="+strconv.Itoa(maxCommits+1), head, "^"+c.start)
	if err != nil {
		return err
	}
	if n := strings.Count(string(list), "\n"); n > maxCommits {
		return refuse("they are more than %d", maxCommits)
	}
	out, err := s.git(ctx, strings.NewReader(string(list)), "diff-tree", "--stdin", "-r", "-m", "--root", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-commit-id")
	if err != nil {
		return err
	}
	records := fields(out)
	var blobs, links []string
	for i := 0; i+1 < len(records); i += 2 {
		meta, name := strings.Fields(records[i]), records[i+1]
		if len(meta) != 5 {
			return fmt.Errorf("git diff-tree: cannot read %.80q", records[i])
		}
		mode, id := meta[1], meta[3]
		if mode == "000000" {
			continue
		}
		why := unfit(name)
		switch mode {
		case "100644", "100755", "100664":
			blobs = append(blobs, id)
		case "120000":
			blobs, links = append(blobs, id), append(links, id+" "+name)
		case "160000":
			why = "submodules are not brought back"
		default:
			why = "its mode is " + mode
		}
		if why != "" {
			return refuse("%q: %s", name, why)
		}
	}
	if err := s.checkSizes(ctx, blobs); err != nil {
		return err
	}
	if err := s.checkLinks(ctx, links); err != nil {
		return err
	}
	return c.checkTwins(ctx, head)
}

func (s *store) checkSizes(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	out, err := s.git(ctx, strings.NewReader(strings.Join(ids, "\n")+"\n"), "cat-file", "--batch-check=%(objecttype) %(objectsize)")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		size, isBlob := strings.CutPrefix(strings.TrimSpace(line), "blob ")
		n, err := strconv.ParseInt(size, 10, 64)
		if !isBlob || err != nil || n > maxFile {
			return refuse("a file in them is larger than %d MiB, or no file", maxFile>>20)
		}
	}
	return nil
}

// checkLinks takes symbolic links as "id name".
func (s *store) checkLinks(ctx context.Context, links []string) error {
	slices.Sort(links)
	links = slices.Compact(links)
	if len(links) > 1000 {
		return refuse("they hold more than 1000 symbolic links")
	}
	for _, l := range links {
		id, name, _ := strings.Cut(l, " ")
		target, err := s.git(ctx, nil, "cat-file", "blob", id)
		if err != nil {
			return err
		}
		if why := unfitLink(name, string(target)); why != "" {
			return refuse("%q: %s", name, why)
		}
	}
	return nil
}

// checkTwins refuses a last commit in which names fall together that did not
// before.
func (c *Clone) checkTwins(ctx context.Context, head string) error {
	known, err := c.store.twinsOf(ctx, c.start)
	if err != nil {
		return err
	}
	found, err := c.store.twinsOf(ctx, head)
	if err != nil {
		return err
	}
	for _, fold := range slices.Sorted(maps.Keys(found)) {
		if _, before := known[fold]; !before {
			return refuse("%q: some file systems take it for %q", found[fold][0], found[fold][1])
		}
	}
	return nil
}

// twinsOf gives the pairs of names in a commit that fall together, by what they
// fall to.
func (s *store) twinsOf(ctx context.Context, commit string) (map[string][2]string, error) {
	out, err := s.git(ctx, nil, "ls-tree", "-r", "-z", "--name-only", commit)
	if err != nil {
		return nil, err
	}
	pairs := map[string][2]string{}
	var names twins
	for _, name := range fields(out) {
		if other := names.add(name); other != "" {
			pairs[strings.ToLower(other)] = [2]string{name, other}
		}
	}
	return pairs, nil
}

// publish makes a branch of a commit in the person's repository. The work tree,
// the index and the branch that is checked out are not touched.
func (s *store) publish(ctx context.Context, commit, branch, slug string) error {
	ref := "refs/herd/" + slug + "/result"
	if _, err := s.git(ctx, nil, "update-ref", ref, commit); err != nil {
		return err
	}
	p := s.project
	p.workTree = ""
	_, err := p.git(ctx, nil, "-c", "fetch.fsckObjects=true", "-c", "fetch.writeCommitGraph=false", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head",
		"--no-auto-maintenance", "--no-recurse-submodules", "--update-shallow", "--no-prune", s.dir, ref+":refs/heads/"+branch)
	if err != nil {
		return fmt.Errorf("make branch %s: %w", branch, err)
	}
	return s.handOver()
}
