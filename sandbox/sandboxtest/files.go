package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

var fileTests = []test{
	{"files are there before the process", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		dir := path.Join(spec.Temp, "deep", "er")
		script, data := path.Join(dir, "run.sh"), bytes.Repeat([]byte{0, 1, 2, 255}, 500_000)
		r := sh(t, box, "", func(p *sandbox.Process) {
			p.Argv = []string{script}
			p.Files = []sandbox.File{
				{Path: script, Mode: 0o755, Data: []byte("#!/bin/sh\ncat " + dir + "/data\n")},
				{Path: path.Join(dir, "data"), Mode: 0o600, Data: data},
			}
		})
		if r.out != string(data) {
			t.Errorf("%d bytes of %d, stderr %q", len(r.out), len(data), r.err)
		}
		r = sh(t, box, "stat -c %a "+script+" "+dir+"/data")
		if r.out != "755\n600\n" {
			t.Errorf("modes are %q", r.out)
		}
	}},
	{"a directory is there before the process, and what is in it stays", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		dir := path.Join(spec.Temp, "new", "cache")
		for _, want := range []string{"", "tool\n"} {
			r := sh(t, box, "cd $0 && ls && touch tool", func(p *sandbox.Process) {
				p.Argv = append(p.Argv, dir)
				p.Files = []sandbox.File{{Path: dir, Mode: fs.ModeDir}}
			})
			if r.out != want {
				t.Errorf("%q is there, want %q; stderr %q", r.out, want, r.err)
			}
		}
	}},
	{"what can not be written is a files error", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		_, err := execCtx(t.Context(), box, "true", func(p *sandbox.Process) { p.Files = []sandbox.File{{Path: "/proc/no/such"}} })
		var serr *sandbox.Error
		if !errors.As(err, &serr) || serr.Kind != sandbox.KindFiles || !strings.Contains(err.Error(), "/proc/no") {
			t.Errorf("got %v, want an error of kind files that names it", err)
		}
	}},
	{"files replace what is there", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		names := []string{"file", "closed", "linked", "pipe"}
		if r := sh(t, box, `cd $0 && echo something longer | tee file closed >linked &&
			chmod 600 file && chmod 400 closed && ln linked other && mkfifo pipe`, func(p *sandbox.Process) {
			p.Argv = append(p.Argv, spec.Temp)
		}); r.Code != 0 {
			t.Fatalf("exit code %d, stderr %q", r.Code, r.err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := runCtx(t, ctx, box, `cd $0 && cat "$@" other && stat -c %a "$@"`, func(p *sandbox.Process) {
			p.Argv = append(append(p.Argv, spec.Temp), names...)
			for _, name := range names {
				p.Files = append(p.Files, sandbox.File{Path: path.Join(spec.Temp, name), Mode: 0o750, Data: []byte("new\n")})
			}
		})
		if want := strings.Repeat("new\n", 4) + "something longer\n" + strings.Repeat("750\n", 4); r.out != want {
			t.Errorf("got %q, want %q; stderr %q", r.out, want, r.err)
		}
	}},
	{"files are collected and cut", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		at := func(name string) string { return path.Join(spec.Temp, name) }
		r := sh(t, box, "cd $0 && printf abc >a && : >empty && printf 0123456789 >long && mkfifo pipe && ln -s /etc/passwd link && mkdir dir; exit 5",
			func(p *sandbox.Process) {
				p.Argv = append(p.Argv, spec.Temp)
				p.Collect = []sandbox.Collect{
					{Path: at("a"), Limit: 3}, {Path: at("empty")}, {Path: at("long"), Limit: 4},
					{Path: at("missing")}, {Path: at("pipe")}, {Path: at("link")}, {Path: at("dir")},
				}
			})
		if r.Code != 5 {
			t.Errorf("exit code %d, stderr %q", r.Code, r.err)
		}
		got := map[string]string{}
		for p, b := range r.Collected {
			got[path.Base(p)] = string(b)
		}
		want := map[string]string{"a": "abc", "empty": "", "long": "0123"}
		if len(got) != len(want) || got["a"] != "abc" || got["long"] != "0123" || got["empty"] != "" {
			t.Errorf("collected %q, want %q", got, want)
		}
		if !slices.Equal(r.Truncated, []string{at("long")}) {
			t.Errorf("truncated: %q", r.Truncated)
		}
	}},
	{"a large file is collected whole", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		file := path.Join(spec.Temp, "large")
		r := sh(t, box, "head -c 5000000 /dev/zero >"+file, func(p *sandbox.Process) {
			p.Collect = []sandbox.Collect{{Path: file, Limit: 8 << 20}}
		})
		if n := len(r.Collected[file]); n != 5_000_000 || len(r.Truncated) > 0 {
			t.Errorf("%d bytes, truncated %q", n, r.Truncated)
		}
	}},
	{"the workspace is the host's", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		sh(t, box, "echo hello >made-in-box")
		b, err := os.ReadFile(s.HostPath(spec, path.Join(spec.Workdir, "made-in-box")))
		if err != nil || string(b) != "hello\n" {
			t.Errorf("got %q, %v", b, err)
		}
	}},
}
