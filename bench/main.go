// Command bench measures herd-runner beside build tools, other runners of
// workflows and the engine's own API, in one run on one machine, and prints
// ratios. It drives the built binary from outside, as a user does.
//
// Times of whole processes, medians. Only the ratios can be compared between
// machines.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
)

func main() {
	herd := flag.String("herd", "bin/herd-runner", "the `binary` to measure")
	only := flag.String("only", "", "run the sections whose name matches this `regexp`: host, startup, output, containers, warm")
	peers := flag.String("peers", "", "a `directory` with further tools (act, task)")
	image := flag.String("image", "herd-runner/agent", "`image` of the containers")
	strict := flag.Bool("strict", false, "exit 1 where a target is missed")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	missed, err := run(ctx, *herd, *peers, *image, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(3)
	}
	if missed > 0 {
		fmt.Printf("\n%d targets missed\n", missed)
		if *strict {
			os.Exit(1)
		}
	}
}

// bench is what every section needs.
type bench struct {
	herd, peers, image string
	dir                string // scratch, removed at the end
	missed             int
}

func run(ctx context.Context, herd, peers, image, only string) (missed int, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return 0, fmt.Errorf("-only: %w", err)
	}
	if herd, err = filepath.Abs(herd); err != nil {
		return 0, err
	}
	if _, err := os.Stat(herd); err != nil {
		return 0, fmt.Errorf("%w; run: make build", err)
	}
	if peers != "" {
		if peers, err = filepath.Abs(peers); err != nil {
			return 0, err
		}
	}
	dir, err := os.MkdirTemp("", "herd-bench-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	b := &bench{herd: herd, peers: peers, image: image, dir: dir}
	for _, section := range []struct {
		name string
		run  func(context.Context, *bench) error
	}{
		{"host", hostSteps},
		{"startup", startup},
		{"output", output},
		{"containers", containers},
		{"warm", warm},
	} {
		if !match.MatchString(section.name) {
			continue
		}
		if err := section.run(ctx, b); err != nil {
			return b.missed, fmt.Errorf("%s: %w", section.name, err)
		}
	}
	return b.missed, nil
}
