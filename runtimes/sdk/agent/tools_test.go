package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// use runs one tool call in dir.
func use(t *testing.T, dir, name string, input map[string]any) toolOutput {
	t.Helper()
	raw, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	tools := ownTools(workspace{dir: dir, env: []string{"PATH=" + os.Getenv("PATH")}, background: &background{}})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return runCall(ctx, tools, call{id: "1", name: name, input: raw})
}

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTools(t *testing.T) {
	long := strings.Repeat("x", 5000)
	dir := tree(t, map[string]string{
		"main.go":                "package main\n\nfunc main() {}\n",
		"sub/a_test.go":          "package sub\n// main thing\n",
		"sub/crlf.txt":           "one\r\nmain two\r\n",
		"bin.dat":                "\x00\x01main",
		"empty":                  "",
		"long.txt":               long + "\nshort\n",
		"bad.txt":                "a\xffb\n",
		"node_modules/x/main.go": "package main\n",
		".git/main.go":           "package main\n",
		"-rf":                    "dash\n",
	})
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		tool    string
		input   map[string]any
		isError bool
		want    []string
		not     []string
	}{
		{"read", "read", map[string]any{"path": "main.go"}, false, []string{"     1\tpackage main\n", "     3\tfunc main() {}\n"}, nil},
		{"read a part", "read", map[string]any{"path": "main.go", "offset": 2, "limit": 1}, false, []string{"     2\t\n", "offset 3"}, []string{"package"}},
		{"read behind the end", "read", map[string]any{"path": "main.go", "offset": 9}, true, []string{"3 lines"}, nil},
		{"read empty", "read", map[string]any{"path": "empty"}, false, []string{"empty"}, nil},
		{"read long line", "read", map[string]any{"path": "long.txt"}, false, []string{"3000 bytes more", "     2\tshort"}, nil},
		{"read binary", "read", map[string]any{"path": "bin.dat"}, false, []string{"binary file of 6 bytes"}, nil},
		{"read invalid UTF-8", "read", map[string]any{"path": "bad.txt"}, false, []string{"a\uFFFDb"}, nil},
		{"read a directory", "read", map[string]any{"path": "sub"}, true, []string{"directory"}, nil},
		{"read missing", "read", map[string]any{"path": "nope"}, true, []string{"no such file"}, nil},
		{"read NUL path", "read", map[string]any{"path": "a\x00b"}, true, []string{"invalid"}, nil},
		{"read endless device", "read", map[string]any{"path": "/dev/zero"}, true, []string{"not a regular file"}, nil},
		{"read leading dash", "read", map[string]any{"path": "-rf"}, false, []string{"dash"}, nil},
		{"glob by name", "glob", map[string]any{"pattern": "*.go"}, false, []string{"main.go\nsub/a_test.go\n"}, []string{"node_modules", ".git"}},
		{"glob by path", "glob", map[string]any{"pattern": "sub/**"}, false, []string{"sub/a_test.go\nsub/crlf.txt\n"}, []string{"main.go"}},
		{"glob braces", "glob", map[string]any{"pattern": "**/*.{txt,dat}"}, false, []string{"bin.dat", "sub/crlf.txt"}, nil},
		{"glob nothing", "glob", map[string]any{"pattern": "*.rs"}, false, []string{"no file matches"}, nil},
		{"glob bad pattern", "glob", map[string]any{"pattern": "a[b"}, true, []string{"not a valid pattern"}, nil},
		{"glob absolute", "glob", map[string]any{"pattern": filepath.Join(dir, "sub/*.go")}, false, []string{"sub/a_test.go"}, nil},
		{"grep", "grep", map[string]any{"pattern": `^package \w+$`}, false, []string{"main.go:1:package main\nsub/a_test.go:1:package sub\n"}, []string{"node_modules", "bin.dat"}},
		{"grep CRLF", "grep", map[string]any{"pattern": `two$`}, false, []string{"sub/crlf.txt:2:main two\n"}, nil},
		{"grep context", "grep", map[string]any{"pattern": "func", "context": 1}, false, []string{"main.go-2-\nmain.go:3:func main() {}\n"}, nil},
		{"grep one glob, any case", "grep", map[string]any{"pattern": "MAIN", "glob": "*_test.go", "ignore_case": true}, false, []string{"sub/a_test.go:2:"}, []string{"main.go"}},
		{"grep files only", "grep", map[string]any{"pattern": "main", "files_only": true, "path": "sub"}, false, []string{"sub/a_test.go\nsub/crlf.txt\n"}, nil},
		{"grep bad pattern", "grep", map[string]any{"pattern": "("}, true, []string{"regular expression"}, nil},
		{"list", "list", map[string]any{}, false, []string{"main.go 29\n", "sub/\n", "link -> /etc\n"}, nil},
		{"edit twice there", "edit", map[string]any{"path": "main.go", "old_string": "main", "new_string": "x"}, true, []string{"2 times"}, nil},
		{"edit not there", "edit", map[string]any{"path": "main.go", "old_string": "nope", "new_string": "x"}, true, []string{"is not in"}, nil},
		{"edit nothing", "edit", map[string]any{"path": "main.go", "old_string": "", "new_string": "x"}, true, []string{"use write"}, nil},
		{"write onto a directory", "write", map[string]any{"path": "sub", "content": "x"}, true, []string{"directory"}, nil},
		{"write without content", "write", map[string]any{"path": "new"}, true, []string{"needed"}, nil},
		{"bash", "bash", map[string]any{"command": "echo out; echo err >&2"}, false, []string{"out\nerr\n"}, nil},
		{"bash exit code", "bash", map[string]any{"command": "echo no; exit 3"}, true, []string{"no\n[exit code 3]"}, nil},
		{"a name in another case", "Bash", map[string]any{"command": "echo yes"}, false, []string{"yes"}, nil},
		{"bash has no stdin", "bash", map[string]any{"command": "cat; echo end"}, false, []string{"end"}, nil},
		{"bash empty", "bash", map[string]any{"command": "  "}, true, []string{"empty"}, nil},
		{"bash timeout", "bash", map[string]any{"command": "echo begun; sleep 60", "timeout": 0.2}, true, []string{"begun", "killed after 200ms"}, nil},
		{"bash NUL output", "bash", map[string]any{"command": `printf 'a\0b\377'`}, false, []string{"a\x00b\uFFFD"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out := use(t, dir, tt.tool, tt.input)
			if out.isError != tt.isError {
				t.Errorf("isError = %v: %s", out.isError, out.text)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.text, want) {
					t.Errorf("no %q in\n%s", want, out.text)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(out.text, not) {
					t.Errorf("%q in\n%s", not, out.text)
				}
			}
		})
	}
}

func TestAFIFODoesNotHangATool(t *testing.T) {
	dir := tree(t, map[string]string{"a.txt": "find me\n"})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for tool, input := range map[string]map[string]any{
		"read":  {"path": "fifo"},
		"write": {"path": "fifo", "content": "x"},
		"edit":  {"path": "fifo", "old_string": "a", "new_string": "b"},
	} {
		if out := use(t, dir, tool, input); !out.isError || !strings.Contains(out.text, "not a regular file") {
			t.Errorf("%s: %+v", tool, out)
		}
	}
	if out := use(t, dir, "grep", map[string]any{"pattern": "find"}); out.text != "a.txt:1:find me\n" {
		t.Errorf("grep: %+v", out)
	}
}

func TestEditReplaces(t *testing.T) {
	dir := tree(t, map[string]string{"f": "a b a\n", "tool.sh": "#!/bin/sh\n"})
	if err := os.Chmod(filepath.Join(dir, "tool.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	use(t, dir, "edit", map[string]any{"path": "f", "old_string": "a", "new_string": "", "replace_all": true})
	use(t, dir, "edit", map[string]any{"path": "tool.sh", "old_string": "#!/bin/sh", "new_string": "#!/bin/bash"})
	if data, _ := os.ReadFile(filepath.Join(dir, "f")); string(data) != " b \n" {
		t.Errorf("f is %q", data)
	}
	if info, _ := os.Stat(filepath.Join(dir, "tool.sh")); info.Mode().Perm() != 0o755 {
		t.Errorf("tool.sh has mode %v", info.Mode())
	}
}

func TestLongOutputIsCutInTheMiddle(t *testing.T) {
	out := use(t, t.TempDir(), "bash", map[string]any{"command": "echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last"})
	if len(out.text) > maxOutputBytes+200 || !strings.HasPrefix(out.text, "first\n") || !strings.HasSuffix(out.text, "last\n") || !strings.Contains(out.text, "left out here") {
		t.Errorf("%d bytes: %.40q … %.40q", len(out.text), out.text, out.text[max(0, len(out.text)-40):])
	}
}

func TestClipKeepsBothEnds(t *testing.T) {
	for _, size := range []int{0, 1, 9, 10, 11, 25, 1000} {
		for _, chunk := range []int{1, 3, 7, 1000} {
			text := strings.Repeat("0123456789", size/10+1)[:size]
			c := &clip{limit: 10}
			for rest := text; rest != ""; {
				n := min(chunk, len(rest))
				fmt.Fprint(c, rest[:n])
				rest = rest[n:]
			}
			got := c.String()
			if size <= 10 {
				if got != text {
					t.Errorf("size %d chunk %d: %q", size, chunk, got)
				}
				continue
			}
			if !strings.HasPrefix(got, text[:5]+"\n[… "+fmt.Sprint(size-10)+" bytes") || !strings.HasSuffix(got, "]\n"+text[size-5:]) {
				t.Errorf("size %d chunk %d: %q", size, chunk, got)
			}
		}
	}
}

func TestBashEndsWhatItStarted(t *testing.T) {
	dir := t.TempDir()
	started := time.Now()
	out := use(t, dir, "bash", map[string]any{"command": "sleep 600 & echo $! > pid; echo started"})
	if out.isError || !strings.Contains(out.text, "started") {
		t.Fatalf("%+v", out)
	}
	if took := time.Since(started); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
	data, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	waitGone(t, strings.TrimSpace(string(data)))
}

func TestReadingCallsRunSideBySideInOrder(t *testing.T) {
	gate := make(chan struct{})
	both := make(chan struct{}, 2)
	wait := func(ctx context.Context, input json.RawMessage) (string, error) {
		both <- struct{}{}
		select {
		case <-gate:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		return string(input), nil
	}
	tools := []tool{{name: "look", readOnly: true, run: wait}}
	done := make(chan []toolOutput, 1)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	go func() {
		done <- runCalls(ctx, tools, []call{{name: "look", input: json.RawMessage("1")}, {name: "look", input: json.RawMessage("2")}, {name: "none"}})
	}()
	for range 2 {
		select {
		case <-both:
		case <-ctx.Done():
			t.Fatal("the calls do not run side by side")
		}
	}
	close(gate)
	got := <-done
	if got[0].text != "1" || got[1].text != "2" || !got[2].isError {
		t.Errorf("%+v", got)
	}
}
