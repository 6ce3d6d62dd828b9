package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/herd-runner/herd-runner/images"
)

// importImage makes an image of one empty directory with labels, for this test.
func (e engine) importImage(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o777}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var changes []string
	for key, value := range labels {
		changes = append(changes, "LABEL "+key+"="+value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	said, err := e.ImageImport(ctx, image.ImportSource{Source: &archive, SourceName: "-"}, name, image.ImportOptions{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	if _, err := io.Copy(io.Discard, said); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := e.ImageRemove(ctx, name, image.RemoveOptions{}); err != nil && !errdefs.IsNotFound(err) {
			t.Errorf("remove %s: %v", name, err)
		}
	})
}

// FR-013: a step whose image says that it lacks the step's engine never starts,
// and the error has the command that builds the right image.
func TestAnImageWithoutTheEngine(t *testing.T) {
	m := newMachine(t, "ANTHROPIC_API_KEY=sk-ant-of-this-test")
	m.engine.importImage(t, "herd-test/codex-only:1", map[string]string{
		images.LabelEngines: "codex", images.LabelVersion + "codex": "0.169.0",
	})
	dir := newProject(t, map[string]string{"README.md": "a project\n"})
	flow := "on: workflow_dispatch\njobs:\n  a:\n    steps:\n      - prompt: Say hello.\n        runtime: {type: cli, engine: claude}\n        docker: herd-test/codex-only:1\n"
	got := m.run(t, dir, flow)
	if got.code != 3 {
		t.Errorf("exit code %d, want 3", got.code)
	}
	for _, want := range []string{
		"flow.yml:6:", `the image "herd-test/codex-only:1" lacks claude, it has codex`,
		"herd-runner image build --engines claude,codex", "docker: {image: herd-runner/agent:claude-codex}",
	} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in:\n%s", want, got.stderr)
		}
	}
	list := m.call(t, "image", "list", "--json")
	var found []struct {
		Tags    []string
		Engines map[string]string
	}
	if err := json.Unmarshal([]byte(list.stdout), &found); err != nil || list.code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", list.code, err, list.stdout, list.stderr)
	}
	var agent, ours bool
	for _, image := range found {
		for _, tag := range image.Tags {
			agent = agent || tag == agentImage && image.Engines["claude"] != ""
			ours = ours || tag == "herd-test/codex-only:1" && image.Engines["codex"] == "0.169.0"
		}
	}
	if !agent || !ours {
		t.Errorf("%s and the image of this test should be in:\n%s", agentImage, list.stdout)
	}
}

// FR-013: images that newer builds have replaced are removed when asked for, not
// one that a kept box has, nor one with a name, nor another program's.
func TestCleanImages(t *testing.T) {
	m := newMachine(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const name = "herd-test/replaced:1"
	made := map[string]string{}
	build := func(what string, labels map[string]string) {
		t.Helper()
		labels["herd-test"] = what
		m.engine.importImage(t, name, labels)
		got, err := m.engine.ImageInspect(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		made[what] = got.ID
	}
	agent := func(more string) map[string]string {
		return map[string]string{images.LabelEngines: "claude", images.LabelVersion + "claude": "0.0." + more}
	}
	build("unused", agent("1"))
	build("used", agent("2"))
	kept, err := m.engine.ContainerCreate(ctx, &container.Config{Image: made["used"], Cmd: []string{"x"}}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.engine.ContainerRemove(context.Background(), kept.ID, container.RemoveOptions{Force: true})
		_, _ = m.engine.ImageRemove(context.Background(), made["used"], image.RemoveOptions{})
	})
	build("other", map[string]string{})
	t.Cleanup(func() { _, _ = m.engine.ImageRemove(context.Background(), made["other"], image.RemoveOptions{}) })
	build("named", agent("3"))

	there := func(what string) bool {
		_, err := m.engine.ImageInspect(ctx, made[what])
		return err == nil
	}
	short := strings.TrimPrefix(made["unused"], "sha256:")[:12]
	dir := newProject(t, nil)
	if r := m.call(t, "clean", "-C", dir).wantCode(t, 0); strings.Contains(r.stdout, "image") {
		t.Errorf("images without being asked: %s", r.stdout)
	}
	dry := m.call(t, "clean", "-C", dir, "--images", "--dry-run").wantCode(t, 0)
	if !strings.Contains(dry.stdout, "would remove agent image "+short) || !strings.Contains(dry.stdout, "(claude 0.0.1), which a newer one replaced") || !there("unused") {
		t.Errorf("dry run: %s", dry.stdout)
	}
	r := m.call(t, "clean", "-C", dir, "--images").wantCode(t, 0)
	if !strings.Contains(r.stdout, "removed agent image "+short) || there("unused") {
		t.Errorf("got %s", r.stdout)
	}
	for _, what := range []string{"used", "other", "named"} {
		if !there(what) || strings.Contains(r.stdout, strings.TrimPrefix(made[what], "sha256:")[:12]) {
			t.Errorf("the image %s was removed:\n%s", what, r.stdout)
		}
	}
}
