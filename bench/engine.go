package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

// benchLabel marks what this program starts on the engine.
const benchLabel = "herd-bench"

// engine makes the bare calls that a container costs, with the settings that
// herd-runner hardens a box with.
type engine struct {
	client           *client.Client
	image, workspace string
}

func (e *engine) create(ctx context.Context, network string, cmd ...string) (string, error) {
	pids := int64(512)
	created, err := e.client.ContainerCreate(ctx, &container.Config{
		Image: e.image, Cmd: cmd, User: "1000:1000", WorkingDir: "/workspace",
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Labels: map[string]string{benchLabel: "1"},
	}, &container.HostConfig{
		NetworkMode:    container.NetworkMode(network),
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		Tmpfs:          map[string]string{"/tmp": "size=268435456", "/run": "size=16777216"},
		Binds:          []string{e.workspace + ":/workspace"},
		LogConfig:      container.LogConfig{Type: "none"},
		Resources:      container.Resources{Memory: 2 << 30, MemorySwap: 2 << 30, PidsLimit: &pids},
	}, nil, nil, "")
	if err != nil {
		return "", fmt.Errorf("create container: %w", err)
	}
	return created.ID, nil
}

// whole is one container's life: create, attach, start, its end, remove.
func (e *engine) whole(ctx context.Context, network string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	id, err := e.create(ctx, network, "true")
	if err != nil {
		return err
	}
	defer e.remove(id)
	stream, err := e.client.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	defer stream.Close()
	ended, failed := e.client.ContainerWait(ctx, id, container.WaitConditionNextExit)
	if err := e.client.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if _, err := io.Copy(io.Discard, stream.Reader); err != nil {
		return fmt.Errorf("read output: %w", err)
	}
	select {
	case exit := <-ended:
		if exit.StatusCode != 0 {
			return fmt.Errorf("the container ended with %d", exit.StatusCode)
		}
		return nil
	case err := <-failed:
		return fmt.Errorf("wait: %w", err)
	}
}

// idle starts a container that does nothing, for its network namespace or for
// exec; the caller removes it.
func (e *engine) idle(ctx context.Context) (string, error) {
	id, err := e.create(ctx, "none", "sleep", "3600")
	if err != nil {
		return "", err
	}
	if err := e.client.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		e.remove(id)
		return "", fmt.Errorf("start: %w", err)
	}
	return id, nil
}

// remove ends and removes a container, also after an interrupt.
func (e *engine) remove(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := e.client.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}); err != nil {
		fmt.Printf("container %.12s could not be removed: %v\n", id, err)
	}
}

// execTime is the time of one `docker exec true` in a running container.
func (e *engine) execTime(ctx context.Context) (time.Duration, error) {
	id, err := e.idle(ctx)
	if err != nil {
		return 0, err
	}
	defer e.remove(id)
	return median(21, func() (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		start := time.Now()
		created, err := e.client.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: []string{"bash", "-e", "-c", "true"}, AttachStdout: true, AttachStderr: true})
		if err != nil {
			return 0, fmt.Errorf("exec: %w", err)
		}
		stream, err := e.client.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
		if err != nil {
			return 0, fmt.Errorf("exec: %w", err)
		}
		defer stream.Close()
		if _, err := io.Copy(io.Discard, stream.Reader); err != nil {
			return 0, fmt.Errorf("exec: read output: %w", err)
		}
		state, err := e.client.ContainerExecInspect(ctx, created.ID)
		if err == nil && state.ExitCode != 0 {
			err = fmt.Errorf("exec ended with %d", state.ExitCode)
		}
		return time.Since(start), err
	})
}
