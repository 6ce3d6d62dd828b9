package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// commandTime bounds one process.
const commandTime = 5 * time.Minute

// sample is the outcome of several runs of one thing.
type sample struct {
	wall time.Duration // median
	peak int64         // bytes, the largest resident set of all runs; 0 where nothing was started
}

// command is a process to be measured.
type command struct {
	argv   []string
	dir    string
	stdout *os.File // nil: discarded
	// fresh is done before each run and not counted.
	fresh func() error
}

// timed does something once and says how long that took.
type timed func() (time.Duration, error)

// measure runs c once to warm up, then n times.
func measure(ctx context.Context, n int, c command) (sample, error) {
	s, _, err := measureBeside(ctx, n, c, func() (time.Duration, error) { return 0, nil })
	return s, err
}

// measureBeside measures c and a limit by turns: a machine is not as busy all the
// time.
func measureBeside(ctx context.Context, n int, c command, limit timed) (sample, time.Duration, error) {
	var peak int64
	got, err := medians(n, limit, func() (time.Duration, error) {
		if c.fresh != nil {
			if err := c.fresh(); err != nil {
				return 0, err
			}
		}
		took, rss, err := c.once(ctx)
		peak = max(peak, rss)
		return took, err
	})
	if err != nil {
		return sample{}, 0, err
	}
	return sample{got[1], peak}, got[0], nil
}

func (c command) once(ctx context.Context) (time.Duration, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = c.dir, &stderr
	if c.stdout != nil {
		cmd.Stdout = c.stdout
	}
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	if err != nil {
		tail := stderr.Bytes()
		return 0, 0, fmt.Errorf("%s: %w\n%s", filepath.Base(c.argv[0]), err, tail[max(0, len(tail)-800):])
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return took, 0, nil
	}
	return took, usage.Maxrss << 10, nil
}

// median calls f once to warm up and n times to measure.
func median(n int, f timed) (time.Duration, error) {
	got, err := medians(n, f)
	if err != nil {
		return 0, err
	}
	return got[0], nil
}

// medians is median of several things that are done by turns.
func medians(n int, list ...timed) ([]time.Duration, error) {
	times := make([][]time.Duration, len(list))
	for turn := range n + 1 {
		for i, f := range list {
			took, err := f()
			if err != nil {
				return nil, err
			}
			if turn > 0 {
				times[i] = append(times[i], took)
			}
		}
	}
	got := make([]time.Duration, len(list))
	for i := range times {
		slices.Sort(times[i])
		got[i] = times[i][n/2]
	}
	return got, nil
}

// find is the path of a tool, in the directory of peers or in PATH; empty where
// it is not there.
func (b *bench) find(tool string) string {
	if b.peers != "" {
		if path := filepath.Join(b.peers, tool); isFile(path) {
			return path
		}
	}
	path, err := exec.LookPath(tool)
	if err != nil {
		return ""
	}
	return path
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// file writes a file under the scratch directory and returns its path.
func (b *bench) file(name, content string) (string, error) {
	path := filepath.Join(b.dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644))
	return path, err
}

// project is an empty directory with a workflow in it, as herd-runner wants one.
// Where we are root it belongs to uid 1000: boxes run as the owner.
func (b *bench) project(name, workflow string) (dir, file string, err error) {
	file, err = b.file(name+"/flow.yml", workflow)
	dir = filepath.Dir(file)
	if err == nil && os.Getuid() == 0 {
		err = errors.Join(os.Chown(dir, 1000, 1000), os.Chown(file, 1000, 1000))
	}
	return dir, file, err
}
