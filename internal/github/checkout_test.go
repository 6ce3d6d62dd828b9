package github

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func newRepo(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "remote", "add", "fork", "https://example.org/fork/x.git")
	git(t, dir, "remote", "add", "origin", "git@github.com:owner/repo.git")
	return dir
}

func commit(t *testing.T, dir string) string {
	t.Helper()
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
	return git(t, dir, "rev-parse", "HEAD")
}

// What is read from git's files is what git itself says.
func TestReadCheckout(t *testing.T) {
	const remote = "git@github.com:owner/repo.git"
	tests := []struct {
		name string
		make func(t *testing.T, dir string) (at string, want Checkout)
	}{
		{"before the first commit", func(t *testing.T, dir string) (string, Checkout) {
			return dir, Checkout{dir, "", "refs/heads/main", remote}
		}},
		{"a branch", func(t *testing.T, dir string) (string, Checkout) {
			sha := commit(t, dir)
			git(t, dir, "checkout", "-q", "-b", "feature/x")
			return dir, Checkout{dir, sha, "refs/heads/feature/x", remote}
		}},
		{"from a folder in it", func(t *testing.T, dir string) (string, Checkout) {
			sub := filepath.Join(dir, "a", "b")
			if err := os.MkdirAll(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			return sub, Checkout{dir, commit(t, dir), "refs/heads/main", remote}
		}},
		{"packed", func(t *testing.T, dir string) (string, Checkout) {
			sha := commit(t, dir)
			git(t, dir, "tag", "-a", "-m", "x", "v0")
			git(t, dir, "pack-refs", "--all")
			return dir, Checkout{dir, sha, "refs/heads/main", remote}
		}},
		{"packed, then moved on", func(t *testing.T, dir string) (string, Checkout) {
			commit(t, dir)
			git(t, dir, "pack-refs", "--all")
			git(t, dir, "commit", "-q", "--allow-empty", "-m", "second")
			return dir, Checkout{dir, git(t, dir, "rev-parse", "HEAD"), "refs/heads/main", remote}
		}},
		{"detached", func(t *testing.T, dir string) (string, Checkout) {
			sha := commit(t, dir)
			git(t, dir, "checkout", "-q", "--detach")
			return dir, Checkout{dir, sha, "", remote}
		}},
		{"detached at a tag", func(t *testing.T, dir string) (string, Checkout) {
			sha := commit(t, dir)
			git(t, dir, "tag", "rel/v1")
			git(t, dir, "checkout", "-q", "rel/v1")
			return dir, Checkout{dir, sha, "refs/tags/rel/v1", remote}
		}},
		{"detached at a packed, annotated tag", func(t *testing.T, dir string) (string, Checkout) {
			sha := commit(t, dir)
			git(t, dir, "tag", "-a", "-m", "x", "v1")
			git(t, dir, "pack-refs", "--all")
			git(t, dir, "checkout", "-q", "v1")
			return dir, Checkout{dir, sha, "refs/tags/v1", remote}
		}},
		{"a worktree", func(t *testing.T, dir string) (string, Checkout) {
			sha := commit(t, dir)
			tree := filepath.Join(filepath.Dir(dir), "tree")
			t.Cleanup(func() { os.RemoveAll(tree) })
			git(t, dir, "worktree", "add", "-q", "-b", "other", tree)
			return tree, Checkout{tree, sha, "refs/heads/other", remote}
		}},
		{"a branch that points to another", func(t *testing.T, dir string) (string, Checkout) {
			sha := commit(t, dir)
			git(t, dir, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
			git(t, dir, "symbolic-ref", "HEAD", "refs/heads/alias")
			return dir, Checkout{dir, sha, "refs/heads/alias", remote}
		}},
		{"no checkout", func(t *testing.T, dir string) (string, Checkout) {
			return t.TempDir(), Checkout{}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, want := tt.make(t, newRepo(t))
			got, err := ReadCheckout(at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadCheckoutOfADamagedRepository(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		damage func(gitDir string) error
		want   string
	}{
		{"HEAD is rubbish", func(g string) error { return os.WriteFile(filepath.Join(g, "HEAD"), []byte("hush"), 0o644) }, "HEAD is neither"},
		{"HEAD leads out", func(g string) error {
			return os.WriteFile(filepath.Join(g, "HEAD"), []byte("ref: refs/../../secret\n"), 0o644)
		}, "HEAD is neither"},
		{"HEAD is a link to a secret", func(g string) error {
			return os.Symlink(secret, filepath.Join(g, "HEAD"))
		}, "HEAD is neither"},
		{"HEAD is a FIFO", func(g string) error { return syscall.Mkfifo(filepath.Join(g, "HEAD"), 0o644) }, "no regular file"},
		{"HEAD is huge", func(g string) error {
			return os.WriteFile(filepath.Join(g, "HEAD"), make([]byte, fileMax+1), 0o644)
		}, "is larger than"},
		{"a ref that points to itself", func(g string) error {
			return os.WriteFile(filepath.Join(g, "refs", "heads", "main"), []byte("ref: refs/heads/main\n"), 0o644)
		}, "too many refs"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := newRepo(t)
			gitDir := filepath.Join(dir, ".git")
			if strings.HasPrefix(tt.name, "HEAD") {
				if err := os.Remove(filepath.Join(gitDir, "HEAD")); err != nil {
					t.Fatal(err)
				}
			}
			if err := tt.damage(gitDir); err != nil {
				t.Fatal(err)
			}
			_, err := ReadCheckout(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}

func TestRemoteURL(t *testing.T) {
	for config, want := range map[string]string{
		"":                             "",
		"[core]\n\turl = no\n":         "",
		"[remote \"up\"]\nurl = a/b\n": "a/b",
		"[remote \"up\"]\nurl = a\n[remote \"origin\"]\n\tfetch = x\n\tURL=\"b\" ; comment\n[branch \"m\"]\nurl = c": "b",
		"[ remote  \"origin\" ] url = x#y\n": "x",
	} {
		if got := remoteURL(config); got != want {
			t.Errorf("%q: %q, want %q", config, got, want)
		}
	}
}

func TestSplitRemote(t *testing.T) {
	for remote, want := range map[string]string{
		"https://github.com/owner/repo.git":         "github.com owner/repo",
		"https://token:x@GitHub.com/owner/repo/":    "github.com owner/repo",
		"git@github.com:owner/repo.git":             "github.com owner/repo",
		"github.com:owner/repo":                     "github.com owner/repo",
		"ssh://git@ghe.example.com:2222/owner/repo": "ghe.example.com owner/repo",
		"https://ghe.example.com:8443/o/r":          "ghe.example.com:8443 o/r",
		"https://gitlab.com/group/sub/repo.git":     "gitlab.com group/sub/repo",
		"/srv/git/repo.git":                         " ",
		"../repo":                                   " ",
		"file:///srv/git/repo.git":                  " ",
		"https://example.com/":                      " ",
		"":                                          " ",
	} {
		host, repo := splitRemote(remote)
		if got := host + " " + repo; got != want {
			t.Errorf("%q: %q, want %q", remote, got, want)
		}
	}
}

func BenchmarkReadCheckout(b *testing.B) {
	for b.Loop() {
		if _, err := ReadCheckout("."); err != nil {
			b.Fatal(err)
		}
	}
}
