// Package e2e tests the built program as its user meets it: the binary, the
// real engine, the real agent CLI. Only the model is scripted.
package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// programs are what the tests call, built once.
type programs struct {
	herd      string // static: it is process 1 of the boxes too
	fakemodel string
	mcpserver string
	root      string // of the repository
}

// shared is the one thing that the tests of this package share.
var shared = struct {
	temp  string
	build func() (programs, error)
}{}

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	temp, err := os.MkdirTemp("", "herd-e2e-")
	if err == nil {
		// Other users than this one start the programs as well.
		err = os.Chmod(temp, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(temp)
	shared.temp = temp
	shared.build = sync.OnceValues(func() (programs, error) { return buildPrograms(temp) })
	return m.Run()
}

func buildPrograms(dir string) (programs, error) {
	root, err := repositoryRoot()
	if err != nil {
		return programs{}, err
	}
	p := programs{herd: filepath.Join(dir, "herd-runner"), fakemodel: filepath.Join(dir, "fakemodel"), mcpserver: filepath.Join(dir, "mcpserver"), root: root}
	for _, argv := range [][]string{
		{"scripts/build.sh", p.herd},
		{"go", "build", "-trimpath", "-o", p.fakemodel, "./e2e/fakemodel"},
		{"go", "build", "-trimpath", "-o", p.mcpserver, "./e2e/mcpserver"},
	} {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return programs{}, fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text)
		}
	}
	return p, nil
}

func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// built gives the programs.
func built(t *testing.T) programs {
	t.Helper()
	p, err := shared.build()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
