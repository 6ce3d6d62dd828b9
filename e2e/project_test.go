package e2e

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ordinaryUser owns the projects where the tests run as root: then boxes work
// in them in place.
const ordinaryUser = 1000

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// newProject makes a directory with files, of an ordinary user.
func newProject(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	giveToUser(t, dir)
	return dir
}

// newRepository is newProject with all files in the first commit.
func newRepository(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := newProject(t, files)
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "first")
	giveToUser(t, dir)
	return dir
}

func giveToUser(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	chownTree(t, dir, ordinaryUser)
}

// eachOwner runs a test for a project of an ordinary user, and for one of root
// where that can be had: the boxes of that one work on a copy.
func eachOwner(t *testing.T, test func(t *testing.T, owner int)) {
	t.Run("of an ordinary user", func(t *testing.T) { test(t, ordinaryUser) })
	if os.Getuid() == 0 {
		t.Run("of root", func(t *testing.T) { test(t, 0) })
	}
}

func chownTree(t *testing.T, dir string, id int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, id, id)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// git runs git in dir as the person would.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "safe.directory=*",
		"-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"}, args...)...)
	cmd.Dir = dir
	// The machine's own configuration plays no part.
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}
