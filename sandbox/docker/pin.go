package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Pin is the one image that a name may stand for. What is empty is not asked.
type Pin struct {
	// Digest is what the image's registry calls it: "sha256:…".
	Digest string `json:"digest,omitempty"`
	// ID is what engines call an image that no registry has.
	ID string `json:"id,omitempty"`
	// Labels are some that it has.
	Labels map[string]string `json:"labels,omitempty"`
}

// Empty says that nothing is asked.
func (p Pin) Empty() bool { return p.Digest == "" && p.ID == "" && len(p.Labels) == 0 }

// String is for people.
func (p Pin) String() string {
	said := []string{}
	if p.Digest != "" {
		said = append(said, p.Digest)
	}
	if p.ID != "" {
		said = append(said, "id "+p.ID)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		said = append(said, name+"="+p.Labels[name])
	}
	return strings.Join(said, ", ")
}

// pinned is the spec with the image's digest where one is asked for.
func (b *Backend) pinned(spec sandbox.Spec) (sandbox.Spec, Pin, error) {
	if b.opts.Pin == nil {
		return spec, Pin{}, nil
	}
	pin, err := b.opts.Pin(spec.Image)
	if err != nil {
		return spec, Pin{}, locked(err)
	}
	if pin.Digest == "" {
		return spec, pin, nil
	}
	if named := digestIn(spec.Image); named != "" && named != pin.Digest {
		return spec, pin, locked(&PinError{Image: spec.Image, Want: pin.Digest, Found: named})
	}
	spec.Image = repository(spec.Image) + "@" + pin.Digest
	return spec, pin, nil
}

// check compares an image with what was asked of it. The digest is in its name.
func (p Pin) check(ref string, img image) error {
	if p.ID != "" && img.id != p.ID {
		return locked(&PinError{Image: ref, Want: p.ID, Found: img.id})
	}
	for name, want := range p.Labels {
		if got := img.labels[name]; got != want {
			return locked(&PinError{Image: ref, Want: name + "=" + want, Found: name + "=" + got})
		}
	}
	return nil
}

// PinError says that an image is another than the one asked for.
type PinError struct{ Image, Want, Found string }

// Hint says what to do next.
func (e *PinError) Hint() string {
	return "have the locked image, by its digest or built anew; or lock the one that is there: herd-runner image lock " + e.Image
}

func (e *PinError) Error() string {
	return fmt.Sprintf("the image %q is %s, it must be %s", e.Image, e.Found, e.Want)
}

// locked keeps the advice that err may have.
func locked(err error) error {
	out := &sandbox.Error{Kind: sandbox.KindLocked, Op: "find locked image", Err: err}
	var hint interface{ Hint() string }
	if errors.As(err, &hint) {
		out.Advice = hint.Hint()
	}
	return out
}

// preflightImage reports why a box can not have its image.
func (b *Backend) preflightImage(ctx context.Context, spec sandbox.Spec) error {
	spec, pin, err := b.pinned(spec)
	if err != nil {
		return err
	}
	img, ok, err := b.inspect(ctx, spec.Image)
	switch {
	case err != nil:
		return err
	case ok:
		return pin.check(spec.Image, img)
	case !pullable(spec):
		return b.noImage(spec)
	}
	_, err = b.inRegistry(ctx, spec.Image)
	return err
}

// Resolve gives the pin of the image that a box with this spec would have now: by
// the digest that the registry has for it, or by its id where it was made here.
// It pulls nothing.
func (b *Backend) Resolve(ctx context.Context, spec sandbox.Spec) (Pin, error) {
	if digest := digestIn(spec.Image); digest != "" {
		return Pin{Digest: digest}, nil
	}
	img, ok, err := b.inspect(ctx, spec.Image)
	switch {
	case err != nil:
		return Pin{}, err
	case pullable(spec) && (!ok || img.digest != "" || spec.Pull == "always"):
		digest, err := b.inRegistry(ctx, spec.Image)
		return Pin{Digest: digest}, err
	case !ok:
		return Pin{}, b.noImage(spec)
	case img.digest != "":
		return Pin{Digest: img.digest}, nil
	}
	return Pin{ID: img.id}, nil
}

// FullName is the name of an image with the tag that it has where none is said;
// what is no such name stays as it is.
func FullName(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return reference.FamiliarString(reference.TagNameOnly(named))
}

// repository is the name of an image without tag and digest.
func repository(ref string) string {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return ref
	}
	return reference.FamiliarName(named)
}

// digestIn is the digest in the name of an image; empty where there is none.
func digestIn(ref string) string {
	_, digest, _ := strings.Cut(ref, "@")
	return digest
}

// digestAmong is the digest that an image has in the repository of ref.
func digestAmong(digests []string, ref string) string {
	for _, d := range digests {
		if name, digest, _ := strings.Cut(d, "@"); name == repository(ref) {
			return digest
		}
	}
	return ""
}
