package gateway

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// The requests in testdata are real ones of the CLIs that their directories are
// named for, shortened: the same work done twice, in another directory and
// HOME, at another time.
func TestTheSameWorkGivesTheSameTurn(t *testing.T) {
	for dir, d := range map[string]*dialect{
		"claude-2.1.197": &messages, "codex-0.169.0": &responses, "opencode-1.18.33-responses": &responses,
		"opencode-1.18.33-chat": &chat, "gemini-0.61.0": &generateContent,
	} {
		firsts, err := filepath.Glob(filepath.Join("testdata", dir, "*.first.json"))
		if err != nil || len(firsts) < 2 {
			t.Fatalf("%v %v", firsts, err)
		}
		for _, first := range firsts {
			t.Run(dir+"/"+filepath.Base(first), func(t *testing.T) { sameTurn(t, d, first) })
		}
	}
}

func sameTurn(t *testing.T, d *dialect, first string) {
	a := turnOf(t, d, first)
	b := turnOf(t, d, strings.Replace(first, ".first.", ".second.", 1))
	if title := a.Kind == "side"; a.Workdir == b.Workdir && !title || a.Workdir == "" && !title {
		t.Errorf("working directories %q and %q", a.Workdir, b.Workdir)
	}
	a.Workdir, b.Workdir = "", ""
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the second run differs:\n%s", diff)
	}
	golden := strings.Replace(first, ".first.json", ".turn", 1)
	got := a.key() + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Error(diff)
	}
}

func turnOf(t *testing.T, d *dialect, path string) *turn {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	e := endpoint{}
	if d == &generateContent {
		e.model = "gemini-2.5-pro"
	}
	req, err := d.readRequest(e, data)
	if err != nil {
		t.Fatal(err)
	}
	turn, err := d.readTurn(req)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func TestNormalisedText(t *testing.T) {
	n := normaliser{workdir: "/srv/w"}
	for in, want := range map[string]string{
		"a <system-reminder>\ndate\n</system-reminder>\nb":                        "a b",
		"id 3f2504e0-4f89-11d3-9a0c-0305e82c3301":                                 "id <uuid>",
		"at 2026-11-21T09:01:46.123Z and 2026-11-21 09:01":                        "at <time> and <time>",
		"Sat Nov 21 09:01:46 UTC 2026":                                            "<time>",
		"-rw-r--r-- 1 u u 5 Nov  1 2025 f":                                        "-rw-r--r-- 1 u u 5 <time> f",
		"ok  \tpkg\t0.003s":                                                       "ok  \tpkg\t<duration>",
		"ok  \tpkg\t(cached)":                                                     "ok  \tpkg\t<duration>",
		"took 1m3.25s, 15 seconds, duration_ms: 39":                               "took <duration>, <duration>, duration_ms: <duration>",
		"/srv/w/a.go /srv/w /srv/web /srv/w-2":                                    "<workdir>/a.go <workdir> /srv/web /srv/w-2",
		"/tmp/TestX123/001/f.txt: gone":                                           "<tmp>: gone",
		"/home/ann/.cache /root/x":                                                "<home>/.cache <home>/x",
		"[main 1a2b3c4] m; facade defaced 1234567":                                "[main <hex>] m; facade defaced 1234567",
		"http://127.0.0.1:43123/x 0xc000012345 goroutine 18 [running]":            "http://127.0.0.1:<port>/x <address> goroutine <n> [running]",
		"Chunk ID: b759bd\nWall time: 0.0000 seconds":                             "Chunk ID: <id>\nWall time: <duration>",
		`{"chunk_id":"878272","wall_time_seconds":0.000005343,"session_id":4711}`: `{"chunk_id":<id>,"wall_time_seconds":<duration>,"session_id":<id>}`,
		"Process Group PGID: 9140":                                                "Process Group PGID: <n>",
		"a\r\nb\n\n":                                                              "a\nb",
		"2 files changed, 15 insertions(+)":                                       "2 files changed, 15 insertions(+)",
	} {
		if got := n.result(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	for _, prompt := range []string{"wait 5s", "use port 127.0.0.1:8080", "revert 1a2b3c4", "released 2026-01-02"} {
		if got := n.prompt(prompt); got != prompt {
			t.Errorf("the prompt %q became %q: another prompt would match it", prompt, got)
		}
	}
}

func TestParallelResultsStandInTheOrderOfTheirCalls(t *testing.T) {
	body := func(results string) request {
		return request{parts: map[string][]byte{"messages": []byte(`[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"Bash"},{"type":"tool_use","id":"y","name":"Read"}]},
			{"role":"system","content":"noise"},{"role":"user","content":[` + results + `]}]`)}}
	}
	x, y := `{"type":"tool_result","tool_use_id":"x","content":"1","is_error":true}`, `{"type":"tool_result","tool_use_id":"y","content":[{"type":"text","text":"2"}]}`
	want := []string{"tool error 1 (Bash):", "  1", "tool result 2 (Read):", "  2"}
	for _, req := range []request{body(x + "," + y), body(y + "," + x)} {
		got, err := messages.readTurn(req)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got.Lines); d != "" {
			t.Error(d)
		}
	}
}

func TestSlugsKeepNamesApart(t *testing.T) {
	if got := slug("test-1.go"); got != "test-1.go" {
		t.Error(got)
	}
	seen := map[string]string{}
	for _, name := range []string{"test", "Test", "test (1.26, linux)", "test (1.26  linux)", "", ".", "..", "../x", "ä", strings.Repeat("a", 100), strings.Repeat("a", 101), "a/b", "a b"} {
		s := slug(name)
		if other, dup := seen[s]; dup {
			t.Errorf("%q and %q are both %q", name, other, s)
		}
		seen[s] = name
		if s == "" || strings.ContainsAny(s, "/ ()") || strings.HasPrefix(s, ".") || len(s) > 70 {
			t.Errorf("%q: %q", name, s)
		}
	}
}
