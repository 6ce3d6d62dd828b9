package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two runners of one user share what they hear of a credential's limit, and only
// that credential's; nothing on disk tells the credential (THREATS 1).
func TestRunnersTellEachOtherOfLimits(t *testing.T) {
	dir := t.TempDir()
	up, answers := limitedUpstream(t, 1500*time.Millisecond)
	open := func(name string) *box {
		return openBox(t, newGateway(t, Options{Upstreams: at(up.URL), LimitsDir: dir}), lane(name), Limits{})
	}
	first, second := open("first"), open("second")
	done := make(chan answer)
	go func() { done <- first.post(hello("x")) }()
	for deadline := time.Now().Add(10 * time.Second); up.requests() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the first request does not arrive")
		}
		<-time.After(time.Millisecond)
	}
	first.journal(1) // its limit was heard
	if got := second.post(hello("x")); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if got := <-done; got.status != 200 {
		t.Errorf("%+v", got)
	}
	limited := 0
	answers.Range(func(_, status any) bool {
		if status == 429 {
			limited++
		}
		return true
	})
	if limited != 1 {
		t.Errorf("%d requests were sent into the limit", limited)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(files[0]+string(text), realKey) || len(text) > 100 {
		t.Errorf("%s %q %v", files[0], text, err)
	}
}

// What a person may have lifted since is asked for again, once.
func TestALongLimitIsAskedForAgain(t *testing.T) {
	b, err := openBoard(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b.post("name", time.Now().Add(time.Hour))
	l := &limiter{clock: time.Now, board: b, name: "name"}
	first := l.ticket()
	if err := l.wait(t.Context(), first, time.Now().Add(time.Minute), func(time.Time) { t.Error("it waits") }); err != nil {
		t.Fatal(err)
	}
	second := l.ticket()
	if err := l.wait(t.Context(), second, time.Now().Add(50*time.Millisecond), func(time.Time) {}); err == nil {
		t.Error("the second goes before the first was heard")
	}
	for range openWindow + 1 {
		l.heard(first, taken, time.Time{})
		l.sent++
	}
	if l.learn(); l.window != 0 {
		t.Errorf("a notice that was answered narrows the window to %d again", l.window)
	}
}

// Notices that are none say nothing, old ones go, later ones stay.
func TestNotices(t *testing.T) {
	dir, now := t.TempDir(), time.Now().Truncate(time.Millisecond)
	b, err := openBoard(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	b.post("a", now.Add(time.Hour))
	b.post("a", now.Add(time.Minute))
	b.post("old", now.Add(-2*bookKept))
	for name, text := range map[string]string{"half": `{"until":"2026-`, "empty": "", "other": `{"until":7}`} {
		if err := os.WriteFile(filepath.Join(dir, name+boardEnd), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if at := b.until(name); !at.IsZero() {
			t.Errorf("%s: %v", name, at)
		}
	}
	again, err := openBoard(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	if at := again.until("a"); !at.Equal(now.Add(time.Hour)) {
		t.Errorf("%v", at)
	}
	if _, err := os.Stat(filepath.Join(dir, "old"+boardEnd)); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	if again.name("h", "c") != b.name("h", "c") || b.name("h", "c") == b.name("g", "c") || b.name("hc", "") == b.name("h", "c") {
		t.Error("names must tell credentials apart, the same in every runner")
	}
}

// BenchmarkLearn is what each request pays for the others' notices.
func BenchmarkLearn(b *testing.B) {
	board, err := openBoard(b.TempDir(), time.Now())
	if err != nil {
		b.Fatal(err)
	}
	board.post("a", time.Now())
	for name := range map[string]bool{"none": true, "a": true} {
		l := &limiter{clock: time.Now, board: board, name: name}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l.learn()
			}
		})
	}
}
