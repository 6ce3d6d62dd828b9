package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// store is the run's own repository, in which everything about isolated
// workspaces is done: no step can write to it, and of the person's repository
// it only borrows objects. Safe for concurrent use.
type store struct {
	repository
	project repository          // the person's own, with the work tree that steps share
	common  string              // its common directory
	owner   *syscall.Credential // of the project, where that is not the user running us
	made    time.Time
	lenders []string // object directories that it borrows from, on this machine
}

// openStore makes the store at dir.
func (w *Workspace) openStore(dir string) (*store, error) {
	gitdir, err := gitDir(w.project)
	if err != nil {
		return nil, err
	}
	if gitdir == "" {
		return nil, notARepository(w.project)
	}
	s := &store{common: commonDir(gitdir), owner: w.otherOwner(), made: time.Now().Add(-time.Second)}
	s.lenders = objectStores(filepath.Join(s.common, "objects"))
	s.repository = repository{dir: dir, as: w.gitUser()}
	s.project = repository{dir: gitdir, workTree: w.root, persons: true, as: w.gitUser()}
	for _, d := range []string{"objects/info", "objects/pack", "refs/herd", "info", "scratch"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	files := map[string]string{
		"HEAD":                    "ref: refs/heads/none\n",
		"config":                  objectConfig(s.common) + "[core]\n\tbare = true\n\tbigFileThreshold = 16m\n[pack]\n\tthreads = 1\n[fetch]\n\tunpackLimit = 1\n\tfsckObjects = true\n",
		"objects/info/alternates": strings.Join(s.lenders, "\n") + "\n",
	}
	for _, name := range []string{"shallow", "info/exclude"} {
		b, err := os.ReadFile(filepath.Join(s.common, name))
		if err == nil {
			files[name] = string(b)
		} else if !os.IsNotExist(err) {
			return nil, err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return nil, err
		}
	}
	return s, w.giveTo(dir, s.as)
}

// notARepository refuses isolated workspaces in a project without git.
func notARepository(project string) error {
	return fmt.Errorf("workspace isolated needs a git repository, and %s is none: run `git init` there, or say `workspace: copy`", project)
}

// CanIsolate says why a project cannot have isolated workspaces.
func CanIsolate(project string) error {
	project, err := filepath.EvalSymlinks(project)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	dir, err := gitDir(project)
	switch {
	case err != nil:
		return fmt.Errorf("workspace: %w", err)
	case dir == "":
		return notARepository(project)
	}
	if _, err := exec.LookPath("git"); err != nil {
		return errors.New("workspace isolated needs the program git on this machine: install it, or say `workspace: copy`")
	}
	return nil
}

// gitUser is whom git runs as, so that what it writes into the project belongs
// to the project's owner; nil: the user running us.
func (w *Workspace) gitUser() *syscall.Credential {
	if user := w.otherOwner(); user != nil && reaches(user, w.project) {
		return user
	}
	return nil
}

// otherOwner is the project's owner where that is not the user running us.
func (w *Workspace) otherOwner() *syscall.Credential {
	uid, gid, err := Owner(w.project)
	if err != nil || os.Getuid() != 0 || uid == 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// handOver gives the project's owner what git, run by root, has just made in
// the project's repository.
func (s *store) handOver() error {
	if s.owner == nil || s.as != nil {
		return nil
	}
	for _, d := range []string{"objects", "refs/heads/herd", "logs/refs/heads/herd"} {
		err := filepath.WalkDir(filepath.Join(s.common, d), func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if sys, ok := info.Sys().(*syscall.Stat_t); ok && sys.Uid == 0 && changeTime(info) >= s.made.UnixNano() {
				return os.Lchown(name, int(s.owner.Uid), int(s.owner.Gid))
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// reaches says whether the user may go through every directory above dir.
func reaches(user *syscall.Credential, dir string) bool {
	for d := filepath.Dir(dir); ; d = filepath.Dir(d) {
		st, err := os.Stat(d)
		if err != nil {
			return true // git tells
		}
		bit := fs.FileMode(0o001)
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Uid == user.Uid {
			bit = 0o100
		} else if ok && sys.Gid == user.Gid {
			bit = 0o010
		}
		if st.Mode()&bit == 0 {
			return false
		}
		if d == filepath.Dir(d) {
			return true
		}
	}
}

// giveTo makes everything below dir the user's.
func (w *Workspace) giveTo(dir string, user *syscall.Credential) error {
	if user == nil {
		return nil
	}
	return chownTree(dir, int(user.Uid), int(user.Gid))
}

// base is the commit that isolated workspaces begin with, and the one it stands
// on where the project has uncommitted changes.
type base struct{ commit, head string }

// base makes a commit of the project as it is now: the last commit, and on top
// of it what is not committed, ignored files left out. The same state always
// gives the same commit.
func (s *store) base(ctx context.Context, scratch string) (base, error) {
	head, tree, date := "", "", "0"
	out, err := s.project.line(ctx, "rev-list", "--max-count=1", "--format=%T%n%ct", "HEAD", "--")
	if err == nil {
		if lines := strings.Split(out, "\n"); len(lines) == 3 {
			head, tree, date = strings.TrimPrefix(lines[0], "commit "), lines[1], lines[2]
		}
	} else if _, unborn := s.project.line(ctx, "rev-parse", "-q", "--verify", "HEAD"); exitCode(unborn) != 1 {
		return base{}, err
	}
	now, err := s.worktreeTree(ctx, scratch)
	if err != nil {
		return base{}, err
	}
	if now == tree {
		return base{head, head}, nil
	}
	at := s.repository
	at.env = []string{"GIT_AUTHOR_DATE=@" + date + " +0000", "GIT_COMMITTER_DATE=@" + date + " +0000"}
	args := []string{"commit-tree", "-m", "Uncommitted changes of the project", now}
	if head != "" {
		args = append(args, "-p", head)
	}
	commit, err := at.line(ctx, args...)
	return base{commit, head}, err
}

// worktreeTree writes the project's files, but for ignored ones, as a tree. The
// person's index is read, never written.
func (s *store) worktreeTree(ctx context.Context, scratch string) (string, error) {
	p := s.project
	p.index = scratch
	index, err := os.ReadFile(filepath.Join(p.dir, "index"))
	switch {
	case err == nil:
		if err := os.WriteFile(scratch, index, 0o644); err != nil {
			return "", err
		}
		if p.as != nil {
			if err := os.Lchown(scratch, int(p.as.Uid), int(p.as.Gid)); err != nil {
				return "", err
			}
		}
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	defer os.Remove(scratch)
	// What the clone of root's project has in common with the project is size
	// and time alone.
	p.env = []string{"GIT_OBJECT_DIRECTORY=" + filepath.Join(s.dir, "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quotedList(s.lenders)}
	stat := []string{"-c", "core.checkStat=minimal", "-c", "core.trustctime=false"}
	out, err := p.git(ctx, nil, append(stat, "ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard")...)
	if err != nil {
		return "", err
	}
	var changed strings.Builder
	for _, name := range fields(out) {
		if strings.HasSuffix(name, "/") || unfit(name) != "" && folded(name) != ".gitmodules" {
			continue // a nested repository, or not the project's
		}
		changed.WriteString(name + "\x00")
	}
	if changed.Len() > 0 {
		if _, err := p.git(ctx, strings.NewReader(changed.String()), append(stat, "update-index", "-z", "--add", "--remove", "--replace", "--stdin")...); err != nil {
			return "", err
		}
	}
	tree, err := p.line(ctx, "write-tree")
	if err != nil {
		return "", fmt.Errorf("the project's index: %w", err)
	}
	return tree, nil
}

// quotedList joins paths as git's environment variables have them.
func quotedList(paths []string) string {
	quoted := make([]string, len(paths))
	for i, p := range paths {
		quoted[i] = p
		if strings.ContainsAny(p, `:"\`) {
			quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(p) + `"`
		}
	}
	return strings.Join(quoted, ":")
}
