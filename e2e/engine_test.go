package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

const (
	agentImage = "herd-runner/agent:latest"
	hostLabel  = "herd-runner.host"
)

// engine is the real one, with the agent image in it.
type engine struct {
	*client.Client
}

// needEngine begins every test that starts boxes.
func needEngine(t *testing.T) engine {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Docker engine and the agent image")
	}
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatalf("no Docker engine: %v; run `make image`, which starts one where it can", err)
	}
	t.Cleanup(func() { _ = api.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := api.Ping(ctx); err != nil {
		t.Fatalf("no Docker engine: %v; run `make image`, which starts one where it can", err)
	}
	if _, err := api.ImageInspect(ctx, agentImage); err != nil {
		t.Fatalf("%s: %v; run `make image`", agentImage, err)
	}
	return engine{api}
}

// boxes lists the containers, running or not, that runners with this state
// directory have made.
func (e engine) boxes(t *testing.T, state string, more ...string) []container.Summary {
	t.Helper()
	host, err := os.ReadFile(filepath.Join(state, "herd-runner", "host-id"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	f := filters.NewArgs(filters.Arg("label", hostLabel+"="+strings.TrimSpace(string(host))))
	for _, label := range more {
		f.Add("label", label)
	}
	// Also called while a test cleans up, when its own context is over.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	list, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: f})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (e engine) inspect(t *testing.T, id string) (container.InspectResponse, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	got, raw, err := e.ContainerInspectWithRaw(ctx, id, true)
	if err != nil {
		t.Fatalf("inspect %s: %v", id, err)
	}
	return got, string(raw)
}

// exec runs a shell script in a running container from outside, as the box's
// user, who may look into every process but process 1.
func (e engine) exec(t *testing.T, id, script, stdin string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	created, err := e.ContainerExecCreate(ctx, id, container.ExecOptions{
		Cmd: []string{"sh", "-c", script}, AttachStdin: true, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		t.Fatalf("docker exec: %v", err)
	}
	conn, err := e.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		t.Fatalf("docker exec: %v", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	if _, err := conn.Conn.Write([]byte(stdin)); err != nil {
		t.Fatalf("docker exec: %v", err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatalf("docker exec: %v", err)
	}
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, conn.Reader); err != nil {
		t.Fatalf("docker exec: %v\n%s", err, out.String())
	}
	return out.String()
}

// removeBoxes is the tests' own clean-up; a runner that worked has left nothing.
func (e engine) removeBoxes(t *testing.T, state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range e.boxes(t, state) {
		t.Logf("left behind: %s %s (%s), labels %v", c.ID[:12], c.State, c.Status, c.Labels)
		if err := e.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}); err != nil {
			t.Logf("remove %s: %v", c.ID[:12], err)
		}
	}
}
