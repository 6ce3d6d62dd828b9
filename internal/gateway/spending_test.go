package gateway

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func never(string) {}

// Of nested budgets the nearest exhausted one is named.
func TestTheNearestExhaustedBudgetIsNamed(t *testing.T) {
	books := newAccounts()
	step := books.open([]Budget{{"s", "step a", Amounts{Tokens: 100}}, {"j", "job a", Amounts{CostUSD: 1}}, {"r", "the run", Amounts{CostUSD: 1, Turns: 50}}})
	other := books.open([]Budget{{"j", "job a", Amounts{CostUSD: 1}}, {"r", "the run", Amounts{}}})
	spend := func(all []*account, a Amounts) {
		t.Helper()
		if err := books.reserve(t.Context(), all, Amounts{Requests: 1}, time.Second, never); err != nil {
			t.Fatal(err)
		}
		books.settle(all, Amounts{Requests: 1}, a)
	}
	want := func(all []*account, texts ...string) {
		t.Helper()
		var e *exhausted
		if err := books.reserve(t.Context(), all, Amounts{}, time.Second, never); !errors.As(err, &e) || !strings.Contains(err.Error(), texts[0]) || !strings.Contains(err.Error(), texts[1]) {
			t.Errorf("%v, want %q", err, texts)
		}
	}
	spend(step, Amounts{CostUSD: 0.4, Tokens: 60, Turns: 1})
	if got := step[0].left().and(step[1].left()).and(step[2].left()); *got.CostUSD != 0.6 || *got.Tokens != 40 || *got.Turns != 49 || got.Requests != nil {
		t.Errorf("left: %+v", got)
	}
	spend(step, Amounts{CostUSD: 0.1, Tokens: 60})
	want(step, "step a", "120 tokens of 100")
	spend(other, Amounts{CostUSD: 0.5})
	want(other, "job a", "$1.0000 of $1.0000")
	if got := step[0].left(); *got.Tokens != 0 {
		t.Errorf("overrun leaves %d tokens", *got.Tokens)
	}
}

// 20 steps at once overrun a budget by what one request costs more than was
// reserved, not by what twenty cost: the others wait for those before them.
func TestParallelRequestsDoNotOvershoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := newAccounts()
		all := books.open([]Budget{{"r", "the run", Amounts{CostUSD: 1}}})
		var wg sync.WaitGroup
		var mu sync.Mutex
		refused, waited := 0, 0
		for range 20 {
			wg.Go(func() {
				for {
					est := Amounts{CostUSD: 0.2, Requests: 1}
					err := books.reserve(t.Context(), all, est, time.Hour, func(string) { mu.Lock(); waited++; mu.Unlock() })
					if err != nil {
						mu.Lock()
						refused++
						mu.Unlock()
						return
					}
					time.Sleep(time.Second)
					books.settle(all, est, Amounts{CostUSD: 0.15})
				}
			})
		}
		wg.Wait()
		a := all[0]
		if a.spent.CostUSD < 1 || a.spent.CostUSD > 1.2 || refused != 20 || waited == 0 {
			t.Errorf("spent %v, refused %d, waited %d", a.spent.CostUSD, refused, waited)
		}
		if a.reserved.CostUSD > 1e-9 || a.reserved.Turns != 0 {
			t.Errorf("still reserved: %+v", a.reserved)
		}
	})
}

func TestWaitingForABudgetIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		books := newAccounts()
		all := books.open([]Budget{{"r", "the run", Amounts{Tokens: 10}}})
		if err := books.reserve(t.Context(), all, Amounts{Tokens: 10}, time.Minute, never); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := books.reserve(t.Context(), all, Amounts{Tokens: 10}, time.Minute, never)
		var e *exhausted
		if !errors.As(err, &e) || time.Since(began) != time.Minute || !strings.Contains(err.Error(), "under way") {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := books.reserve(ctx, all, Amounts{Tokens: 10}, time.Minute, never); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func noon() time.Time { return time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local) }

func openDay(t *testing.T, dir string, limit Amounts, clock func() time.Time) *Day {
	t.Helper()
	d, err := NewDay(dir, limit, clock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// The day's budget is one for all runners, and begins anew at midnight.
func TestTheDayIsSharedByRunners(t *testing.T) {
	dir := t.TempDir()
	now := noon()
	clock := func() time.Time { return now }
	limit := Amounts{CostUSD: 1}
	one, two := openDay(t, dir, limit, clock), openDay(t, dir, limit, clock)
	est := Amounts{CostUSD: 0.5, Requests: 1, Turns: 1}
	day, err := one.reserve(t.Context(), est, time.Second, never)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.settle(day, est, Amounts{CostUSD: 0.9, Turns: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := two.Spent(); err != nil || got != (Amounts{CostUSD: 0.9, Requests: 1, Turns: 1}) {
		t.Errorf("the other runner sees %+v, %v", got, err)
	}
	// What one has under way is not free for the other: it waits, and goes on
	// when there is room.
	if day, err = two.reserve(t.Context(), est, time.Second, never); err != nil {
		t.Fatal(err)
	}
	var e *exhausted
	if _, err := one.reserve(t.Context(), est, 0, never); !errors.As(err, &e) || !strings.Contains(err.Error(), "under way") {
		t.Errorf("%v", err)
	}
	done := make(chan error)
	go func() { _, err := one.reserve(t.Context(), est, time.Minute, never); done <- err }()
	if err := two.settle(day, est, Amounts{CostUSD: 0.05}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("with room: %v", err)
	}
	if err := one.settle(day, est, Amounts{CostUSD: 0.2}); err != nil {
		t.Fatal(err)
	}
	if _, err := two.reserve(t.Context(), est, time.Second, never); !errors.As(err, &e) || !strings.Contains(err.Error(), "the day") {
		t.Errorf("%v", err)
	}
	now = now.Add(13 * time.Hour)
	if _, err := two.reserve(t.Context(), est, time.Second, never); err != nil {
		t.Errorf("the next day: %v", err)
	}
}

// A runner that dies in the middle of a line, or of a request, loses nothing
// of what was spent.
func TestTheDayOutlivesACrash(t *testing.T) {
	dir := t.TempDir()
	limit := Amounts{CostUSD: 1}
	one := openDay(t, dir, limit, noon)
	est := Amounts{CostUSD: 0.6, Requests: 1}
	if _, err := one.reserve(t.Context(), est, time.Second, never); err != nil {
		t.Fatal(err)
	}
	_ = one.Close() // it died with a request under way
	path := filepath.Join(dir, "2026-11-22.jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.WriteString(`{"spent":{"cost_u`)
	_ = f.Close()
	two := openDay(t, dir, limit, noon)
	day, err := two.reserve(t.Context(), est, time.Second, never)
	if err != nil {
		t.Fatalf("0.6 of 1 is taken: %v", err)
	}
	if err := two.settle(day, est, Amounts{CostUSD: 0.3}); err != nil {
		t.Fatal(err)
	}
	three := openDay(t, dir, limit, noon)
	if got, _ := three.Spent(); got != (Amounts{CostUSD: 0.3, Requests: 2}) {
		t.Errorf("%+v", got)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestOldDaysAreForgotten(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"2026-01-01.jsonl", "2026-11-21.jsonl", "notes.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	openDay(t, dir, Amounts{}, noon)
	left, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(left) != 3 { // yesterday, today, and what is none of ours
		t.Errorf("%v", left)
	}
}
