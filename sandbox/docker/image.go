package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	imagetypes "github.com/docker/docker/api/types/image"

	"github.com/herd-runner/herd-runner/sandbox"
)

// image is one that is there. It is looked up once per run: all boxes of a run
// have the same.
type image struct {
	id   string
	name string // with digest where known
	// digest is what its registry calls it; empty for one that was made here.
	digest string
	env    []string
	// labels say what is in it.
	labels map[string]string
}

// imageCache holds the images that a run has asked for, by name.
type imageCache struct {
	mu    sync.Mutex
	known map[string]*knownImage
}

// knownImage is an image once it was looked up. The rest is who holds turn's.
type knownImage struct {
	turn          chan struct{} // of one: pulls of other images do not wait for it
	image         image
	found, pulled bool
}

func (c *imageCache) of(ref string) *knownImage {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known[ref]
	if !ok {
		if c.known == nil {
			c.known = map[string]*knownImage{}
		}
		known = &knownImage{turn: make(chan struct{}, 1)}
		c.known[ref] = known
	}
	return known
}

// HasImage tells whether the engine has an image, and its id.
func (b *Backend) HasImage(ctx context.Context, ref string) (id string, ok bool, err error) {
	img, ok, err := b.inspect(ctx, ref)
	return img.id, ok, err
}

// ImageName is the name of an image with the digest of its registry, else with
// its id; ref itself where the image is not there.
func (b *Backend) ImageName(ctx context.Context, ref string) (string, error) {
	img, ok, err := b.inspect(ctx, ref)
	if err != nil || !ok {
		return ref, err
	}
	return img.name, nil
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

// OldImages lists the images with a label that have no name any more, because a
// newer one took it, and that no container has: the oldest first.
func (b *Backend) OldImages(ctx context.Context, label string) ([]Image, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.ImageList(ctx, imagetypes.ListOptions{Filters: filters.NewArgs(filters.Arg("label", label), filters.Arg("dangling", "true"))})
	if err != nil {
		return nil, fail(sandbox.KindEngine, "list images", err)
	}
	var list []Image
	for _, s := range got {
		users, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Limit: 1, Filters: filters.NewArgs(filters.Arg("ancestor", s.ID))})
		if err != nil {
			return nil, fail(sandbox.KindEngine, "list containers", err)
		}
		if len(users) == 0 {
			list = append(list, Image{ID: s.ID, Labels: s.Labels, Size: s.Size, Created: time.Unix(s.Created, 0)})
		}
	}
	slices.SortFunc(list, func(x, y Image) int { return x.Created.Compare(y.Created) })
	return list, nil
}

// RemoveImage removes an image that OldImages has listed. One that is used by now
// is left alone, with an error.
func (b *Backend) RemoveImage(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := b.api.ImageRemove(ctx, id, imagetypes.RemoveOptions{PruneChildren: true}); err != nil && !errdefs.IsNotFound(err) {
		return fail(sandbox.KindEngine, "remove image", err)
	}
	return nil
}

func (b *Backend) inspect(ctx context.Context, ref string) (image, bool, error) {
	if ref == "" {
		return image{}, false, badSpec("no image is named")
	}
	if _, err := reference.ParseAnyReference(ref); err != nil {
		return image{}, false, badSpec("image %q: %v", ref, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return image{}, false, nil
	}
	if err != nil {
		return image{}, false, fail(sandbox.KindEngine, "inspect image", err)
	}
	if got.Os != "" && got.Os != "linux" {
		return image{}, false, &sandbox.Error{Kind: sandbox.KindImage, Op: "inspect image", Err: fmt.Errorf("image %q is for %s, boxes are Linux", ref, got.Os)}
	}
	img := image{id: got.ID, name: ref + "@" + got.ID, digest: digestAmong(got.RepoDigests, ref)}
	if img.digest != "" {
		img.name = repository(ref) + "@" + img.digest
	}
	if got.Config != nil {
		img.env, img.labels = got.Config.Env, got.Config.Labels
	}
	return img, true, nil
}

// image finds the spec's image and pulls it where it may.
func (b *Backend) image(ctx context.Context, spec sandbox.Spec) (image, error) {
	spec, pin, err := b.pinned(spec)
	if err != nil {
		return image{}, err
	}
	known := b.images.of(spec.Image)
	select {
	case known.turn <- struct{}{}:
		defer func() { <-known.turn }()
	case <-ctx.Done():
		return image{}, fail(sandbox.KindImage, "find image", ctx.Err())
	}
	pull := spec.Pull == "always" && pullable(spec) && digestIn(spec.Image) == "" && !known.pulled
	if known.found && !pull {
		return known.image, nil
	}
	img, ok, err := b.inspect(ctx, spec.Image)
	if err != nil {
		return image{}, err
	}
	if pull || !ok && pullable(spec) {
		if err := b.pullForBox(ctx, spec.Image); err != nil {
			return image{}, err
		}
		known.pulled = true
		if img, ok, err = b.inspect(ctx, spec.Image); err != nil {
			return image{}, err
		}
	}
	if !ok {
		return image{}, b.noImage(spec)
	}
	if err := pin.check(spec.Image, img); err != nil {
		return image{}, err
	}
	known.image, known.found = img, true
	return img, nil
}

// Local says whether an image is built here and never asked of a registry.
func Local(ref string) bool {
	named, err := reference.ParseNormalizedNamed(ref)
	return strings.HasPrefix(ref, ours) || err == nil && strings.HasPrefix(reference.FamiliarName(named), ours)
}

const ours = "herd-runner/"

func pullable(s sandbox.Spec) bool {
	return s.Pull != "never" && !Local(s.Image) && !strings.HasPrefix(s.Image, "sha256:")
}

func (b *Backend) noImage(s sandbox.Spec) error {
	hint := fmt.Sprintf("pull it: herd-runner image pull %s; or leave pull: never out", s.Image)
	switch {
	case Local(s.Image) && b.opts.BuildAdvice != nil:
		hint = b.opts.BuildAdvice(s.Image)
	case Local(s.Image):
		hint = "build it; images " + ours + "… are never pulled"
	case strings.HasPrefix(s.Image, "sha256:"):
		hint = "an image that is named by its id alone can not be pulled: name it NAME@sha256:DIGEST"
	}
	return &sandbox.Error{Kind: sandbox.KindImage, Op: "find image", Advice: hint, Err: fmt.Errorf("the engine has no image %q", s.Image)}
}
