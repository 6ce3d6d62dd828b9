package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/herd-runner/herd-runner/sandbox"
)

// Listed is a box that the engine has, for people.
type Listed struct {
	ID       string    `json:"id"`
	State    string    `json:"state"`
	Project  string    `json:"project"` // directory
	Workflow string    `json:"workflow"`
	Run      string    `json:"run"`
	Job      string    `json:"job"`
	Step     string    `json:"step"`
	Image    string    `json:"image"`
	Created  time.Time `json:"created"`
	Session  string    `json:"session,omitempty"` // directory on this machine
	Bytes    int64     `json:"bytes"`             // what it has written, its session included
}

// The states of a box.
const (
	StateRunning = "running" // a live runner's, or one that is being looked at
	StateKept    = "kept"    // to look at
	StateReused  = "reused"  // kept for the next run
	StateLeft    = "left"    // by a dead runner
)

// List gives the boxes of this machine's runners, newest first.
func (b *Backend) List(ctx context.Context) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := b.api.ContainerList(ctx, container.ListOptions{All: true, Size: true, Filters: b.oursFilter(labelRole + "=box")})
	if err != nil {
		return nil, fail(sandbox.KindEngine, "list containers", err)
	}
	boxes := make([]Listed, len(list))
	for i, c := range list {
		l := c.Labels
		boxes[i] = Listed{
			ID: c.ID, State: b.stateOf(c), Project: l[labelProject], Workflow: l[labelWorkflow], Run: l[labelRun], Job: l[labelJob], Step: l[labelStep],
			Image: c.Image, Created: time.Unix(c.Created, 0), Session: l[labelSession],
			Bytes: max(c.SizeRw, 0) + treeSize(l[labelSession]),
		}
	}
	slices.SortStableFunc(boxes, func(a, b Listed) int { return b.Created.Compare(a.Created) })
	return boxes, nil
}

func (b *Backend) stateOf(c container.Summary) string {
	switch {
	case sessionInUse(c.Labels[labelSession]) && c.State == container.StateRunning, !b.lease.dead(c.Labels[labelLease]) && !ended(c):
		return StateRunning
	case c.Labels[labelKeep] == keptToReuse:
		return StateReused
	case c.Labels[labelKeep] == keptToSee:
		return StateKept
	case !b.lease.dead(c.Labels[labelLease]):
		return StateRunning // it is just being removed
	}
	return StateLeft
}

// treeSize is how many bytes the files of a session have; links are not followed.
func treeSize(dir string) (n int64) {
	if dir == "" {
		return 0
	}
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // what can not be read is not counted
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// Session is the directory of a box.
type Session struct {
	Dir   string
	Bytes int64
}

// Abandoned finds the sessions below dir that were made with this engine and
// that none of its boxes has.
func (b *Backend) Abandoned(ctx context.Context, dir string) ([]Session, error) {
	list, err := b.ours(ctx)
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, c := range list {
		used[c.Labels[labelSession]] = true
	}
	var found []Session
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == dir:
			return fs.SkipAll
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		}
		if maker, err := os.ReadFile(filepath.Join(name, sessionLock)); err == nil {
			if string(maker) == b.maker() && !used[name] && !sessionInUse(name) {
				found = append(found, Session{name, treeSize(name)})
			}
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}

// Remove removes a session that nobody uses.
func (s Session) Remove() error { return removeSession(s.Dir) }

// Find gives the one box that id, the beginning of an id, names.
func (b *Backend) Find(ctx context.Context, id string) (Listed, error) {
	boxes, err := b.List(ctx)
	if err != nil {
		return Listed{}, err
	}
	var found []Listed
	for _, x := range boxes {
		if id != "" && strings.HasPrefix(x.ID, id) {
			found = append(found, x)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Listed{}, noBox(fmt.Errorf("there is no box %q", id), "herd-runner box ls lists them")
	}
	return Listed{}, noBox(fmt.Errorf("%d boxes begin with %q", len(found), id), "give more of the id")
}

func noBox(err error, advice string) error {
	return &sandbox.Error{Kind: sandbox.KindConfig, Op: "find box", Advice: advice, Err: err}
}

// Remove removes a box that no live runner uses, and its session.
func (b *Backend) Remove(ctx context.Context, x Listed) error {
	if x.State == StateRunning {
		return &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "remove box", Err: fmt.Errorf("box %.12s is in use by run %s", x.ID, x.Run),
			Advice: "end the run first: herd-runner cancel " + x.Run,
		}
	}
	if err := b.remove(ctx, x.ID); err != nil {
		return err
	}
	if x.Session == "" {
		return nil
	}
	others, err := b.ours(ctx, labelSession+"="+x.Session)
	if err != nil || len(others) > 0 { // a retry has the same session
		return err
	}
	return removeSession(x.Session)
}
