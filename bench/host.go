package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sourcegraph/conc/pool"
)

// shape is a DAG of commands that do nothing.
type shape struct {
	name  string
	n     int
	chain bool
	runs  int
}

func shapes() []shape {
	return []shape{
		{"1", 1, false, 15},
		{"10 wide", 10, false, 11},
		{"100 wide", 100, false, 7},
		{"1,000 wide", 1000, false, 5},
		{"1,000 chain", 1000, true, 5},
	}
}

// need is the name of the node before i in a chain, or "".
func (s shape) need(i int) string {
	if !s.chain || i == 0 {
		return ""
	}
	return fmt.Sprintf("n%d", i-1)
}

// runner writes a shape in the language of one tool and says how to run it.
type runner struct {
	name string
	tool string // empty: always there
	// shell is what it starts for each command, and so what it is held against.
	shell string
	// most is the largest shape it is asked for; 0: all.
	most    int
	prepare func(b *bench, s shape) (command, error)
}

// hostSteps measures the whole run of a DAG of `true` on the host.
func hostSteps(ctx context.Context, b *bench) error {
	columns := []any{"host steps, ms"}
	for _, s := range shapes() {
		columns = append(columns, s.name)
	}
	t := newTable("A DAG of `true` on the host; × is against starting the processes and nothing else", append(columns, "× wide", "× chain", "peak MB")...)
	defer t.end()

	for _, shell := range []string{"sh", "bash"} {
		cells := []any{"limit: " + shell + " -c true"}
		for _, s := range shapes() {
			d, err := median(s.runs, forkLimit(ctx, shell, s))
			if err != nil {
				return err
			}
			cells = append(cells, ms(d))
		}
		t.row(append(cells, "1", "1", "–")...)
	}

	for _, r := range []runner{
		{name: "make", tool: "make", shell: "sh", prepare: prepareMake},
		{name: "ninja", tool: "ninja", shell: "sh", prepare: prepareNinja},
		{name: "go-task", tool: "task", shell: "sh", prepare: prepareTask},
		{name: "act", tool: "act", shell: "bash", most: 100, prepare: prepareAct},
		{name: "herd-runner, shell: sh", shell: "sh", prepare: herdJobs("sh")},
		{name: "steps of one job, shell: sh", shell: "sh", prepare: herdSteps("sh")},
		{name: "herd-runner (bash)", shell: "bash", prepare: herdJobs("bash")},
		{name: "steps of one job (bash)", shell: "bash", prepare: herdSteps("bash")},
	} {
		if r.tool != "" && b.find(r.tool) == "" {
			t.row(r.name, "is not installed")
			continue
		}
		if err := r.row(ctx, b, t); err != nil {
			return err
		}
	}
	return nil
}

func (r runner) row(ctx context.Context, b *bench, t *table) error {
	cells := []any{r.name}
	var wide, chain string
	var peak int64
	for _, s := range shapes() {
		if r.most > 0 && s.n > r.most {
			cells = append(cells, "–")
			continue
		}
		c, err := r.prepare(b, s)
		if err != nil {
			return err
		}
		if c.argv == nil {
			cells = append(cells, "–")
			continue
		}
		got, limit, err := measureBeside(ctx, s.runs, c, forkLimit(ctx, r.shell, s))
		if err != nil {
			return err
		}
		peak = max(peak, got.peak)
		cells = append(cells, ms(got.wall))
		switch {
		case s.n < 1000:
		case s.chain && r.tool == "":
			chain = b.against(got.wall, limit, 1.6)
		case s.chain:
			chain = ratio(got.wall, limit)
		case r.tool == "":
			wide = b.against(got.wall, limit, 1.7)
		default:
			wide = ratio(got.wall, limit)
		}
	}
	t.row(append(cells, wide, chain, megabytes(peak))...)
	return nil
}

// forkLimit starts the shells of a shape and does nothing else: one by one for a
// chain, as many at a time as there are cores otherwise.
func forkLimit(ctx context.Context, shell string, s shape) timed {
	return func() (time.Duration, error) {
		atOnce := runtime.NumCPU()
		if s.chain {
			atOnce = 1
		}
		p := pool.New().WithErrors().WithMaxGoroutines(atOnce)
		start := time.Now()
		for range s.n {
			p.Go(func() error { return exec.CommandContext(ctx, shell, "-c", "true").Run() })
		}
		err := p.Wait()
		return time.Since(start), err
	}
}

func prepareMake(b *bench, s shape) (command, error) {
	var m strings.Builder
	fmt.Fprintf(&m, "all:")
	for i := range s.n {
		fmt.Fprintf(&m, " n%d", i)
	}
	m.WriteString("\n.PHONY: all\n")
	for i := range s.n {
		// The semicolon keeps make from starting `true` without a shell.
		fmt.Fprintf(&m, "n%d: %s\n\t@true;\n.PHONY: n%d\n", i, s.need(i), i)
	}
	file, err := b.file("make/Makefile", m.String())
	return command{argv: []string{b.find("make"), fmt.Sprintf("-j%d", runtime.NumCPU()), "-f", file}, dir: filepath.Dir(file)}, err
}

func prepareNinja(b *bench, s shape) (command, error) {
	var m strings.Builder
	m.WriteString("rule t\n  command = true\n")
	for i := range s.n {
		fmt.Fprintf(&m, "build n%d: t %s\n", i, s.need(i))
	}
	file, err := b.file("ninja/build.ninja", m.String())
	c := command{argv: []string{b.find("ninja"), fmt.Sprintf("-j%d", runtime.NumCPU()), "--quiet"}, dir: filepath.Dir(file)}
	c.fresh = func() error { return os.RemoveAll(filepath.Join(c.dir, ".ninja_log")) }
	return c, err
}

func prepareTask(b *bench, s shape) (command, error) {
	var m strings.Builder
	m.WriteString("version: '3'\ntasks:\n  default:\n    deps: [")
	if s.chain {
		fmt.Fprintf(&m, "n%d", s.n-1)
	} else {
		for i := range s.n {
			fmt.Fprintf(&m, "n%d, ", i)
		}
	}
	m.WriteString("]\n")
	for i := range s.n {
		fmt.Fprintf(&m, "  n%d: {deps: [%s], cmds: [/bin/true]}\n", i, s.need(i))
	}
	file, err := b.file("task/Taskfile.yml", m.String())
	return command{argv: []string{b.find("task"), "--silent", fmt.Sprintf("-C%d", runtime.NumCPU())}, dir: filepath.Dir(file)}, err
}

// jobs writes one job for each node; both act and herd-runner read it.
func jobs(s shape, head string) string {
	var m strings.Builder
	m.WriteString(head)
	m.WriteString("on: push\njobs:\n")
	for i := range s.n {
		fmt.Fprintf(&m, "  n%d:\n    runs-on: ubuntu-latest\n", i)
		if need := s.need(i); need != "" {
			fmt.Fprintf(&m, "    needs: %s\n", need)
		}
		m.WriteString("    steps: [{run: \"true\"}]\n")
	}
	return m.String()
}

func prepareAct(b *bench, s shape) (command, error) {
	file, err := b.file("act/flow.yml", jobs(s, ""))
	if err != nil {
		return command{}, err
	}
	dir := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		if out, err := exec.Command("git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
			return command{}, fmt.Errorf("git init: %w: %s", err, out)
		}
	}
	return command{argv: []string{b.find("act"), "push", "-W", file, "-P", "ubuntu-latest=-self-hosted", "--quiet"}, dir: dir}, nil
}

// onHost heads a workflow of host steps. The default shell is bash where there
// is one.
func onHost(shell string) string {
	if shell == "bash" {
		return "defaults: {docker: false}\n"
	}
	return fmt.Sprintf("defaults: {docker: false, run: {shell: %s}}\n", shell)
}

// herdJobs has a job for each node.
func herdJobs(shell string) func(*bench, shape) (command, error) {
	return func(b *bench, s shape) (command, error) { return b.herdRun("herd", jobs(s, onHost(shell))) }
}

// herdSteps has all nodes in one job: a chain by nature.
func herdSteps(shell string) func(*bench, shape) (command, error) {
	return func(b *bench, s shape) (command, error) {
		if !s.chain {
			return command{}, nil
		}
		return b.herdRun("herd-job", onHost(shell)+stepsOfOneJob(s.n, "true"))
	}
}

func stepsOfOneJob(n int, script string) string {
	return "on: push\njobs:\n  n:\n    steps:\n" + strings.Repeat(fmt.Sprintf("      - run: %q\n", script), n)
}

// herdRun runs a workflow; what an earlier run left is removed first.
func (b *bench) herdRun(name, workflow string, flags ...string) (command, error) {
	dir, file, err := b.project(name, workflow)
	c := command{argv: append([]string{b.herd, "run", "-C", dir, "--allow", "host"}, append(flags, file)...), dir: dir}
	c.fresh = func() error { return os.RemoveAll(filepath.Join(dir, ".herd")) }
	return c, err
}
