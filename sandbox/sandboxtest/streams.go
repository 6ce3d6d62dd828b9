package sandboxtest

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/herd-runner/herd-runner/sandbox"
)

func itoa(n int) string { return fmt.Sprint(n) }

var streamTests = []test{
	{"stdin is read to its end", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		data := bytes.Repeat([]byte("0123456789abcdef\x00\xff"), 100_000)
		r := sh(t, box, "cat", func(p *sandbox.Process) { p.Stdin = bytes.NewReader(data) })
		if r.out != string(data) {
			t.Errorf("%d bytes came back of %d", len(r.out), len(data))
		}
	}},
	{"no stdin is empty", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		if r := sh(t, box, "cat; echo end"); r.out != "end\n" {
			t.Errorf("got %q", r.out)
		}
	}},
	{"a process that does not read stdin ends", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r := sh(t, box, "exit 3", func(p *sandbox.Process) {
			p.Stdin = bytes.NewReader(make([]byte, 8<<20))
		})
		if r.Code != 3 {
			t.Errorf("got %+v", r.Exit)
		}
	}},
	{"open stdin does not hold the end up", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r, w := io.Pipe()
		defer w.Close()
		got := sh(t, box, "exit 4", func(p *sandbox.Process) { p.Stdin = r })
		if got.Code != 4 {
			t.Errorf("got %+v", got.Exit)
		}
	}},
	{"streams arrive apart and whole", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r := sh(t, box, `i=0; while [ $i -lt 2000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done`)
		var out, errs strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&out, "o%d\n", i)
			fmt.Fprintf(&errs, "e%d\n", i)
		}
		if r.out != out.String() || r.err != errs.String() {
			t.Errorf("got %d and %d bytes, want %d and %d", len(r.out), len(r.err), out.Len(), errs.Len())
		}
	}},
	{"output arrives while the process runs", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		in, feed := io.Pipe()
		defer feed.Close()
		lines := make(chan string, 16)
		out := writerFunc(func(b []byte) (int, error) { lines <- string(b); return len(b), nil })
		done := make(chan result, 1)
		go func() {
			r, _ := execCtx(t.Context(), box, `while read l; do echo "<$l>"; done`, func(p *sandbox.Process) {
				p.Stdin, p.Stdout = in, out
			})
			done <- r
		}()
		for _, l := range []string{"one", "two", "three"} {
			_, _ = io.WriteString(feed, l+"\n")
			select {
			case got := <-lines:
				if got != "<"+l+">\n" {
					t.Fatalf("got %q", got)
				}
			case <-time.After(limit):
				t.Fatal("nothing arrived")
			}
		}
		_ = feed.Close()
		<-done
	}},
	{"a million lines arrive, memory stays flat", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		var lines, total int
		count := writerFunc(func(b []byte) (int, error) {
			lines += bytes.Count(b, []byte("\n"))
			total += len(b)
			return len(b), nil
		})
		before := heap()
		sh(t, box, "seq 1000000", func(p *sandbox.Process) { p.Stdout = count })
		if lines != 1_000_000 || total != 6_888_896 {
			t.Errorf("%d lines, %d bytes arrived", lines, total)
		}
		if grown := heap() - before; grown > 8<<20 {
			t.Errorf("heap grew by %d bytes", grown)
		}
	}},
	{"one endless line stays bounded", func(t *testing.T, s Subject) {
		size := 1 << 30
		if testing.Short() {
			size = 64 << 20
		}
		box, _ := start(t, s)
		var total, peak int
		before := heap()
		count := writerFunc(func(b []byte) (int, error) {
			if total%(64<<20) < len(b) {
				peak = max(peak, heap()-before)
			}
			total += len(b)
			return len(b), nil
		})
		sh(t, box, "head -c "+itoa(size)+" /dev/zero", func(p *sandbox.Process) { p.Stdout = count })
		if total != size {
			t.Errorf("%d bytes arrived of %d", total, size)
		}
		if peak > 16<<20 {
			t.Errorf("heap grew by %d bytes", peak)
		}
	}},
	{"a slow reader slows the writer and loses nothing", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		release := make(chan struct{})
		var total int
		blocked := make(chan struct{}, 1)
		slow := writerFunc(func(b []byte) (int, error) {
			select {
			case blocked <- struct{}{}:
			default:
			}
			<-release
			total += len(b)
			return len(b), nil
		})
		done := make(chan result, 1)
		go func() {
			r, _ := execCtx(t.Context(), box, "head -c 16777216 /dev/zero; echo over >&2", func(p *sandbox.Process) { p.Stdout = slow })
			done <- r
		}()
		<-blocked
		// Meanwhile the box works on for others.
		if r := sh(t, box, "echo ok"); r.out != "ok\n" {
			t.Errorf("got %q", r.out)
		}
		select {
		case <-done:
			t.Error("16 MiB were buffered somewhere")
		default:
		}
		close(release)
		<-done
		if total != 16<<20 {
			t.Errorf("%d bytes arrived", total)
		}
	}},
	{"a background process holding stdout does not hold the end up", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		m := marker(t)
		begin := time.Now()
		r := sh(t, box, "sleep "+m+" & echo started")
		if r.out != "started\n" || r.Stopped {
			t.Errorf("got %q %+v", r.out, r.Exit)
		}
		if d := time.Since(begin); d > 10*time.Second {
			t.Errorf("it took %s", d)
		}
		if alive(t, m) == 0 {
			t.Error("the background process did not live on in its box")
		}
		closeBox(t, box)
		noneAlive(t, m)
	}},
	{"a failing reader does not block the process", func(t *testing.T, s Subject) {
		box, _ := start(t, s)
		r := sh(t, box, "head -c 1000000 /dev/zero; exit 7", func(p *sandbox.Process) {
			p.Stdout = writerFunc(func([]byte) (int, error) { return 0, io.ErrClosedPipe })
		})
		if r.Code != 7 {
			t.Errorf("got %+v", r.Exit)
		}
	}},
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
