package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	imagetypes "github.com/docker/docker/api/types/image"
	"github.com/docker/go-units"

	"github.com/herd-runner/herd-runner/sandbox"
)

const (
	// pullSilence ends a pull that the engine says nothing of. How long one takes
	// in all is the network's affair.
	pullSilence = 5 * time.Minute
	// noticeEvery is how often a pull within a run tells how far it is.
	noticeEvery = 5 * time.Second
)

// PullProgress is how far a pull is.
type PullProgress struct {
	Layers, Done int   // known so far, and there
	Bytes, Total int64 // of the layers whose size is known
}

// String is for people: "2 of 5 layers, 30MB of 120MB".
func (p PullProgress) String() string {
	said := fmt.Sprintf("%d of %d layers", p.Done, p.Layers)
	if p.Total > 0 {
		said += fmt.Sprintf(", %s of %s", units.HumanSize(float64(p.Bytes)), units.HumanSize(float64(p.Total)))
	}
	return said
}

// WouldPull says whether a box with this spec has its image pulled first. An image
// that is neither there nor pulled is an error.
func (b *Backend) WouldPull(ctx context.Context, spec sandbox.Spec) (bool, error) {
	_, ok, err := b.inspect(ctx, spec.Image)
	switch {
	case err != nil:
		return false, err
	case !pullable(spec) && !ok:
		return false, b.noImage(spec)
	}
	return pullable(spec) && (!ok || spec.Pull == "always" && digestIn(spec.Image) == ""), nil
}

// Pull has the engine fetch an image anew, with the login that the user has for
// its registry. An image that is named by digest has it, else the pull fails.
// Local images must not be asked for. progress is called from this goroutine,
// often.
func (b *Backend) Pull(ctx context.Context, ref string, progress func(PullProgress)) error {
	who := b.login(ctx, ref)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(pullSilence, func() {
		cancel(fmt.Errorf("the engine said nothing of the pull for %s", pullSilence))
	})
	defer silence.Stop()
	err := b.pull(ctx, ref, who, func(p PullProgress) {
		silence.Reset(pullSilence)
		progress(p)
	})
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return notPulled(ref, who, err)
}

func (b *Backend) pull(ctx context.Context, ref string, who login, progress func(PullProgress)) error {
	r, err := b.api.ImagePull(ctx, ref, imagetypes.PullOptions{RegistryAuth: who.header})
	if err != nil {
		return err
	}
	defer r.Close()
	said := json.NewDecoder(r)
	layers := layers{}
	for {
		var m pullMessage
		switch err := said.Decode(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
		layers.add(m)
		progress(layers.sum())
	}
}

// pullMessage is what the engine says while it pulls.
type pullMessage struct {
	ID, Status, Error string
	ProgressDetail    struct{ Current, Total int64 }
}

type layer struct {
	done         bool
	bytes, total int64
}

// layers are those of one image, by id.
type layers map[string]*layer

func (l layers) add(m pullMessage) {
	if m.ID == "" || strings.HasPrefix(m.Status, "Pulling from") {
		return
	}
	at := l[m.ID]
	if at == nil {
		at = &layer{}
		l[m.ID] = at
	}
	switch m.Status {
	case "Downloading":
		at.bytes, at.total = m.ProgressDetail.Current, max(m.ProgressDetail.Total, m.ProgressDetail.Current)
	case "Verifying Checksum", "Download complete", "Extracting":
		at.bytes = at.total
	case "Pull complete", "Already exists":
		at.done, at.bytes = true, at.total
	}
}

func (l layers) sum() PullProgress {
	p := PullProgress{Layers: len(l)}
	for _, at := range l {
		if at.done {
			p.Done++
		}
		p.Bytes += at.bytes
		p.Total += at.total
	}
	return p
}

// pullForBox pulls within a run and tells of it as a notice.
func (b *Backend) pullForBox(ctx context.Context, ref string) error {
	b.opts.Notice("pulling " + ref)
	last := time.Now()
	return b.Pull(ctx, ref, func(p PullProgress) {
		if time.Since(last) >= noticeEvery {
			last = time.Now()
			b.opts.Notice(fmt.Sprintf("pulling %s: %s", ref, p))
		}
	})
}

// inRegistry gives the digest that an image has at its registry.
func (b *Backend) inRegistry(ctx context.Context, ref string) (digest string, err error) {
	who := b.login(ctx, ref)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	got, err := b.api.DistributionInspect(ctx, ref, who.header)
	if err != nil {
		return "", notPulled(ref, who, err)
	}
	return got.Descriptor.Digest.String(), nil
}

func notPulled(ref string, who login, err error) error {
	advice := "check the name, and that the registry can be reached from the engine"
	switch {
	case !refused(err):
	case who.header != "":
		err = fmt.Errorf("%s does not accept the login of %s from %s: %w", who.registry, who.user, who.origin, err)
		advice = "log in again: docker login " + who.registry + "; or check that this login may read the image"
	case who.err != nil:
		err = fmt.Errorf("%s wants a login, and %w (%w)", who.registry, who.err, err)
		advice = "log in again: docker login " + who.registry
	default:
		err = fmt.Errorf("%s wants a login, or has no such image: %w", who.registry, err)
		advice = "check the name, or log in: docker login " + who.registry
	}
	return &sandbox.Error{Kind: sandbox.KindImage, Op: "pull image", Err: fmt.Errorf("%q: %w", ref, err), Advice: advice}
}

// refused says whether a registry wants another login. Engines pass on what the
// registry has said, and only some of them as a status.
func refused(err error) bool {
	if errdefs.IsUnauthorized(err) || errdefs.IsPermissionDenied(err) {
		return true
	}
	said := err.Error()
	for _, words := range []string{"no basic auth credentials", "unauthorized", "denied: ", "access to the resource is denied", "authentication required"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}
