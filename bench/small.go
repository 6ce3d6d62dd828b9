package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// startup measures what a person waits for before anything happens.
func startup(ctx context.Context, b *bench) error {
	t := newTable("Start-up", "", "ms", "peak MB")
	defer t.end()
	shell, err := measure(ctx, 21, command{argv: []string{"sh", "-c", "true"}})
	if err != nil {
		return err
	}
	t.row("sh -c true", ms(shell.wall), megabytes(shell.peak))
	dir, file, err := b.project("startup", jobs(shape{n: 1}, onHost("bash")))
	if err != nil {
		return err
	}
	validate, err := measure(ctx, 21, command{argv: []string{b.herd, "validate", "-C", dir, file}})
	if err != nil {
		return err
	}
	t.row("validate, a small file", b.within(validate.wall, 15*time.Millisecond), megabytes(validate.peak))
	c, err := b.herdRun("startup", jobs(shape{n: 1}, onHost("bash")))
	if err != nil {
		return err
	}
	one, err := measure(ctx, 21, c)
	if err != nil {
		return err
	}
	t.row("run, one step", b.within(one.wall, 20*time.Millisecond), megabytes(one.peak))
	return large(ctx, b, t)
}

// large checks that validation is linear in the number of steps.
func large(ctx context.Context, b *bench, t *table) error {
	var first time.Duration
	for _, n := range []int{1000, 10000} {
		_, file, err := b.project("large", onHost("bash")+stepsOfOneJob(n, "true"))
		if err != nil {
			return err
		}
		got, err := measure(ctx, 3, command{argv: []string{b.herd, "validate", file}})
		if err != nil {
			return err
		}
		cell := ms(got.wall)
		if n == 1000 {
			first = got.wall
		} else {
			cell += ", × 1,000 steps: " + b.against(got.wall, first, 12)
		}
		t.row("validate, "+strconv.Itoa(n)+" steps", cell, megabytes(got.peak))
	}
	return nil
}

// lines is what the chatty step prints: 6.9 MB.
const lines = "seq 1 1000000"

// output measures one step that prints a million lines.
func output(ctx context.Context, b *bench) error {
	t := newTable("A step that prints 1,000,000 lines; × is against the shell writing them to a file", "", "ms", "×", "peak MB")
	defer t.end()
	file, err := os.Create(filepath.Join(b.dir, "lines.txt"))
	if err != nil {
		return err
	}
	defer file.Close()
	shell, err := measure(ctx, 9, command{argv: []string{"sh", "-c", lines}, stdout: file})
	if err != nil {
		return err
	}
	t.row("sh → file", ms(shell.wall), "1", megabytes(shell.peak))

	makefile, err := b.file("lines.mk", "all:\n\t@"+lines+"\n.PHONY: all\n")
	if err != nil {
		return err
	}
	made, err := measure(ctx, 9, command{argv: []string{"make", "-f", makefile}, stdout: file})
	if err != nil {
		return err
	}
	t.row("make → file", ms(made.wall), ratio(made.wall, shell.wall), megabytes(made.peak))

	flow := strings.Replace(jobs(shape{n: 1}, onHost("bash")), `"true"`, lines, 1)
	c, err := b.herdRun("lines", flow)
	if err != nil {
		return err
	}
	c.stdout = file
	got, err := measure(ctx, 7, c)
	if err != nil {
		return err
	}
	// 250 ms where the shell takes 21.
	t.row("herd-runner: journaled, masked and shown with prefix", ms(got.wall), b.against(got.wall, shell.wall, 12), megabytes(got.peak))
	return nil
}
