package gateway

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Under a limit requests wait, one goes first when it ends, and all go in the
// order in which they came.
func TestLimitedRequestsGoInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{clock: time.Now}
		first := l.ticket()
		if err := l.wait(t.Context(), first, time.Now().Add(time.Minute), func(time.Time) { t.Error("waits without a limit") }); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(10 * time.Second)
		l.heard(first, limited, end)

		var went [20]time.Duration // after the limit's end
		var wg sync.WaitGroup
		for i := range 20 {
			tk := l.ticket()
			wg.Go(func() {
				if err := l.wait(t.Context(), tk, time.Now().Add(time.Minute), func(until time.Time) {
					if !until.Equal(end) {
						t.Errorf("waits until %v, want %v", until, end)
					}
				}); err != nil {
					t.Error(err)
				}
				went[i] = time.Since(end)
				time.Sleep(time.Second) // the API thinks
				l.heard(tk, taken, time.Time{})
			})
			synctest.Wait()
		}
		wg.Wait()
		// 1, 2, 4, 8 and 5 go at once.
		if !slices.IsSorted(went[:]) || went[0] != 0 || went[1] != time.Second || went[2] != time.Second || went[19] != 4*time.Second {
			t.Errorf("they went %v after the limit", went)
		}
	})
}

// A storm is one limit: the back-off grows with limits in a row, not with the
// answers to requests that were sent at once.
func TestOneStormIsOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{clock: time.Now}
		var tickets []*ticket
		for range 20 {
			tk := l.ticket()
			if err := l.wait(t.Context(), tk, time.Now().Add(time.Minute), nil); err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, tk)
		}
		for _, tk := range tickets {
			l.heard(tk, limited, time.Time{})
		}
		if wait := time.Until(l.until); wait != time.Second {
			t.Errorf("after one storm it waits %v", wait)
		}
		for _, want := range []time.Duration{2, 4, 8, 16, 30, 30} {
			if err := l.wait(t.Context(), tickets[0], time.Now().Add(time.Minute), func(time.Time) {}); err != nil {
				t.Fatal(err)
			}
			l.heard(tickets[0], limited, time.Time{})
			if wait := time.Until(l.until); wait != want*time.Second {
				t.Errorf("it waits %v, want %v s", wait, int(want))
			}
		}
		// The one that came first goes first again, before one that is new.
		late := l.ticket()
		went := make(chan *ticket, 2)
		for _, tk := range []*ticket{late, tickets[0]} {
			go func() {
				if l.wait(t.Context(), tk, time.Now().Add(time.Hour), func(time.Time) {}) == nil {
					went <- tk
					l.heard(tk, taken, time.Time{})
				}
			}()
			synctest.Wait()
		}
		if got := <-went; got != tickets[0] {
			t.Error("a newcomer went before one that had waited")
		}
		<-went
	})
}

// Waits are bounded: by the deadline, at once where the limit ends after it,
// and by the request's own end. Who leaves takes no place with him.
func TestWaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limiter{clock: time.Now}
		tk := l.ticket()
		_ = l.wait(t.Context(), tk, time.Now().Add(time.Minute), nil)
		end := time.Now().Add(time.Hour)
		l.heard(tk, limited, end)
		var late *limitedError
		if err := l.wait(t.Context(), l.ticket(), time.Now().Add(time.Minute), nil); !errors.As(err, &late) || !late.until.Equal(end) {
			t.Errorf("%v", err)
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.wait(ctx, l.ticket(), end.Add(time.Hour), func(time.Time) {}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		// One is on its way and hears nothing: the next one gives up in time.
		time.Sleep(time.Until(end))
		probe := l.ticket()
		_ = l.wait(t.Context(), probe, time.Now().Add(time.Minute), nil)
		if err := l.wait(t.Context(), l.ticket(), time.Now().Add(time.Minute), func(time.Time) {}); !errors.As(err, &late) || !late.until.After(time.Now()) {
			t.Errorf("%v", err)
		}
		l.heard(probe, unheard, time.Time{})
		if err := l.wait(t.Context(), l.ticket(), time.Now().Add(time.Minute), nil); err != nil {
			t.Errorf("after an answer that says nothing: %v", err)
		}
		if len(l.queue) != 0 || l.sent != 1 {
			t.Errorf("%d wait, %d are on their way", len(l.queue), l.sent)
		}
	})
}
