// Package sandboxtest is the suite every sandbox backend passes. A backend
// runs it from a test of its own; what it can not do it skips by name, with
// the reason.
package sandboxtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Subject is a backend under test. Boxes need a POSIX sh with the usual small
// tools (cat, env, head, kill, seq, setsid, sleep), as in busybox.
type Subject struct {
	// Backend is shared by the tests; the caller closes it.
	Backend sandbox.Backend
	// Spec returns a spec that starts in Backend, with a writable Workdir and
	// Temp of its own.
	Spec func(t *testing.T) sandbox.Spec
	// HostPath turns a path in a box of spec into one on this machine.
	HostPath func(spec sandbox.Spec, path string) string
	// GatewayGet is the command that prints what an HTTP GET of
	// http://ADDR/ answers.
	GatewayGet func(addr string) []string
	// Skip maps names of tests to the reason why this backend can not pass.
	Skip map[string]string
}

type test struct {
	name string
	run  func(t *testing.T, s Subject)
}

// Run runs the whole suite.
func Run(t *testing.T, s Subject) {
	t.Helper()
	known := map[string]bool{}
	for _, group := range [][]test{exitTests, streamTests, fileTests, followTests, stopTests, boxTests, limitTests} {
		for _, tc := range group {
			known[tc.name] = true
			t.Run(tc.name, func(t *testing.T) {
				if why := s.Skip[tc.name]; why != "" {
					t.Skip(why)
				}
				tc.run(t, s)
			})
		}
	}
	for name := range s.Skip {
		if !known[name] {
			t.Errorf("skip names %q, which is no test of the suite", name)
		}
	}
}

const limit = 60 * time.Second

// start returns a box that is closed with the test.
func start(t *testing.T, s Subject, change ...func(*sandbox.Spec)) (sandbox.Box, sandbox.Spec) {
	t.Helper()
	spec := s.Spec(t)
	for _, c := range change {
		c(&spec)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	box, err := s.Backend.Start(ctx, spec)
	if err != nil {
		t.Fatalf("start box: %v", err)
	}
	t.Cleanup(func() { closeBox(t, box) })
	return box, spec
}

func closeBox(t *testing.T, box sandbox.Box) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := box.Close(ctx); err != nil {
		t.Errorf("close box: %v", err)
	}
}

type result struct {
	sandbox.Exit
	out, err string
}

// sh runs a shell script in box.
func sh(t *testing.T, box sandbox.Box, script string, change ...func(*sandbox.Process)) result {
	t.Helper()
	return runCtx(t, t.Context(), box, script, change...)
}

func runCtx(t *testing.T, ctx context.Context, box sandbox.Box, script string, change ...func(*sandbox.Process)) result {
	t.Helper()
	r, err := execCtx(ctx, box, script, change...)
	if err != nil {
		t.Fatalf("exec %q: %v", script, err)
	}
	return r
}

func execCtx(ctx context.Context, box sandbox.Box, script string, change ...func(*sandbox.Process)) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*limit) // no test may hang
	defer cancel()
	var out, errs bytes.Buffer
	p := sandbox.Process{
		Argv: []string{"sh", "-c", script}, Env: baseEnv(box.Info()),
		Stdout: &out, Stderr: &errs,
	}
	for _, c := range change {
		c(&p)
	}
	exit, err := box.Exec(ctx, p)
	return result{exit, out.String(), errs.String()}, err
}

func baseEnv(info sandbox.Info) []string {
	env := []string{}
	for k, v := range info.Env {
		env = append(env, k+"="+v)
	}
	return env
}

// marker is an argument for sleep that no other process on the machine has.
func marker(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("%d.%d", 7000+os.Getpid()%1000, time.Now().UnixNano())
}

// alive counts processes of this machine, in boxes or not, with marker as an
// argument.
func alive(t *testing.T, marker string) int {
	t.Helper()
	n := 0
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for arg := range strings.SplitSeq(string(b), "\x00") {
			if arg == marker {
				n++
			}
		}
	}
	return n
}

// eventually waits until ok, at most for limit.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
}

func noneAlive(t *testing.T, marker string) {
	t.Helper()
	if n := alive(t, marker); n != 0 {
		t.Errorf("%d processes survived", n)
	}
}
