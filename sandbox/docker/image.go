package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	imagetypes "github.com/docker/docker/api/types/image"

	"github.com/herd-runner/herd-runner/sandbox"
)

// image is one that is there. It is looked up once per run: all boxes of a run
// have the same.
type image struct {
	id   string
	name string // with digest where known
	env  []string
	// labels say what is in it.
	labels map[string]string
}

type imageCache struct {
	mu    sync.Mutex
	known map[string]image
}

// HasImage tells whether the engine has an image, and its id.
func (b *Backend) HasImage(ctx context.Context, ref string) (id string, ok bool, err error) {
	img, ok, err := b.inspect(ctx, ref)
	return img.id, ok, err
}

// ImageLabels are the labels of an image; nil where it is not there.
func (b *Backend) ImageLabels(ctx context.Context, ref string) (map[string]string, error) {
	img, _, err := b.inspect(ctx, ref)
	return img.labels, err
}

// Image is one that the engine has.
type Image struct {
	ID      string
	Tags    []string // sorted
	Labels  map[string]string
	Size    int64 // bytes
	Created time.Time
}

// Images lists the images with a label that have a name, by their first one.
func (b *Backend) Images(ctx context.Context, label string) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.ImageList(ctx, imagetypes.ListOptions{Filters: filters.NewArgs(filters.Arg("label", label))})
	if err != nil {
		return nil, fail(sandbox.KindEngine, "list images", err)
	}
	var list []Image
	for _, s := range got {
		tags := slices.DeleteFunc(s.RepoTags, func(tag string) bool { return tag == "<none>:<none>" })
		if len(tags) == 0 {
			continue
		}
		slices.Sort(tags)
		list = append(list, Image{ID: s.ID, Tags: tags, Labels: s.Labels, Size: s.Size, Created: time.Unix(s.Created, 0)})
	}
	slices.SortFunc(list, func(x, y Image) int { return strings.Compare(x.Tags[0], y.Tags[0]) })
	return list, nil
}

func (b *Backend) inspect(ctx context.Context, ref string) (image, bool, error) {
	if ref == "" {
		return image{}, false, badSpec("no image is named")
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return image{}, false, nil
	}
	if errdefs.IsInvalidArgument(err) {
		return image{}, false, badSpec("image %q: %v", ref, err)
	}
	if err != nil {
		return image{}, false, fail(sandbox.KindEngine, "inspect image", err)
	}
	if got.Os != "" && got.Os != "linux" {
		return image{}, false, &sandbox.Error{Kind: sandbox.KindImage, Op: "inspect image", Err: fmt.Errorf("image %q is for %s, boxes are Linux", ref, got.Os)}
	}
	img := image{id: got.ID, name: ref + "@" + got.ID}
	for _, d := range got.RepoDigests {
		img.name = d
		break
	}
	if got.Config != nil {
		img.env, img.labels = got.Config.Env, got.Config.Labels
	}
	return img, true, nil
}

// image finds the spec's image and pulls it where it may.
func (b *Backend) image(ctx context.Context, spec sandbox.Spec) (image, error) {
	b.images.mu.Lock()
	defer b.images.mu.Unlock()
	if img, ok := b.images.known[spec.Image]; ok {
		return img, nil
	}
	img, ok, err := b.inspect(ctx, spec.Image)
	if err != nil {
		return image{}, err
	}
	if (!ok || spec.Pull == "always") && pullable(spec) {
		if err := b.pull(ctx, spec.Image); err != nil {
			return image{}, err
		}
		if img, ok, err = b.inspect(ctx, spec.Image); err != nil {
			return image{}, err
		}
	}
	if !ok {
		return image{}, noImage(spec)
	}
	if b.images.known == nil {
		b.images.known = map[string]image{}
	}
	b.images.known[spec.Image] = img
	return img, nil
}

// local images are built here and never asked of a registry.
func localImage(ref string) bool { return strings.HasPrefix(ref, "herd-runner/") }

func pullable(s sandbox.Spec) bool {
	return s.Pull != "never" && !localImage(s.Image) && !strings.HasPrefix(s.Image, "sha256:")
}

// buildCommand makes a local image: tags of the agent image are sets of engines.
func buildCommand(ref string) string {
	name, tag, _ := strings.Cut(ref, ":")
	switch {
	case name != "herd-runner/agent":
		return "herd-runner image build --tag " + ref
	case tag == "" || tag == "latest":
		return "herd-runner image build"
	}
	return "herd-runner image build --engines " + strings.ReplaceAll(tag, "-", ",")
}

func noImage(s sandbox.Spec) error {
	hint := fmt.Sprintf("pull it (docker pull %s), or leave pull: never out", s.Image)
	if localImage(s.Image) {
		hint = "build it: " + buildCommand(s.Image) + "; or name another one in docker.image"
	}
	return &sandbox.Error{Kind: sandbox.KindImage, Op: "find image", Advice: hint, Err: fmt.Errorf("the engine has no image %q", s.Image)}
}

// inRegistry asks whether an image that is not here could be pulled.
func (b *Backend) inRegistry(ctx context.Context, ref string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := b.api.DistributionInspect(ctx, ref, ""); err != nil {
		return notPulled(ref, fmt.Errorf("the engine does not have it, and no registry gives it: %w", err))
	}
	return nil
}

func notPulled(ref string, err error) error {
	return &sandbox.Error{
		Kind: sandbox.KindImage, Op: "pull image", Err: fmt.Errorf("%q: %w", ref, err),
		Advice: "check the name, that the registry can be reached from the engine, and that the engine may log in to it",
	}
}

// pull is bounded by ctx alone: how long it takes is the network's affair.
func (b *Backend) pull(ctx context.Context, ref string) error {
	b.opts.Notice("pulling " + ref)
	failed := func(err error) error { return notPulled(ref, err) }
	r, err := b.api.ImagePull(ctx, ref, imagetypes.PullOptions{})
	if err != nil {
		return failed(err)
	}
	defer r.Close()
	progress := json.NewDecoder(r)
	last := time.Now()
	for {
		var m struct {
			Status, Progress, Error string
		}
		switch err := progress.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failed(err)
		case m.Error != "":
			return failed(errors.New(m.Error))
		}
		if m.Progress != "" && time.Since(last) > 5*time.Second {
			last = time.Now()
			b.opts.Notice(fmt.Sprintf("pulling %s: %s %s", ref, m.Status, m.Progress))
		}
	}
}
