package workflow

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// inArchive reads the files of a txtar archive.
func inArchive(a *txtar.Archive) ReadFile {
	return func(name string) ([]byte, error) {
		for _, f := range a.Files {
			if f.Name == name {
				return f.Data, nil
			}
		}
		return nil, fs.ErrNotExist
	}
}

// SEMANTICS 36: what a workflow uses is read and checked before the run. The
// first file of each archive is the workflow.
func TestWhatAWorkflowUsesIsChecked(t *testing.T) {
	for _, name := range mustGlob(t, "testdata/uses/*.txtar") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			main := archive.Files[0]
			w, plan, ps := Load(main.Name, main.Data, inArchive(archive))
			if HasErrors(ps) != (plan == nil) {
				t.Errorf("plan %v, problems %v", plan, ps)
			}
			var out bytes.Buffer
			if err := w.RenderText(&out, ps, false); err != nil {
				t.Fatal(err)
			}
			if plan != nil {
				for _, format := range []string{"text", "mermaid", "dot"} {
					if err := Graph(&out, plan, format); err != nil {
						t.Fatal(err)
					}
				}
			}
			golden(t, strings.TrimSuffix(name, ".txtar")+".txt", out.Bytes())
		})
	}
}

func TestUsesAreBounded(t *testing.T) {
	chain := func(n int) (string, ReadFile) {
		files := map[string]string{}
		for i := range n {
			files[fmt.Sprintf("a%d/action.yml", i)] = fmt.Sprintf("runs: {using: composite, steps: [{uses: ./a%d}]}\n", i+1)
		}
		files[fmt.Sprintf("a%d/action.yml", n)] = "runs: {using: composite, steps: [{run: echo, shell: sh}]}\n"
		return "on: push\njobs: {a: {steps: [{uses: ./a0}]}}\n", func(name string) ([]byte, error) {
			if text, ok := files[name]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
	}
	src, read := chain(maxNested - 1)
	if _, _, ps := Load("w.yml", []byte(src), read); len(ps) > 0 {
		t.Errorf("%d levels: %v", maxNested, ps)
	}
	src, read = chain(maxNested)
	if _, _, ps := Load("w.yml", []byte(src), read); len(ps) != 1 || ps[0].Rule != "limit" {
		t.Errorf("%d levels: %v", maxNested+1, ps)
	}

	// Ten steps in each of six levels would be a million.
	ten := func(what string) string { return strings.Repeat("    - "+what+"\n", 10) }
	read = func(name string) ([]byte, error) {
		var i int
		if n, _ := fmt.Sscanf(name, "a%d/action.yml", &i); n != 1 {
			return nil, fs.ErrNotExist
		}
		if i == 5 {
			return []byte("runs:\n  using: composite\n  steps:\n" + ten("{run: echo, shell: sh}")), nil
		}
		return []byte("runs:\n  using: composite\n  steps:\n" + ten(fmt.Sprintf("{uses: ./a%d}", i+1))), nil
	}
	_, _, ps := Load("w.yml", []byte("on: push\njobs: {a: {steps: [{uses: ./a0}]}}\n"), read)
	if len(ps) == 0 || ps[len(ps)-1].Rule != "limit" {
		t.Errorf("a tree of actions: %v", ps)
	}
}

func TestUnreadableActionIsReported(t *testing.T) {
	_, _, ps := Load("w.yml", []byte("on: push\njobs: {a: {steps: [{uses: ./a}]}}\n"), func(string) ([]byte, error) { return nil, os.ErrPermission })
	if len(ps) != 1 || !strings.Contains(ps[0].Message, "permission denied") || ps[0].Line != 2 {
		t.Error(ps)
	}
}

func TestCallsAreBounded(t *testing.T) {
	read := func(n int) ReadFile {
		return func(name string) ([]byte, error) {
			var i int
			if k, _ := fmt.Sscanf(name, "w%d.yml", &i); k != 1 || i > n {
				return nil, fs.ErrNotExist
			}
			if i == n {
				return []byte("on: workflow_call\njobs: {a: {steps: [{run: a}]}}\n"), nil
			}
			return fmt.Appendf(nil, "on: workflow_call\njobs: {a: {uses: ./w%d.yml}}\n", i+1), nil
		}
	}
	const src = "on: push\njobs: {a: {uses: ./w1.yml}}\n"
	if _, _, ps := Load("w.yml", []byte(src), read(maxNested-1)); len(ps) > 0 {
		t.Errorf("%d levels: %v", maxNested, ps)
	}
	if _, _, ps := Load("w.yml", []byte(src), read(maxNested)); len(ps) != 1 || ps[0].Rule != "limit" {
		t.Errorf("%d levels: %v", maxNested+1, ps)
	}
	// The depth holds also for a workflow that was read before, less deep.
	const both = "on: push\njobs: {z: {uses: ./w2.yml}, a: {uses: ./w1.yml}}\n"
	if _, _, ps := Load("w.yml", []byte(both), read(maxNested)); len(ps) != 1 || ps[0].Rule != "limit" {
		t.Errorf("read before: %v", ps)
	}
}
