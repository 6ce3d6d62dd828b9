package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/internal/carry"
)

const (
	carryTime = 15 * time.Minute // one way of the changes of one directory
	// killedTime is what is left of it once a person kills the run.
	killedTime = 5 * time.Second
	// couriers are the processes that the courier runs at most at a time.
	couriers = 8
	// spareDisk is what is left free on this machine's disk, in bytes.
	spareDisk = 512 << 20
	// worthTelling is how many bytes are sent without a word.
	worthTelling = 8 << 20
)

// carrier is how boxes of an engine that has other files than this machine work
// on ours: what they mount is copied to a volume of the run. What this machine has
// changed is sent before a process starts in a box, what boxes have changed is
// brought back when it has ended, so that everybody else finds on this machine
// what lies there with any engine.
type carrier struct {
	starting sync.Mutex // held while the courier is started, or ended
	closed   bool

	mu      sync.Mutex
	courier *courier
	copies  map[string]*replica // by source
	made    int
	told    map[string]bool // what the person was told
}

// replica is the engine's copy of one directory or file.
type replica struct {
	source string
	number string // its name in the volume
	// own is a HOME or a temporary directory: nobody on this machine looks there.
	own bool
	// writable: some box may change it.
	writable bool
	// over are the names in it over which boxes have other mounts.
	over map[string]bool

	mu         sync.Mutex
	known      carry.Stamps // how the source was when both were the same; nil: nothing was sent
	generation uint64
	cut        bool // a change was sent in part only
}

// Sees tells whether the engine has this machine's files in a directory. Where
// it has no image yet that is not found out, and the answer is no.
func (b *Backend) Sees(ctx context.Context, dir string) (bool, error) {
	if b.Local() {
		return true, nil
	}
	id, err := b.anyImage(ctx)
	if err != nil || id == "" {
		return false, err
	}
	return b.sharesFiles(ctx, dir, image{id: id})
}

// carriable says why a box can not be had by an engine with other files.
func (b *Backend) carriable(spec sandbox.Spec) error {
	refuse := func(what, advice string) error {
		return &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "prepare box", Advice: advice,
			Err: fmt.Errorf("the engine at %s has other files than this machine: %s", b.address, what),
		}
	}
	if spec.Keep {
		return refuse("a box that is kept has its HOME here, and could not be started again", "leave `reuse` and `ephemeral: false` out, or run herd-runner on the engine's machine")
	}
	for _, m := range spec.Mounts {
		if m.Here {
			return refuse(m.Source+" is not there, only the project is carried", "leave the volume out, what is in the project is in the box anyway; or run herd-runner on the engine's machine")
		}
	}
	return nil
}

// checkSize says why a project is too large to be carried.
func (b *Backend) checkSize(project string) error {
	root, err := os.OpenRoot(project)
	if err != nil {
		return fail(sandbox.KindAccess, "look at the project", err)
	}
	defer root.Close()
	limits := carry.Default
	limits.Skip = func(name string) bool { return name == ".herd" }
	if _, err := carry.Look(root, ".", nil, limits); err != nil {
		return b.carryError("look at the project", project, err)
	}
	return nil
}

func (b *Backend) carryError(op, source string, err error) error {
	serr := &sandbox.Error{Kind: sandbox.KindEngine, Op: op, Err: fmt.Errorf("%s: %w", source, err)}
	var large *carry.TooLarge
	if errors.As(err, &large) {
		serr.Kind = sandbox.KindConfig
		serr.Advice = fmt.Sprintf("the engine at %s has other files than this machine, so they are copied; leave out what is not needed, or run herd-runner on the engine's machine", b.address)
	}
	return serr
}

// carry gives a spec whose mounts are the engine's copies, brought up to date.
func (b *Backend) carry(ctx context.Context, spec sandbox.Spec, img image) (sandbox.Spec, []*replica, error) {
	if err := b.carriable(spec); err != nil {
		return spec, nil, err
	}
	at, err := b.startCourier(ctx, spec, img)
	if err != nil {
		return spec, nil, err
	}
	mounts := make([]sandbox.Mount, len(spec.Mounts))
	var list []*replica
	for i, m := range spec.Mounts {
		mounts[i] = m
		if m.Source == "" {
			continue
		}
		r := b.carrier.replica(m, spec)
		mounts[i].Source = path.Join(at.dir, r.number)
		list = append(list, r)
	}
	spec.Mounts = mounts
	b.dropGone(ctx)
	return spec, list, b.sendAll(ctx, list)
}

// replica is that of a mount of spec.
func (c *carrier) replica(m sandbox.Mount, spec sandbox.Spec) *replica {
	c.mu.Lock()
	r := c.copies[m.Source]
	if r == nil {
		c.made++
		r = &replica{source: m.Source, number: strconv.Itoa(c.made), over: map[string]bool{}}
		r.own = m.Target == spec.Home || m.Target == spec.Temp
		if c.copies == nil {
			c.copies = map[string]*replica{}
		}
		c.copies[m.Source] = r
	}
	c.mu.Unlock() // who holds r.mu may want it
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writable = r.writable || !m.ReadOnly
	for _, other := range targets(spec) {
		if name, in := strings.CutPrefix(other, m.Target+"/"); in {
			r.over[name] = true
		}
	}
	return r
}

// targets are where something is mounted in a box.
func targets(spec sandbox.Spec) []string {
	var list []string
	for _, m := range spec.Mounts {
		list = append(list, m.Target)
	}
	for _, t := range spec.Tmpfs {
		list = append(list, t.Target)
	}
	return list
}

// dropGone removes the copies of what is no more: the clone of a job that has
// ended.
func (b *Backend) dropGone(ctx context.Context) {
	c := &b.carrier
	c.mu.Lock()
	var gone []*replica
	for source, r := range c.copies {
		if _, err := os.Lstat(source); errors.Is(err, fs.ErrNotExist) {
			delete(c.copies, source)
			gone = append(gone, r)
		}
	}
	c.mu.Unlock()
	for _, r := range gone {
		r.mu.Lock()
		// What stays goes with the volume.
		_ = b.courierRun(ctx, nil, nil, "drop", r.number)
		r.mu.Unlock()
	}
}

// sendAll sends what this machine has changed.
func (b *Backend) sendAll(ctx context.Context, list []*replica) error {
	return eachReplica(list, func(r *replica) error {
		if err := b.send(ctx, r); err != nil {
			return b.carryError("send to the engine at "+b.address, r.source, err)
		}
		return nil
	})
}

// fetchAll brings back what boxes have changed.
func (b *Backend) fetchAll(ctx context.Context, list []*replica) error {
	return eachReplica(list, func(r *replica) error {
		if err := b.fetch(ctx, r); err != nil {
			return b.carryError("bring back from the engine at "+b.address, r.source, err)
		}
		return nil
	})
}

func eachReplica(list []*replica, do func(r *replica) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, r := range list {
		wg.Go(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			errs[i] = do(r)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// at opens the directory that a source is in, or is.
func (r *replica) at() (root *os.Root, name string, err error) {
	st, err := os.Stat(r.source)
	if err != nil {
		return nil, "", err
	}
	if st.IsDir() {
		root, err = os.OpenRoot(r.source)
		return root, ".", err
	}
	root, err = os.OpenRoot(filepath.Dir(r.source))
	return root, filepath.Base(r.source), err
}

func (b *Backend) send(ctx context.Context, r *replica) error {
	if r.own && r.known != nil {
		return nil
	}
	root, name, err := r.at()
	if err != nil {
		return err
	}
	defer root.Close()
	limits := carry.Default
	limits.Fixed = func(name string) bool { return r.over[name] }
	changes, err := carry.Look(root, name, r.known, limits)
	if err != nil || changes.Empty() {
		return err
	}
	if r.known == nil && changes.Bytes() >= worthTelling {
		b.opts.Notice(fmt.Sprintf("sending %d MiB of %s to the engine at %s", changes.Bytes()>>20, r.source, b.address))
	}
	ctx, cancel := context.WithTimeout(ctx, carryTime)
	defer cancel()
	in, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := changes.Send(out)
		_ = out.CloseWithError(err)
		done <- err
	}()
	err = b.courierRun(ctx, in, nil, "in", r.number, strconv.FormatUint(r.generation, 10))
	_ = in.Close() // ends the sender
	if sent := <-done; sent != nil && !errors.Is(sent, io.ErrClosedPipe) {
		err = sent
	}
	if r.cut = err != nil; err == nil {
		r.known = changes.Now()
		r.generation++
	}
	return err
}

func (b *Backend) fetch(ctx context.Context, r *replica) error {
	if r.own || !r.writable || r.cut || r.known == nil {
		return nil
	}
	root, name, err := r.at()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nobody wants it any more
	}
	if err != nil {
		return err
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(ctx, carryTime)
	defer cancel()
	limits := carry.Default
	limits.Free = func() int64 { return freeDisk(root) }
	in, out := io.Pipe()
	var notices []string
	done := make(chan error, 1)
	go func() {
		var err error
		notices, err = carry.Receive(in, root, name, r.known, limits)
		if err != nil {
			cancel() // the courier need not go on
		}
		_ = in.CloseWithError(err)
		done <- err
	}()
	err = b.courierRun(ctx, nil, out, "out", r.number, strconv.FormatUint(r.generation, 10))
	_ = out.CloseWithError(io.ErrUnexpectedEOF)
	if received := <-done; received != nil && (err == nil || !errors.Is(received, io.ErrUnexpectedEOF)) {
		err = received
	}
	if err == nil {
		r.generation++
	}
	b.carrier.tell(b.opts.Notice, notices)
	return err
}

// tell passes on what could not be brought back, once.
func (c *carrier) tell(notice func(string), notices []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told == nil {
		c.told = map[string]bool{}
	}
	for _, n := range notices {
		if !c.told[n] {
			c.told[n] = true
			notice("not brought back from the engine: " + n)
		}
	}
}

func freeDisk(root *os.Root) int64 {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(root.Name(), &disk); err != nil {
		return 0
	}
	return int64(disk.Bavail)*int64(disk.Bsize) - spareDisk
}
