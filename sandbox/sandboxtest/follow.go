package sandboxtest

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/herd-runner/herd-runner/sandbox"
)

// followTests are RUNTIME-06: files are read where they are written.
var followTests = []test{
	{"followed files are read while the process runs", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		got := newTold()
		ctx, next, touched := t.Context(), path.Join(spec.Temp, "next"), make(chan struct{})
		// The process goes on only when what it wrote has been read.
		got.when("one\n", func() {
			defer close(touched)
			if r, err := execCtx(ctx, box, "touch "+next); err != nil || r.Code != 0 {
				t.Errorf("touch: %q, %v", r.err, err)
			}
		})
		r := sh(t, box, `mkdir -p $0/late/dir; printf on >$0/late/dir/a.log; echo e >>$0/late/dir/a.log
			until test -e $0/next; do sleep 0.05; done; echo two >>$0/late/dir/a.log; printf end >>$0/late/dir/a.log`,
			func(p *sandbox.Process) {
				p.Argv = append(p.Argv, spec.Temp)
				p.Follow, p.Followed = []sandbox.Follow{{Root: spec.Temp, Pattern: "late/*/*.log"}}, got.add
			})
		if r.Code != 0 || ctx.Err() != nil {
			t.Fatalf("exit code %d, stderr %q", r.Code, r.err)
		}
		<-touched // what waited for the file may end before it does
		if want := "one\ntwo\nend"; got.text(0) != want {
			t.Errorf("followed %q, want %q", got.text(0), want)
		}
	}},
	{"of a file that was there only what is new is followed, unless all is wanted", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		if r := sh(t, box, "echo old >$0/a; echo old >$0/b", func(p *sandbox.Process) { p.Argv = append(p.Argv, spec.Temp) }); r.Code != 0 {
			t.Fatal(r.err)
		}
		got := newTold()
		sh(t, box, "echo new >>$0/a; echo new >>$0/b", func(p *sandbox.Process) {
			p.Argv = append(p.Argv, spec.Temp)
			p.Follow, p.Followed = []sandbox.Follow{{Root: spec.Temp, Pattern: "a"}, {Root: spec.Temp, Pattern: "b", Whole: true}}, got.add
		})
		if got.text(0) != "new\n" || got.text(1) != "old\nnew\n" {
			t.Errorf("followed %q and %q", got.text(0), got.text(1))
		}
	}},
	{"links and pipes are not followed", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		got := newTold()
		r := sh(t, box, `cd $0 && mkdir real links && echo secret >real/x.log && ln -s ../real/x.log links/x.log && ln -s $0/real linked &&
			ln -s /etc/passwd links/y.log && mkfifo links/z.log && echo kept >links/k.log`, func(p *sandbox.Process) {
			p.Argv = append(p.Argv, spec.Temp)
			p.Follow = []sandbox.Follow{{Root: spec.Temp, Pattern: "links/*.log"}, {Root: spec.Temp, Pattern: "linked/*.log"}}
			p.Followed = got.add
		})
		if r.Code != 0 || got.text(0) != "kept\n" || got.text(1) != "" {
			t.Errorf("exit code %d, stderr %q, followed %q and %q", r.Code, r.err, got.text(0), got.text(1))
		}
	}},
	{"followed files end somewhere", func(t *testing.T, s Subject) {
		box, spec := start(t, s)
		got := newTold()
		got.count = true
		r := sh(t, box, "truncate -s 900G $0/big.log || dd if=/dev/zero of=$0/big.log bs=1 count=1 seek=900G 2>/dev/null", func(p *sandbox.Process) {
			p.Argv = append(p.Argv, spec.Temp)
			p.Follow, p.Followed = []sandbox.Follow{{Root: spec.Temp, Pattern: "*.log"}}, got.add
		})
		if got.bytes == 0 || got.bytes > sandbox.MaxFollowedBytes {
			t.Errorf("%d bytes were followed; exit code %d, stderr %q", got.bytes, r.Code, r.err)
		}
	}},
}

// told puts the pieces of followed files together.
type told struct {
	mu    sync.Mutex
	files map[string]string // by Of and File
	of    map[int][]string
	count bool // only their bytes
	bytes int
	want  string
	then  func()
}

func newTold() *told { return &told{files: map[string]string{}, of: map[int][]string{}} }

// when calls then, once, when a file holds text.
func (g *told) when(text string, then func()) { g.want, g.then = text, then }

func (g *told) add(f sandbox.Followed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bytes += len(f.Data); g.count || f.Cut {
		return
	}
	key := fmt.Sprint(f.Of, ".", f.File)
	if _, known := g.files[key]; !known {
		g.of[f.Of] = append(g.of[f.Of], key)
	}
	if f.Fresh {
		g.files[key] = ""
	}
	g.files[key] += string(f.Data)
	if g.then != nil && strings.Contains(g.files[key], g.want) {
		go g.then()
		g.then = nil
	}
}

// text is all that files of one Follow hold.
func (g *told) text(of int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := ""
	for _, key := range g.of[of] {
		all += g.files[key]
	}
	return all
}
