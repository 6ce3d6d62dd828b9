package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/images"
	"github.com/herd-runner/herd-runner/sandbox/docker"
)

const (
	lockName    = "herd.lock" // in the project directory, one for all its workflows
	lockVersion = 1
)

// lockFile says which image each name stands for.
type lockFile struct {
	Version int `json:"version"`
	// Images are by their full name: "node:22", "herd-runner/agent:latest".
	Images map[string]docker.Pin `json:"images"`
}

func (a *App) imageLockCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "lock [IMAGE | WORKFLOW.yml]...",
		Short: "Write the digests of images into herd.lock, for run --locked",
		Long: `Write the digests of the images that workflows use into herd.lock in the project
directory, for run --locked. Digests are those that the registries have now;
nothing is pulled. Agent images are locked by what they are built from, other
images that were made here by their id.

With arguments, only their images are locked anew and the others stay as they
are. Without, the file has the images of all workflows of the project and no
others.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := a.wantedImages(dir, args)
			if err != nil {
				return err
			}
			lock := lockFile{Version: lockVersion, Images: map[string]docker.Pin{}}
			if len(args) > 0 {
				old, err := readLock(dir)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return problem("%w", err)
				}
				for name, pin := range old.Images {
					lock.Images[name] = pin
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := a.lockImages(ctx, lock, wanted); err != nil {
				if ctx.Err() != nil {
					return shown(exitCancelled)
				}
				return infra(err)
			}
			if err := lock.write(dir); err != nil {
				return infra(fmt.Errorf("write %s: %w", lockName, err))
			}
			return nil
		},
	}
	dirFlag(cmd, &dir)
	return cmd
}

func (a *App) lockImages(ctx context.Context, lock lockFile, wanted []wantedImage) error {
	backend, err := a.connectDocker(ctx, docker.Options{Notice: func(msg string) { fmt.Fprintln(a.Stderr, msg) }})
	if err != nil {
		return err
	}
	defer backend.Close(context.WithoutCancel(ctx))
	for _, image := range wanted {
		spec := image.spec
		if image.named {
			spec.Pull = "missing"
		}
		pin, err := backend.Resolve(ctx, spec)
		if err != nil {
			return err
		}
		if docker.Local(spec.Image) {
			labels, err := backend.ImageLabels(ctx, spec.Image)
			if err != nil {
				return err
			}
			if inputs := labels[images.LabelInputs]; inputs != "" {
				pin = docker.Pin{Labels: map[string]string{images.LabelInputs: inputs}}
			}
		}
		lock.Images[docker.FullName(spec.Image)] = pin
		fmt.Fprintf(a.Stdout, "%s: %s\n", spec.Image, pin)
	}
	return nil
}

// lockError is what is wrong with the lock.
type lockError struct {
	error
	hint string
}

func (e *lockError) Hint() string  { return e.hint }
func (e *lockError) Unwrap() error { return e.error }

// readLock reads the lock of a project; the error says what to do about it.
func readLock(dir string) (lockFile, error) {
	src, err := projectFile(dir)(lockName)
	if err != nil {
		return lockFile{}, fmt.Errorf("%s: %w", lockName, &lockError{err, "write it: herd-runner image lock"})
	}
	var lock lockFile
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	err = d.Decode(&lock)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something stands after its end")
	}
	if err == nil && lock.Version != lockVersion {
		err = fmt.Errorf("its version is %d, expected %d", lock.Version, lockVersion)
	}
	for name, pin := range lock.Images {
		if err == nil && pin.Empty() {
			err = fmt.Errorf("%q has no digest", name)
		}
	}
	if err != nil {
		return lockFile{}, fmt.Errorf("%s: %w", lockName, &lockError{err, "remove it and write it anew: herd-runner image lock"})
	}
	return lock, nil
}

// pin says what a name has to stand for.
func (l lockFile) pin(ref string) (docker.Pin, error) {
	pin, ok := l.Images[docker.FullName(ref)]
	if !ok {
		return pin, &lockError{fmt.Errorf("the image %q is not in %s", ref, lockName), "lock it: herd-runner image lock " + ref}
	}
	return pin, nil
}

// write replaces the file as a whole.
func (l lockFile) write(dir string) error {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+lockName+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, lockName))
}
