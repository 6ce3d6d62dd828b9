package github

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// fileMax bounds what is read of one of git's files, in bytes; packed-refs is
// read line by line and has no bound.
const fileMax = 1 << 20

// Checkout is what git says of a directory. The zero Checkout is a directory
// that is no checkout.
type Checkout struct {
	Root   string // absolute, of the work tree
	SHA    string // of HEAD; empty before the first commit
	Ref    string // "refs/heads/main", or a tag of a detached HEAD; may be empty
	Remote string // URL of origin, or of the first remote; may hold credentials
}

// ReadCheckout reads the checkout that dir lies in. That dir lies in none is no
// error. What it can not make out (refs in reftable format) stays empty.
func ReadCheckout(dir string) (Checkout, error) {
	root, gitDir, err := findGit(dir)
	if err != nil || gitDir == "" {
		return Checkout{}, err
	}
	g := repository{dir: gitDir, common: gitDir}
	common, err := readFile(filepath.Join(gitDir, "commondir"))
	switch {
	case err == nil:
		g.common = under(gitDir, strings.TrimSpace(common))
	case !errors.Is(err, fs.ErrNotExist):
		return Checkout{}, fmt.Errorf("read the git checkout: %w", err)
	}
	c := Checkout{Root: root}
	if c.Ref, c.SHA, err = g.head(); err != nil {
		return Checkout{}, fmt.Errorf("read the git checkout: %w", err)
	}
	config, err := readFile(filepath.Join(g.common, "config"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Checkout{}, fmt.Errorf("read the git checkout: %w", err)
	}
	c.Remote = remoteURL(config)
	return c, nil
}

// findGit looks for .git in dir and above.
func findGit(dir string) (root, gitDir string, err error) {
	root, err = filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	for {
		path := filepath.Join(root, ".git")
		info, err := os.Stat(path)
		switch {
		case err == nil && info.IsDir():
			return root, path, nil
		case err == nil:
			text, err := readFile(path)
			if err != nil {
				return "", "", fmt.Errorf("read the git checkout: %w", err)
			}
			to, ok := strings.CutPrefix(strings.TrimSpace(text), "gitdir:")
			if !ok {
				return "", "", fmt.Errorf("read the git checkout: %s is neither a directory nor a link to one", path)
			}
			return root, under(root, strings.TrimSpace(to)), nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", fmt.Errorf("read the git checkout: %w", err)
		}
		up := filepath.Dir(root)
		if up == root {
			return "", "", nil
		}
		root = up
	}
}

func under(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// openFile opens a regular file; a FIFO in its place does not make it wait.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%s is no regular file", path), err, f.Close())
	}
	return f, nil
}

func readFile(path string) (string, error) {
	f, err := openFile(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, fileMax+1))
	if err == nil && len(b) > fileMax {
		err = fmt.Errorf("%s is larger than %d bytes", path, fileMax)
	}
	return string(b), err
}

// repository is a git directory; refs of all worktrees lie in common.
type repository struct{ dir, common string }

var objectID = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

func (g repository) head() (ref, sha string, err error) {
	text, err := readFile(filepath.Join(g.dir, "HEAD"))
	if err != nil {
		return "", "", err
	}
	text = strings.TrimSpace(text)
	if objectID.MatchString(text) {
		ref, err = g.tagOf(text)
		return ref, text, err
	}
	ref, ok := strings.CutPrefix(text, "ref:")
	if ref = strings.TrimSpace(ref); !ok || !safeRef(ref) {
		return "", "", errors.New("HEAD is neither a commit nor a branch")
	}
	if ref == "refs/heads/.invalid" { // what HEAD says where refs are a reftable
		return "", "", nil
	}
	sha, err = g.resolve(ref)
	return ref, sha, err
}

// safeRef says whether ref can be joined to a directory.
func safeRef(ref string) bool {
	return strings.HasPrefix(ref, "refs/") && filepath.IsLocal(ref) && !strings.ContainsAny(ref, "\x00\\\n")
}

// resolve gives the object of a ref; empty where it does not exist yet.
func (g repository) resolve(ref string) (string, error) {
	for range 5 {
		text, err := readFile(filepath.Join(g.common, filepath.FromSlash(ref)))
		if errors.Is(err, fs.ErrNotExist) {
			return g.packed(func(name, _ string) bool { return name == ref })
		}
		if err != nil {
			return "", err
		}
		text = strings.TrimSpace(text)
		if objectID.MatchString(text) {
			return text, nil
		}
		next, ok := strings.CutPrefix(text, "ref:")
		if next = strings.TrimSpace(next); !ok || !safeRef(next) {
			return "", fmt.Errorf("%s is neither a commit nor a branch", ref)
		}
		ref = next
	}
	return "", fmt.Errorf("%s: too many refs that point to refs", ref)
}

// packed looks through packed-refs and gives the object of the first ref that
// match takes.
func (g repository) packed(match func(name, sha string) bool) (string, error) {
	f, err := openFile(filepath.Join(g.common, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	last := ""
	for lines.Scan() {
		line := lines.Bytes()
		if peeled, ok := bytes.CutPrefix(line, []byte("^")); ok {
			if match(last, string(peeled)) {
				return string(peeled), nil
			}
			continue
		}
		sha, name, ok := strings.Cut(string(line), " ")
		if !ok || !objectID.MatchString(sha) {
			continue
		}
		last = name
		if match(name, sha) {
			return sha, nil
		}
	}
	return "", lines.Err()
}

// tagOf gives the tag that a detached HEAD stands on. An annotated tag is found
// only when it is packed: else its commit is inside an object.
func (g repository) tagOf(sha string) (string, error) {
	found := ""
	dir := filepath.Join(g.common, "refs", "tags")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := readFile(path)
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == sha {
			name, err := filepath.Rel(g.common, path)
			if err != nil {
				return err
			}
			found = filepath.ToSlash(name)
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) || found != "" {
		return found, err
	}
	_, err = g.packed(func(name, at string) bool {
		if at == sha && strings.HasPrefix(name, "refs/tags/") {
			found = name
		}
		return found != ""
	})
	return found, err
}

var section = regexp.MustCompile(`^\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\](.*)$`)

// remoteURL reads the url of origin, else of the first remote, from a git
// configuration.
func remoteURL(config string) string {
	urls := map[string]string{}
	var order []string
	remote := ""
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if m := section.FindStringSubmatch(line); m != nil {
			remote = ""
			if strings.EqualFold(m[1], "remote") {
				remote = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(m[2])
			}
			line = strings.TrimSpace(m[3])
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || remote == "" || !strings.EqualFold(strings.TrimSpace(key), "url") || urls[remote] != "" {
			continue
		}
		urls[remote] = configValue(value)
		order = append(order, remote)
	}
	if slices.Contains(order, "origin") {
		return urls["origin"]
	}
	if len(order) > 0 {
		return urls[order[0]]
	}
	return ""
}

// configValue takes quotes, escapes and comments off a value.
func configValue(s string) string {
	var b strings.Builder
	quoted := false
	s = strings.TrimSpace(s)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == '"':
			quoted = !quoted
		case (c == '#' || c == ';') && !quoted:
			return strings.TrimSpace(b.String())
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimSpace(b.String())
}
