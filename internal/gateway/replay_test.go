package gateway

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// converse drives two turns as an agent would: ask, run the tool, tell.
func converse(b *box, prompt, result string, headers ...string) []answer {
	first := turnBody(prompt)
	second := turnBody(prompt, fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":%q}]}`, result))
	return []answer{b.post(first, headers...), b.post(second, headers...)}
}

func turnBody(prompt string, more ...string) string {
	messages := append([]string{fmt.Sprintf(`{"role":"user","content":%q}`, prompt)}, more...)
	return `{"model":"claude-sonnet-5","stream":true,"tools":[{"name":"Bash"}],"messages":[` + strings.Join(messages, ",") + `]}`
}

const replayScenarios = `
scenarios:
  - {name: alpha, prompt: alpha, turns: [{calls: [{name: Bash, input: {command: echo a}}], usage: {input: 10, output: 5}}, {text: alpha is done, usage: {input: 20, output: 6}}]}
  - {name: beta, prompt: beta, turns: [{calls: [{name: Bash, input: {command: echo b}}]}, {text: beta is done}]}
`

// record makes a cassette with one lane a step: its prompt is the step's name.
func record(t *testing.T, steps ...string) string {
	t.Helper()
	dir := t.TempDir()
	up := fakeUpstream(t, replayScenarios)
	g := newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL)})
	if err := g.Preflight(context.Background(), APIs()[:1]); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		b := openBox(t, g, lane(step), Limits{})
		for _, a := range converse(b, step, "ok 0.01s") {
			if a.status != 200 {
				t.Fatalf("%+v", a)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What is refused, or a dry run, leaves no directory for the recording.
func TestPreflightOfARecordingMakesNothing(t *testing.T) {
	top := t.TempDir()
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir, ok := range map[string]bool{filepath.Join(top, "a", "b"): true, file: false, filepath.Join(file, "c"): false} {
		g := newGateway(t, Options{Mode: Record, Dir: dir})
		if err := g.Preflight(t.Context(), nil); (err == nil) != ok {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(top, "a")); !os.IsNotExist(err) {
		t.Errorf("a directory was made (%v)", err)
	}
}

func TestReplayGivesTheSameAnswersAndUsage(t *testing.T) {
	dir := t.TempDir()
	up := fakeUpstream(t, replayScenarios)
	rec := openBox(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL)}), lane("s"), Limits{})
	want := converse(rec, "alpha", "took 1.2s at 2026-01-01T10:00:00Z")
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	up.Close()
	g := newGateway(t, Options{Mode: Replay, Dir: dir})
	if err := g.Preflight(context.Background(), nil, lane("s")); err != nil {
		t.Fatal(err)
	}
	rep := openBox(t, g, lane("s"), Limits{})
	got := converse(rep, "alpha", "took 3.4s at 2027-02-02T11:11:11Z")
	for i := range want {
		if got[i].status != 200 || got[i].body != want[i].body || got[i].header.Get("Content-Type") != want[i].header.Get("Content-Type") {
			t.Errorf("answer %d: %+v\nwant %+v", i, got[i], want[i])
		}
	}
	a, b := rec.View().Usage, rep.View().Usage
	b.CostBasis = a.CostBasis // nothing is paid for a replay
	if a != b || a.InputTokens != 30 || a.OutputTokens != 11 {
		t.Errorf("recorded %+v, replayed %+v", a, b)
	}
	if rep.journal(2)[0].Mode != "replay" {
		t.Errorf("%+v", rep.calls)
	}
}

func TestSwappedParallelStepsReplay(t *testing.T) {
	g := newGateway(t, Options{Mode: Replay, Dir: record(t, "alpha", "beta")})
	beta, alpha := openBox(t, g, lane("beta"), Limits{}), openBox(t, g, lane("alpha"), Limits{})
	b, a := converse(beta, "beta", "ok 9s"), converse(alpha, "alpha", "ok 9s")
	if !strings.Contains(b[1].body, "beta is done") || !strings.Contains(a[1].body, "alpha is done") {
		t.Errorf("%v %v", a, b)
	}
}

func TestChangedPromptDoesNotReplay(t *testing.T) {
	g := newGateway(t, Options{Mode: Replay, Dir: record(t, "alpha")})
	b := openBox(t, g, lane("alpha"), Limits{})
	got := b.post(turnBody("alpha, but louder"))
	view := b.View()
	if got.status != 400 || got.header.Get("X-Should-Retry") != "false" || view.LastReason != "replay_miss" {
		t.Fatalf("%+v %+v", got, view)
	}
	for _, want := range []string{`job "test", step "alpha"`, "main-001.json", "-  alpha\n", "+  alpha, but louder", "--record"} {
		if !strings.Contains(view.Error, want) {
			t.Errorf("no %q in %s", want, view.Error)
		}
	}
	if view.Usage.Requests != 0 {
		t.Errorf("a miss is counted as a model request: %+v", view.Usage)
	}
	if got := b.post(turnBody("alpha")); got.status != 200 {
		t.Errorf("the recorded prompt: %+v", got)
	}
}

func TestRetryGetsTheSameAnswerButALongerStoryDoesNot(t *testing.T) {
	g := newGateway(t, Options{Mode: Replay, Dir: record(t, "alpha")})
	b := openBox(t, g, lane("alpha"), Limits{})
	first, again := b.post(turnBody("alpha")), b.post(turnBody("alpha"))
	if first.status != 200 || first.body != again.body {
		t.Fatalf("retry: %+v", again)
	}
	// The same last turn later in the conversation is another request.
	loop := `{"role":"assistant","content":"hm"},{"role":"user","content":"alpha"}`
	if got := b.post(turnBody("alpha", loop)); got.status != 400 || !strings.Contains(got.body, "once more than recorded") {
		t.Errorf("%+v", got)
	}
}

func TestSideRequestsHaveTheirOwnRecordings(t *testing.T) {
	dir := t.TempDir()
	up := fakeUpstream(t, replayScenarios)
	title := `{"model":"claude-haiku-4-5","messages":[{"role":"user","content":"alpha"}]}`
	run := func(b *box) (string, string, string) {
		return b.post(title).body, b.do(b.request("POST", "/v1/messages/count_tokens", turnBody("alpha"))).body, b.post(turnBody("alpha")).body
	}
	rec := openBox(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL)}), lane("s"), Limits{})
	a1, a2, a3 := run(rec)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	rep := openBox(t, newGateway(t, Options{Mode: Replay, Dir: dir}), lane("s"), Limits{})
	b1, b2, b3 := run(rep)
	if strings.TrimSpace(a1) != b1 || a2 != b2 || a3 != b3 || a1 == a3 {
		t.Errorf("%q %q\n%q %q\n%q %q", a1, b1, a2, b2, a3, b3)
	}
}

func TestParallelSubagentsReplayInAnyOrder(t *testing.T) {
	dir := t.TempDir()
	up := fakeUpstream(t, replayScenarios)
	rec := openBox(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL)}), lane("s"), Limits{})
	converse(rec, "alpha", "same", agentHeader, "id-a")
	converse(rec, "beta", "same", agentHeader, "id-b")
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	rep := openBox(t, newGateway(t, Options{Mode: Replay, Dir: dir}), lane("s"), Limits{})
	b := rep.post(turnBody("beta"), agentHeader, "other-1")
	a := rep.post(turnBody("alpha"), agentHeader, "other-2")
	if !strings.Contains(b.body, "echo b") || !strings.Contains(a.body, "echo a") {
		t.Fatalf("%+v %+v", a, b)
	}
	// The second turns look alike; the agent decides.
	again := converse(rep, "beta", "same", agentHeader, "other-1")[1]
	if !strings.Contains(again.body, "beta is done") {
		t.Errorf("%+v", again)
	}
	if got := rep.post(turnBody("gamma"), agentHeader, "other-3"); got.status != 400 || !strings.Contains(got.body, "sub-agent") {
		t.Errorf("an unknown sub-agent: %+v", got)
	}
}

func TestFailuresReplay(t *testing.T) {
	up := fakeUpstream(t, "")
	for _, script := range []string{"fail=429,ra=3", "fail=truncated", "fail=sseerror"} {
		dir := t.TempDir()
		rec := openBox(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL + "/s/" + script + "/r"), Timeouts: Timeouts{Hold: -1}}), lane("s"), Limits{})
		want := rec.post(hello("x"))
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		rep := openBox(t, newGateway(t, Options{Mode: Replay, Dir: dir}), lane("s"), Limits{})
		got := rep.post(hello("x"))
		if got.status != want.status || got.body != strings.TrimSuffix(want.body, "\n") && got.body != want.body || (got.err == nil) != (want.err == nil) || got.header.Get("Retry-After") != want.header.Get("Retry-After") {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
		if a, b := rec.View(), rep.View(); a.LastStatus != b.LastStatus || a.LastReason != b.LastReason || a.RetryAt.IsZero() != b.RetryAt.IsZero() {
			t.Errorf("%s: %+v, want %+v", script, b, a)
		}
	}
}

// THREATS 1.
func TestNoSecretInCassettes(t *testing.T) {
	reversed := []byte(realKey)
	slices.Reverse(reversed)
	leaks := []string{realKey, string(reversed)}
	for _, prefix := range []string{"", "x", "xy"} {
		leaks = append(leaks, base64.StdEncoding.EncodeToString([]byte(prefix+realKey+"tail")), base64.URLEncoding.EncodeToString([]byte(prefix+string(reversed))))
	}
	leaks = append(leaks, "another-secret")
	for i, leak := range leaks {
		dir := t.TempDir()
		up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Request-Id", leak)
			half := len(leak) / 2
			fmt.Fprintf(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}},\"x\":%q}\n\n", leak)
			for _, part := range []string{"a " + leak[:half], leak[half:] + " b"} {
				fmt.Fprintf(w, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":%q}}\n\n", part)
			}
		})
		redact := func(s string) string { return strings.ReplaceAll(s, "another-secret", "***") }
		b := openBox(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL), Redact: redact}), lane("s"), Limits{})
		b.post(turnBody("my key is " + leak + " and the token " + b.Credential().Token))
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		data := cassetteText(t, dir)
		if strings.Contains(data, leak) || strings.Contains(data, b.Credential().Token) || strings.Contains(data, `"text":"a `+leak[:len(leak)/2]+`"`) ||
			strings.Contains(data, leak[len(leak)/2:]) {
			t.Errorf("leak %d (%s) in %s", i, leak, data)
		}
		if !strings.Contains(data, "***") {
			t.Errorf("leak %d: nothing was recorded: %s", i, data)
		}
	}
}

func TestRedactedPromptsReplay(t *testing.T) {
	dir := t.TempDir()
	up := fakeUpstream(t, replayScenarios)
	redact := func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	for _, mode := range []Mode{Record, Replay} {
		b := openBox(t, newGateway(t, Options{Mode: mode, Dir: dir, Upstreams: at(up.URL), Redact: redact}), lane("s"), Limits{})
		if got := b.post(turnBody("alpha with hunter2")); got.status != 200 {
			t.Errorf("%s: %+v", mode, got)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func cassetteText(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&all, "-- %s --\n%s", e.Name(), b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestUnusableCassettes(t *testing.T) {
	good := record(t, "alpha")
	exchange := filepath.Join("test", "alpha", "attempt-1", "main-001.json")
	for _, tc := range []struct {
		name  string
		spoil func(dir string) error
		want  []string
	}{
		{"missing", func(dir string) error { return os.RemoveAll(dir) }, []string{"does not exist", "--record"}},
		{"empty", func(dir string) error { return os.RemoveAll(filepath.Join(dir, "test")) }, []string{"holds no recordings"}},
		{"syntax", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, exchange), []byte("{\n \"agent\": \"main\",\n <<<<<<< ours\n}"), 0o644)
		}, []string{"main-001.json:3:", "record it again"}},
		{"type", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, exchange), []byte("{\n \"agent\": 7}"), 0o644)
		}, []string{"main-001.json:2:"}},
		{"unknown key", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, exchange), []byte("{\n \"agnet\": \"main\"}"), 0o644)
		}, []string{"main-001.json:", "agnet"}},
		{"empty exchange", func(dir string) error { return os.WriteFile(filepath.Join(dir, exchange), []byte("{}"), 0o644) }, []string{"main-001.json", "agent"}},
		{"removed exchange", func(dir string) error { return os.Remove(filepath.Join(dir, exchange)) }, []string{"lane.json names 2 exchanges, 1 files"}},
		{"future format", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "test", "alpha", "attempt-1", "lane.json"), []byte(`{"format":9}`), 0o644)
		}, []string{"format 9"}},
		{"a file", func(dir string) error {
			return os.Rename(filepath.Join(dir, exchange), dir+"x")
		}, []string{"lane.json names"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cassette")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			if err := tc.spoil(dir); err != nil {
				t.Fatal(err)
			}
			_, err := New(Options{Mode: Replay, Dir: dir})
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %q", err, want)
				}
			}
		})
	}
	g := newGateway(t, Options{Mode: Replay, Dir: good})
	want := `no recording of job "test", step "beta"`
	if err := g.Preflight(context.Background(), nil, lane("alpha"), lane("beta")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("preflight: %v", err)
	}
	if _, err := g.Open(SessionOptions{Lane: lane("beta"), APIs: APIs()[:1]}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `step "alpha"`) {
		t.Errorf("open: %v", err)
	}
}

func TestRecordingReplacesItsLaneOnly(t *testing.T) {
	dir := record(t, "alpha", "beta")
	if err := os.MkdirAll(filepath.Join(dir, "test", "alpha", "attempt-2"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := cassetteText(t, filepath.Join(dir, "test", "beta"))
	up := fakeUpstream(t, replayScenarios)
	g := newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL)})
	b := openBox(t, g, lane("alpha"), Limits{})
	b.post(turnBody("alpha"))
	if _, err := os.Stat(filepath.Join(dir, "test", "alpha", "attempt-1", "main-002.json")); err != nil {
		t.Errorf("the old lane went before the session closed: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	idle := openBox(t, g, lane("beta"), Limits{})
	if err := idle.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		names = append(names, rel)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".", "test", "test/alpha", "test/alpha/attempt-1", "test/alpha/attempt-1/lane.json", "test/alpha/attempt-1/main-001.json",
		"test/beta", "test/beta/attempt-1", "test/beta/attempt-1/lane.json", "test/beta/attempt-1/main-001.json", "test/beta/attempt-1/main-002.json"}
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
	if cassetteText(t, filepath.Join(dir, "test", "beta")) != before {
		t.Error("another lane changed")
	}
}

func TestFailedRecordingLeavesTheOldOne(t *testing.T) {
	dir := record(t, "alpha")
	before := cassetteText(t, dir)
	up := fakeUpstream(t, replayScenarios)
	g := newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL)})
	b := openBox(t, g, lane("alpha"), Limits{})
	if err := os.RemoveAll(b.recorder.temp); err != nil {
		t.Fatal(err)
	}
	if got := b.post(turnBody("alpha")); got.status != 200 {
		t.Errorf("the agent suffers from it: %+v", got)
	}
	if err := b.Close(); err == nil || !strings.Contains(err.Error(), `step "alpha"`) {
		t.Errorf("close: %v", err)
	}
	if cassetteText(t, dir) != before {
		t.Error("the old recording changed")
	}
}

func TestRecordingTwiceGivesTheSameBytes(t *testing.T) {
	if a, b := cassetteText(t, record(t, "alpha")), cassetteText(t, record(t, "alpha")); a != b {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestWorkdirTravels(t *testing.T) {
	dir := t.TempDir()
	body := func(workdir string) string {
		return fmt.Sprintf(`{"model":"claude-sonnet-5","system":"# Env\n - Primary working directory: %s\n","tools":[{}],"messages":[{"role":"user","content":"edit %s/a.go, not %s-old"}]}`, workdir, workdir, workdir)
	}
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range []string{`{\"path\":\"/home/x/pro`, `j/a.go\"}`} {
			fmt.Fprintf(w, `data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"%s"}}`+"\n\n", part)
		}
	})
	rec := openBox(t, newGateway(t, Options{Mode: Record, Dir: dir, Upstreams: at(up.URL)}), lane("s"), Limits{})
	rec.post(body("/home/x/proj"))
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	rep := openBox(t, newGateway(t, Options{Mode: Replay, Dir: dir}), lane("s"), Limits{})
	if got := rep.post(strings.Replace(body("/srv/elsewhere"), "/srv/elsewhere-old", "/home/x/proj-old", 1)); got.status != 200 || !strings.Contains(got.body, `{\"path\":\"/srv/elsewhere/a.go\"}`) {
		t.Errorf("%+v", got)
	}
}

func TestManySessionsAtOnce(t *testing.T) {
	dir := t.TempDir()
	up := fakeUpstream(t, replayScenarios)
	for _, mode := range []Mode{Record, Replay} {
		g := newGateway(t, Options{Mode: mode, Dir: dir, Upstreams: at(up.URL)})
		var all sync.WaitGroup
		for i := range 20 {
			name := []string{"alpha", "beta"}[i%2]
			all.Go(func() {
				b := openBox(t, g, Lane{Job: fmt.Sprintf("leg (%d)", i), Step: name, Attempt: 1}, Limits{})
				for _, a := range converse(b, name, "ok") {
					if a.status != 200 {
						t.Errorf("%s %d: %+v", mode, i, a)
					}
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				if v := b.View(); v.Usage.Requests != 2 {
					t.Errorf("%s %d: %+v", mode, i, v)
				}
			})
		}
		all.Wait()
	}
}

func TestReplayOrRecord(t *testing.T) {
	up := fakeUpstream(t, replayScenarios)
	dir := filepath.Join(t.TempDir(), "cassettes")
	run := func(steps ...string) int {
		before := up.requests()
		g := newGateway(t, Options{Mode: ReplayOrRecord, Dir: dir, Upstreams: at(up.URL)})
		for _, step := range steps {
			if err := g.Preflight(context.Background(), APIs()[:1], lane(step)); err != nil {
				t.Fatal(err)
			}
			b := openBox(t, g, lane(step), Limits{})
			for _, a := range converse(b, step, "ok") {
				if a.status != 200 {
					t.Errorf("%s: %+v", step, a)
				}
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
		return up.requests() - before
	}
	if n := run("alpha"); n != 2 {
		t.Errorf("nothing was recorded, %d requests went out", n)
	}
	if n := run("alpha"); n != 0 {
		t.Errorf("all was recorded, %d requests went out", n)
	}
	if n := run("alpha", "beta"); n != 2 {
		t.Errorf("beta was not recorded, %d requests went out", n)
	}
	// What was recorded is not asked anew, whatever it is asked.
	g := newGateway(t, Options{Mode: ReplayOrRecord, Dir: dir, Upstreams: at(up.URL), Credentials: FromEnvironment(func(string) string { return "" }, t.TempDir())})
	b := openBox(t, g, lane("alpha"), Limits{})
	if got := b.post(turnBody("alpha, but louder")); got.status != 400 || !strings.Contains(got.body, "remove") {
		t.Errorf("%+v", got)
	}
	err := g.Preflight(context.Background(), APIs()[:1], lane("alpha"), lane("gamma"))
	if err == nil || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY") {
		t.Errorf("what is to be recorded needs a credential: %v", err)
	}
}
