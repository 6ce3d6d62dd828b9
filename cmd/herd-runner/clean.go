package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/images"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

// cleanTime bounds what clean does.
const cleanTime = 5 * time.Minute

type cleanFlags struct {
	dir, runs             string
	boxes, images, dryRun bool
}

func (a *App) cleanCommand() *cobra.Command {
	var f cleanFlags
	cmd := &cobra.Command{
		Use:   "clean [--runs AGE] [--boxes] [--images]",
		Short: "Remove what killed runs have left, and what else is asked for",
		Long: `Remove what killed runs have left: their boxes on the engine, and directories of
kept boxes that no box has any more. --boxes also removes the kept boxes of the
project, --runs its old records, --images the agent images that newer builds have
replaced and that no container has. Nothing of a run that goes on is touched, and
nothing that herd-runner has not made.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), cleanTime)
			defer cancel()
			return a.clean(ctx, f)
		},
	}
	dirFlag(cmd, &f.dir)
	a.sandboxFlag(cmd)
	cmd.Flags().StringVar(&f.runs, "runs", "", "also records of runs older than AGE: 30d, 12h")
	cmd.Flags().BoolVar(&f.boxes, "boxes", false, "also the kept boxes of the project, with their HOME")
	cmd.Flags().BoolVar(&f.images, "images", false, "also agent images of old versions, of all projects")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would be removed; remove nothing")
	return cmd
}

// cleaning says what it removes as it goes.
type cleaning struct {
	app    *App
	flags  cleanFlags
	things int
	bytes  int64
}

// remove removes one thing, or says that it would.
func (c *cleaning) remove(what string, bytes int64, remove func() error) error {
	verb := "removed"
	if c.flags.dryRun {
		verb = "would remove"
	} else if err := remove(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	c.things++
	c.bytes += bytes
	_, err := fmt.Fprintf(c.app.Stdout, "%s %s, %s\n", verb, what, report.Bytes(bytes))
	return err
}

func (a *App) clean(ctx context.Context, f cleanFlags) error {
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return problem("-C: %w", err)
	}
	f.dir = dir
	c := &cleaning{app: a, flags: f}
	var before time.Time
	if f.runs != "" {
		age, err := parseAge(f.runs)
		if err != nil {
			return problem("--runs: %w", err)
		}
		before = a.Now().Add(-age)
	}
	errs := []error{c.cleanBoxes(ctx)}
	if f.runs != "" {
		errs = append(errs, c.cleanRuns(before))
	}
	verb := "removed"
	if f.dryRun {
		verb = "would be removed"
	}
	fmt.Fprintf(a.Stdout, "%d things %s, %s\n", c.things, verb, report.Bytes(c.bytes))
	if err := errors.Join(errs...); err != nil {
		return infra(err)
	}
	return nil
}

// cleanBoxes removes boxes, and then the sessions that no box has.
func (c *cleaning) cleanBoxes(ctx context.Context) error {
	backend, err := c.app.connectDocker(ctx, docker.Options{Look: true})
	if err != nil {
		return err
	}
	defer backend.Close(ctx)
	boxes, err := backend.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range boxes {
		kept := x.State == docker.StateKept || x.State == docker.StateReused
		if x.State == docker.StateLeft || kept && c.flags.boxes && x.Project == c.flags.dir {
			errs = append(errs, c.remove(fmt.Sprintf("box %.12s (%s, %s/%s of run %s)", x.ID, x.State, x.Job, x.Step, x.Run), x.Bytes,
				func() error { return backend.Remove(ctx, x) }))
		}
	}
	sessions, err := backend.Abandoned(ctx, filepath.Join(c.flags.dir, sessionsDir))
	errs = append(errs, err)
	for _, s := range sessions {
		errs = append(errs, c.remove("directory "+s.Dir+" of a box that is gone", s.Bytes, s.Remove))
	}
	if c.flags.images {
		errs = append(errs, c.cleanImages(ctx, backend))
	}
	volumes, err := backend.OldVolumes(ctx)
	errs = append(errs, err)
	for _, name := range volumes {
		errs = append(errs, c.remove("volume "+name+" of another version or a dead run", 0, func() error { return backend.RemoveVolume(ctx, name) }))
	}
	return errors.Join(errs...)
}

// cleanImages removes the agent images whose name a newer build has.
func (c *cleaning) cleanImages(ctx context.Context, backend *docker.Backend) error {
	old, err := backend.OldImages(ctx, images.LabelEngines)
	errs := []error{err}
	for _, image := range old {
		engines := listed(image).Engines
		var parts []string
		for _, name := range sortedKeys(engines) {
			parts = append(parts, strings.TrimSpace(name+" "+engines[name]))
		}
		what := fmt.Sprintf("agent image %.12s of %s (%s), which a newer one replaced", strings.TrimPrefix(image.ID, "sha256:"), image.Created.UTC().Format(time.DateOnly), strings.Join(parts, ", "))
		// Layers that it shares with others stay: less may come free.
		errs = append(errs, c.remove(what, image.Size, func() error { return backend.RemoveImage(ctx, image.ID) }))
	}
	return errors.Join(errs...)
}

func (c *cleaning) cleanRuns(before time.Time) error {
	ids, err := journal.Prune(c.flags.dir, before, true)
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	for _, id := range ids {
		sizes[id] = treeSize(filepath.Join(journal.RunsDir(c.flags.dir), id))
		for _, dir := range talksOf(c.flags.dir, id) {
			sizes[id] += treeSize(dir)
		}
	}
	if !c.flags.dryRun {
		ids, err = journal.Prune(c.flags.dir, before, false)
	}
	for _, id := range ids {
		err = errors.Join(err, c.remove("run "+id, sizes[id], func() error {
			var errs []error
			for _, dir := range talksOf(c.flags.dir, id) {
				errs = append(errs, removeTalk(dir))
			}
			return errors.Join(errs...)
		}))
	}
	return err
}

// treeSize is how many bytes the files below dir have.
func treeSize(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// parseAge reads a duration in Go's words, or in days: 30d.
func parseAge(s string) (time.Duration, error) {
	age, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		age = time.Duration(n * float64(24*time.Hour))
		if n < 0 || n > 36500 {
			err = strconv.ErrRange
		}
	}
	if err != nil || age < 0 {
		return 0, fmt.Errorf("%q is no age; write 30d, 12h or 90m", s)
	}
	return age, nil
}
