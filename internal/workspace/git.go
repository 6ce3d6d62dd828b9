package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/herd-runner/herd-runner/sandbox"
)

// privateGit makes the repository that boxes see at .git: refs, HEAD and index
// are copies, objects are borrowed from a read-only mount of the real ones,
// hooks and config are its own. No file of the real .git can be written from a
// box. Where the project is no repository it is an empty directory: a repository
// that a step makes there would otherwise run its hooks and configuration on
// this machine at the person's next git command.
func (w *Workspace) privateGit() ([]sandbox.Mount, error) {
	dir, err := gitDir(w.project)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		private := filepath.Join(w.runDir, "git")
		return []sandbox.Mount{{Source: private, Target: BoxDir + "/.git"}}, w.makeDirs(private)
	}
	common := commonDir(dir)
	private := filepath.Join(w.runDir, "git")
	stores := objectStores(filepath.Join(common, "objects"))
	if err := fillGit(private, dir, common); err != nil {
		return nil, err
	}
	if err := writeAlternates(private, inBox(stores)); err != nil {
		return nil, err
	}
	mounts, err := w.lend(stores)
	if err != nil {
		return nil, err
	}
	if err := w.giveTree(private); err != nil {
		return nil, err
	}
	if isDir(filepath.Join(w.root, ".git")) {
		return append(mounts, sandbox.Mount{Source: private, Target: BoxDir + "/.git"}), nil
	}
	// The .git of a worktree or clone is a file: one of our own takes its place.
	pointer := filepath.Join(w.runDir, "git", "herd-gitfile")
	if err := os.WriteFile(pointer, []byte("gitdir: "+boxGit+"\n"), 0o644); err != nil {
		return nil, err
	}
	return append(mounts,
		sandbox.Mount{Source: private, Target: boxGit},
		sandbox.Mount{Source: pointer, Target: BoxDir + "/.git", ReadOnly: true}), nil
}

// gitDir finds the repository of a directory; empty where it is none.
func gitDir(dir string) (string, error) {
	name := filepath.Join(dir, ".git")
	st, err := os.Lstat(name)
	switch {
	case os.IsNotExist(err):
		return "", nil
	case err != nil:
		return "", err
	case st.Mode().IsRegular():
		return readGitFile(name)
	}
	if _, err := os.Stat(filepath.Join(name, "HEAD")); os.IsNotExist(err) {
		return "", nil // no repository: a mountpoint that a killed run has left
	}
	return name, nil
}

// gitMountpoint makes the directory over which boxes get their own .git, where
// the root has none.
func (w *Workspace) gitMountpoint() error {
	name := filepath.Join(w.root, ".git")
	err := os.Mkdir(name, 0o755)
	if os.IsExist(err) {
		dir, err := gitDir(w.root)
		w.madeGit = dir == "" && isDir(name)
		return err
	}
	w.madeGit = err == nil
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	if os.Getuid() == 0 {
		return os.Lchown(name, w.uid, w.gid)
	}
	return nil
}

// commonDir is where the refs and objects of a repository are; of a linked
// worktree they are the main one's.
func commonDir(gitDir string) string {
	b, err := os.ReadFile(filepath.Join(gitDir, "commondir"))
	if err != nil {
		return gitDir
	}
	return resolve(gitDir, strings.TrimSpace(string(b)))
}

func readGitFile(name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	dir, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%s is not a gitdir file", name)
	}
	return resolve(filepath.Dir(name), dir), nil
}

func resolve(base, p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(base, p)
}

// fillGit writes a private repository with the refs, HEAD and index of the real
// one, and a configuration of its own.
func fillGit(private, gitDir, common string) error {
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "hooks", "info"} {
		if err := os.MkdirAll(filepath.Join(private, d), 0o755); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(private, "config"), []byte(privateConfig(common)), 0o644); err != nil {
		return err
	}
	// Before packed-refs, as git reads them: a ref that is packed meanwhile is in one
	// of the two.
	if err := copyRefs(filepath.Join(common, "refs"), filepath.Join(private, "refs")); err != nil {
		return err
	}
	for _, f := range []struct{ from, name string }{{gitDir, "HEAD"}, {gitDir, "index"}, {common, "packed-refs"}, {common, "shallow"}, {common, "info/exclude"}} {
		b, err := os.ReadFile(filepath.Join(f.from, f.name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(private, f.name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// lend gives the read-only mounts through which a box borrows from object
// stores. Where a store borrows itself, what it says of that is for this machine.
func (w *Workspace) lend(stores []string) ([]sandbox.Mount, error) {
	var mounts []sandbox.Mount
	for i, target := range inBox(stores) {
		mounts = append(mounts, sandbox.Mount{Source: stores[i], Target: target, ReadOnly: true})
		if _, err := os.Stat(filepath.Join(stores[i], alternates)); err != nil {
			continue
		}
		empty := filepath.Join(w.runDir, "boxes", "no-alternates")
		if err := w.makeDirs(filepath.Dir(empty)); err != nil {
			return nil, err
		}
		if err := os.WriteFile(empty, nil, 0o644); err != nil {
			return nil, err
		}
		mounts = append(mounts, sandbox.Mount{Source: empty, Target: target + "/" + alternates, ReadOnly: true})
	}
	return mounts, nil
}

// inBox is where boxes see object stores.
func inBox(stores []string) []string {
	list := make([]string, len(stores))
	for i := range stores {
		list[i] = boxObjects
		if i > 0 {
			list[i] += "-" + strconv.Itoa(i)
		}
	}
	return list
}

// alternates is the file in an object store that names those it borrows from.
const alternates = "info/alternates"

func writeAlternates(private string, stores []string) error {
	return os.WriteFile(filepath.Join(private, "objects", alternates), []byte(strings.Join(stores, "\n")+"\n"), 0o644)
}

// objectStores are the object directories of a repository: its own and, where
// it borrows, those of others.
func objectStores(objects string) []string {
	stores := []string{objects}
	for i := 0; i < len(stores) && len(stores) < 16; i++ {
		b, err := os.ReadFile(filepath.Join(stores[i], alternates))
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(b), "\n") {
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if dir := resolve(stores[i], line); isDir(dir) {
				stores = append(stores, dir)
			}
		}
	}
	return stores
}

func isDir(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// objectConfig keeps what says how objects are stored and nothing else of the
// real configuration: the rest may name programs to run.
func objectConfig(common string) string {
	b, _ := os.ReadFile(filepath.Join(common, "config"))
	if strings.Contains(strings.ToLower(string(b)), "objectformat = sha256") {
		return "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
	}
	return "[core]\n\trepositoryformatversion = 0\n"
}

// privateConfig is the configuration of a box's repository.
func privateConfig(common string) string {
	return objectConfig(common) + "[core]\n\tbare = false\n\tlogallrefupdates = true\n\tfilemode = true\n" +
		"[user]\n\tname = herd-runner\n\temail = herd-runner@localhost\n"
}

// copyRefs copies refs while git may write some of them: what is about to be one is
// left out, and so is what is gone when it would be read.
func copyRefs(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(name, ".lock") {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case d.Type().IsRegular():
			b, err := os.ReadFile(name)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			return os.WriteFile(target, b, 0o644)
		}
		return nil
	})
}

// giveTree gives a directory of ours to the box's user.
func (w *Workspace) giveTree(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return chownTree(dir, w.uid, w.gid)
}

func chownTree(dir string, uid, gid int) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, uid, gid)
	})
}
