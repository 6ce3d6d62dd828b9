package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/herd-runner/herd-runner/internal/enginetest"
)

// busyboxImage is small.
const busyboxImage = enginetest.Busybox

// ownEngine is a Docker engine of one test, which may be killed.
type ownEngine struct {
	*enginetest.Engine
	t   *testing.T
	api *client.Client
}

// newOwnEngine starts one that has the given images of the shared engine.
func newOwnEngine(t *testing.T, images ...string) *ownEngine {
	t.Helper()
	shared := needEngine(t)
	if err := enginetest.ImportBusybox(shared.Client); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		t.Skip("an engine of its own can be started by root alone")
	}
	e := &ownEngine{Engine: enginetest.Docker(t, nil), t: t}
	var err error
	if e.api, err = client.NewClientWithOpts(client.WithHost(e.Address()), client.WithAPIVersionNegotiation()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.api.Close() })

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	saved, err := shared.ImageSave(ctx, images)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	loaded, err := e.api.ImageLoad(ctx, saved)
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Body.Close()
	if said, err := io.ReadAll(loaded.Body); err != nil || bytes.Contains(said, []byte("errorDetail")) {
		t.Fatalf("load %v: %v\n%s", images, err, said)
	}
	return e
}

// machine is one whose engine this is.
func (e *ownEngine) machine() *machine {
	e.t.Helper()
	m := newMachine(e.t, "DOCKER_HOST="+e.Address())
	m.engine = engine{e.api}
	return m
}
