package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// hashTimeout bounds one hashFiles, as GitHub's runner does.
const hashTimeout = 120 * time.Second

const followLinks = "--follow-symbolic-links"

// HashFiles is the hashFiles of the expressions: the SHA-256, in hex, over the
// SHA-256 digests of the regular files in workspace that the patterns match, in
// the order in which a walk from each pattern's root comes by them; "" when
// there is none. A pattern that begins with ! takes away what those before it
// matched, and one that matches a directory matches what is in it. The first
// pattern may be --follow-symbolic-links. Links that lead out of the workspace
// or nowhere are passed over.
func HashFiles(ctx context.Context, workspace string, patterns []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, hashTimeout)
	defer cancel()
	real, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return "", fmt.Errorf("hashFiles: %w", err)
	}
	if real, err = filepath.Abs(real); err != nil {
		return "", fmt.Errorf("hashFiles: %w", err)
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return "", fmt.Errorf("hashFiles: %w", err)
	}
	defer root.Close()
	w := hashWalk{root: root, real: real, sum: sha256.New()}
	if len(patterns) > 0 && strings.HasPrefix(patterns[0], "--") {
		if !strings.EqualFold(patterns[0], followLinks) {
			return "", fmt.Errorf("hashFiles: invalid option %q: expected %s", patterns[0], followLinks)
		}
		w.follow, patterns = true, patterns[1:]
	}
	if w.globs, err = parseGlobs(patterns, workspace, real); err != nil {
		return "", fmt.Errorf("hashFiles: %w", err)
	}
	for _, start := range w.globs.roots() {
		place, ok := w.inside(path.Dir(start))
		if !ok {
			continue
		}
		if err := w.visit(ctx, start, path.Join(place, path.Base(start)), nil); err != nil {
			return "", fmt.Errorf("hashFiles: %w", err)
		}
	}
	if w.count == 0 {
		return "", nil
	}
	return hex.EncodeToString(w.sum.Sum(nil)), nil
}

type hashWalk struct {
	root   *os.Root
	real   string
	globs  globs
	follow bool
	sum    hash.Hash
	count  int
}

// visit hashes what is called name, and below it. It lies at place: both are
// slash-separated paths in the workspace, and place has no links above its last
// element. chain are the places above it, to see a cycle of links.
func (w *hashWalk) visit(ctx context.Context, name, place string, chain []string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	matched := w.globs.match(name)
	if !matched && !w.globs.mayMatchBelow(name) {
		return nil
	}
	place, info, err := w.resolve(place)
	switch {
	case err != nil:
		return err
	case info == nil:
		return nil
	case info.IsDir():
		if slices.Contains(chain, place) {
			return nil
		}
		entries, err := fs.ReadDir(w.root.FS(), place)
		if err != nil {
			return err
		}
		for _, e := range entries { // sorted by name
			below := e.Name()
			if err := w.visit(ctx, path.Join(name, below), path.Join(place, below), append(chain, place)); err != nil {
				return err
			}
		}
		return nil
	case matched && info.Mode().IsRegular():
		return w.hash(ctx, place)
	}
	return nil
}

// resolve follows a link at place. info is nil where there is nothing to hash.
func (w *hashWalk) resolve(place string) (string, fs.FileInfo, error) {
	info, err := w.root.Lstat(place)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return place, info, err
	}
	target, ok := w.inside(place)
	if !ok {
		return "", nil, nil
	}
	info, err = w.root.Stat(target)
	if err != nil || info.IsDir() && !w.follow {
		return "", nil, nil
	}
	return target, info, nil
}

// inside gives the place in the workspace that name leads to without links; ok
// is false where it leads out of the workspace or nowhere.
func (w *hashWalk) inside(name string) (place string, ok bool) {
	target, err := filepath.EvalSymlinks(filepath.Join(w.real, filepath.FromSlash(name)))
	if err != nil {
		return "", false
	}
	place, err = filepath.Rel(w.real, target)
	return filepath.ToSlash(place), err == nil && filepath.IsLocal(place)
}

func (w *hashWalk) hash(ctx context.Context, place string) error {
	f, err := w.root.Open(place)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, &cancelReader{ctx, f}); err != nil {
		return err
	}
	w.sum.Write(sum.Sum(nil))
	w.count++
	return nil
}

// cancelReader ends a long copy when its context ends.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
