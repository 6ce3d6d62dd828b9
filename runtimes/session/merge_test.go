package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/claude"
	"github.com/herd-runner/herd-runner/runtimes/codex"
	"github.com/herd-runner/herd-runner/runtimes/gemini"
	"github.com/herd-runner/herd-runner/runtimes/session"
	"github.com/herd-runner/herd-runner/sandbox"
)

// pair is a recorded run of a real CLI: NAME.stdout, and what its session files
// NAME.0.jsonl … held that was followed.
type pair struct {
	name   string
	rt     runtimes.Runtime
	task   runtimes.Task
	stdout []byte
	files  [][]byte
}

func pairs(t *testing.T) []pair {
	t.Helper()
	names, err := filepath.Glob("testdata/*.stdout")
	if err != nil || len(names) < 12 {
		t.Fatalf("%d pairs, %v", len(names), err)
	}
	var all []pair
	for _, name := range names {
		p := pair{name: strings.TrimSuffix(filepath.Base(name), ".stdout")}
		engine, what, _ := strings.Cut(p.name, "-")
		p.rt = map[string]runtimes.Runtime{"claude": claude.New(), "codex": codex.New(), "gemini": gemini.New()}[engine]
		const id = "00000000-0000-4000-8000-00000000000"
		p.task = runtimes.Task{Prompt: "x", Box: sandbox.Info{Home: "/home/agent"}, SessionID: id + "1"}
		if what == "resume" || what == "fork" {
			p.task.Resume, p.task.Fork = id+"2", what == "fork"
		}
		p.stdout = read(t, name)
		files, _ := filepath.Glob("testdata/" + p.name + ".[0-9].jsonl")
		for _, f := range files {
			p.files = append(p.files, read(t, f))
		}
		if want := len(p.reader().SessionFiles(p.task)); want != len(p.files) {
			t.Fatalf("%s: %d files are followed, %d were recorded", p.name, want, len(p.files))
		}
		all = append(all, p)
	}
	return all
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (p pair) reader() runtimes.SessionReader { return p.rt.(runtimes.SessionReader) }

// output are the messages of stdout.
func (p pair) output() []event.Message {
	var out []event.Message
	dec := p.rt.Decode(p.task)
	for line := range bytes.Lines(p.stdout) {
		out = append(out, dec.Line(bytes.TrimRight(line, "\n"))...)
	}
	return out
}

// player feeds a Merge and remembers what is told.
type player struct {
	merge *session.Merge
	now   time.Time
	told  []event.Message
}

func (p pair) player() *player {
	x := &player{now: time.Unix(1000, 0)}
	x.merge = session.NewMerge(p.reader().DecodeSession(p.task), func() time.Time { return x.now })
	return x
}

func (x *player) output(m ...event.Message) { x.told = append(x.told, x.merge.Output(m)...) }

func (x *player) file(of int, data []byte) {
	x.merge.Followed(sandbox.Followed{Of: of, File: of, Data: data})
}

func (x *player) stall() {
	x.now = x.now.Add(time.Hour)
	out, _ := x.merge.Overdue(time.Second)
	x.told = append(x.told, out...)
}

func (x *player) end() []event.Message {
	rest := x.merge.Rest()
	x.told = append(x.told, rest...)
	return rest
}

// units is what messages say, however they are cut: each line of text, each call
// and each result, sorted. Ids, which the sources of one engine name unlike, are
// left out.
func units(messages []event.Message) []string {
	var all []string
	for _, m := range messages {
		switch m.Kind {
		case event.MessageText, event.MessageThinking:
			for line := range strings.Lines(m.Text) {
				if line = strings.TrimSpace(line); line != "" {
					all = append(all, fmt.Sprintf("%s: %s", m.Kind, line))
				}
			}
		case event.MessageToolCall:
			all = append(all, fmt.Sprintf("call %s", m.Tool))
		case event.MessageToolResult:
			all = append(all, fmt.Sprintf("result %t %s", m.IsError, m.Text))
		}
	}
	slices.Sort(all)
	return all
}

// TestBothSourcesSayTheSame (RUNTIME-07): the file adds nothing to an output
// that is whole, in whatever order they come, and alone it says all of it.
func TestBothSourcesSayTheSame(t *testing.T) {
	for _, p := range pairs(t) {
		t.Run(p.name, func(t *testing.T) {
			output := p.output()
			if len(units(output)) == 0 {
				t.Fatal("the recording says nothing")
			}
			after := p.player()
			after.output(output...)
			for i, f := range p.files {
				after.file(i, f)
			}
			if rest := after.end(); len(rest) > 0 {
				t.Errorf("told again: %+v", rest)
			}
			if diff := cmp.Diff(output, after.told); diff != "" {
				t.Errorf("the output was changed: %s", diff)
			}

			before := p.player()
			for i, f := range p.files {
				before.file(i, f)
			}
			before.stall()
			if diff := cmp.Diff(units(output), units(before.told)); diff != "" {
				t.Errorf("the file alone (-output +file): %s", diff)
			}
			before.output(output...)
			before.end()
			if diff := cmp.Diff(units(output), units(before.told)); diff != "" {
				t.Errorf("the file, then the output: %s", diff)
			}
		})
	}
}

// TestNoMessageIsLostOrDoubled (RUNTIME-06): both sources in pieces of any size,
// in any order, with stalls anywhere; the output ends anywhere (a kill); the file
// is now and then read again from its beginning.
func TestNoMessageIsLostOrDoubled(t *testing.T) {
	for _, p := range pairs(t) {
		t.Run(p.name, func(t *testing.T) {
			whole := p.output()
			for seed := range uint64(300) {
				random := rand.New(rand.NewPCG(seed, 7))
				x := p.player()
				for i, f := range p.files[:len(p.files)-1] { // there before it starts
					x.file(i, f)
				}
				last := len(p.files) - 1
				file, output := p.files[last], whole
				if random.IntN(2) == 0 {
					output = output[:random.IntN(len(output)+1)]
				}
				given, again := 0, random.IntN(4) == 0
				for len(output) > 0 || given < len(file) {
					switch random.IntN(5) {
					case 0, 1:
						n := min(len(output), random.IntN(3))
						x.output(output[:n]...)
						output = output[n:]
					case 2, 3:
						n := min(len(file)-given, 1+random.IntN(len(file)/4))
						x.file(last, file[given:given+n])
						given += n
					case 4:
						x.stall()
						if again && given > 0 {
							x.merge.Followed(sandbox.Followed{Of: last, File: last, Fresh: true, Data: file[:1]})
							given, again = 1, false
						}
					}
				}
				x.end()
				if diff := cmp.Diff(units(whole), units(x.told)); diff != "" {
					t.Fatalf("seed %d: (-want +told) %s", seed, diff)
				}
			}
		})
	}
}

// TestAFileWaitsForTheOutput: what both say is told once, from the output while
// that is patient enough.
func TestAFileWaitsForTheOutput(t *testing.T) {
	p := pairs(t)[0]
	x := p.player()
	x.file(0, p.files[0])
	out, next := x.merge.Overdue(10 * time.Second)
	if len(out) > 0 || !next.Equal(x.now.Add(10*time.Second)) {
		t.Fatalf("told at once: %+v; next %s", out, next)
	}
	x.output(p.output()...)
	if out, next := x.merge.Overdue(10 * time.Second); len(out) > 0 || !next.IsZero() {
		t.Errorf("still waiting: %+v, next %s", out, next)
	}
	if rest := x.end(); len(rest) > 0 {
		t.Errorf("told again: %+v", rest)
	}
}

// TestTextIsComparedByLine: the sources cut text differently.
func TestTextIsComparedByLine(t *testing.T) {
	text := func(s string) event.Message { return event.Message{Kind: event.MessageText, Text: s} }
	x := pair{rt: gemini.New()}.player()
	x.output(text("one"))
	x.file(0, []byte(`{"type":"gemini","id":"1","content":"one\n\ntwo\n  three\none"}`+"\n"))
	x.stall()
	x.output(text("two"), text("one"), text("four"))
	x.end()
	want := []event.Message{text("one"), text("two\n  three\none"), text("four")}
	if diff := cmp.Diff(want, x.told); diff != "" {
		t.Error(diff)
	}
}

// TestAHostileFile (THREATS 18): nothing an agent writes to its session file
// takes memory without end, or what its output says away.
func TestAHostileFile(t *testing.T) {
	p := pairs(t)[0]
	line := func(i int) []byte {
		return []byte(fmt.Sprintf(`{"type":"assistant","message":{"content":[{"type":"text","text":"%d %s"}]}}`+"\n", i, strings.Repeat("x", 1<<20)))
	}
	for name, write := range map[string]func(x *player){
		"half a record": func(x *player) { x.file(0, p.files[0][:len(p.files[0])/2]) },
		"a line without end": func(x *player) {
			for range 100 {
				x.file(0, bytes.Repeat([]byte("x"), 1<<20))
			}
		},
		"lines without end in many files": func(x *player) {
			for i := range 200 {
				x.file(i, bytes.Repeat([]byte("x"), 1<<20))
			}
		},
		"messages without end": func(x *player) {
			for i := range 100 {
				x.file(0, line(i))
			}
		},
		"no JSON, NUL, half UTF-8": func(x *player) { x.file(0, []byte("{{{{\n\x00\x00\n\"\xff\xfe\n[]\nnull\n{\"type\":1}\n")) },
	} {
		t.Run(name, func(t *testing.T) {
			x := p.player()
			write(x)
			if size := x.merge.Held(); size > 80<<20 {
				t.Errorf("%d bytes are held", size)
			}
			output := p.output()
			x.output(output...)
			if diff := cmp.Diff(output, x.told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestMangledFiles (THREATS 18): whatever a session file holds, its decoder gives
// messages that can be journaled, of the kinds that it may give.
func TestMangledFiles(t *testing.T) {
	kinds := []event.MessageKind{event.MessageText, event.MessageThinking, event.MessageToolCall, event.MessageToolResult, event.MessageWarning}
	random := rand.New(rand.NewPCG(3, 4))
	for _, p := range pairs(t) {
		for range 200 {
			dec := p.reader().DecodeSession(p.task)
			for i, file := range p.files {
				data := bytes.Clone(file)
				for range 1 + random.IntN(20) {
					at := random.IntN(len(data))
					switch random.IntN(3) {
					case 0:
						data[at] = byte(random.IntN(256))
					case 1:
						data = slices.Delete(data, at, min(len(data), at+1+random.IntN(60)))
					case 2:
						data = slices.Insert(data, at, []byte(`{}[]",:\`)[random.IntN(8)])
					}
				}
				for line := range bytes.Lines(data) {
					for _, m := range dec.Line(runtimes.SessionFile{Of: i, ID: i}, line) {
						_ = dec.Key(m)
						if _, err := json.Marshal(m); err != nil || !slices.Contains(kinds, m.Kind) {
							t.Fatalf("%s: %+v: %v", p.name, m, err)
						}
					}
				}
			}
		}
	}
}
