package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Amounts is what budgets count. In a limit zero means no limit.
type Amounts struct {
	CostUSD  float64 `json:"cost_usd,omitempty"` // at API rates
	Tokens   int64   `json:"tokens,omitempty"`   // of all kinds, cached ones too
	Requests int64   `json:"requests,omitempty"` // sent to the model; counting tokens is free
	Turns    int64   `json:"turns,omitempty"`    // answers of the model
}

func (a Amounts) plus(b Amounts) Amounts {
	return Amounts{a.CostUSD + b.CostUSD, a.Tokens + b.Tokens, a.Requests + b.Requests, a.Turns + b.Turns}
}

func (a Amounts) minus(b Amounts) Amounts {
	return Amounts{a.CostUSD - b.CostUSD, a.Tokens - b.Tokens, a.Requests - b.Requests, a.Turns - b.Turns}
}

// over says which limit a reaches, for the person; empty: none.
func (a Amounts) over(limit Amounts) string {
	switch {
	case limit.CostUSD > 0 && a.CostUSD >= limit.CostUSD:
		return fmt.Sprintf("$%.4f of $%.4f allowed (max-cost-usd)", a.CostUSD, limit.CostUSD)
	case limit.Tokens > 0 && a.Tokens >= limit.Tokens:
		return fmt.Sprintf("%d tokens of %d allowed, cached ones counted (max-tokens)", a.Tokens, limit.Tokens)
	case limit.Requests > 0 && a.Requests >= limit.Requests:
		return fmt.Sprintf("%d model requests of %d allowed (max-requests)", a.Requests, limit.Requests)
	case limit.Turns > 0 && a.Turns >= limit.Turns:
		return fmt.Sprintf("%d answers of %d allowed (max-turns)", a.Turns, limit.Turns)
	}
	return ""
}

// Budget is a limit that all sessions opened with its Key keep together.
type Budget struct {
	Key   string
	Name  string // for the person: `job "fix"`, "the run"
	Limit Amounts
}

// account is what was spent of a budget. reserved is what requests under way
// may yet spend.
type account struct {
	Budget
	spent, reserved Amounts
}

// accounts are those of a gateway, by key. Safe for concurrent use.
type accounts struct {
	mu    sync.Mutex
	byKey map[string]*account
	freed chan struct{} // closed and renewed when a request has ended
}

func newAccounts() *accounts {
	return &accounts{byKey: map[string]*account{}, freed: make(chan struct{})}
}

// open gives the accounts of budgets, in their order. The first one to name a
// key sets its limit.
func (t *accounts) open(budgets []Budget) []*account {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*account
	for _, b := range budgets {
		a := t.byKey[b.Key]
		if a == nil {
			a = &account{Budget: b}
			t.byKey[b.Key] = a
		}
		all = append(all, a)
	}
	return all
}

// exhausted says that a budget lets no more requests through.
type exhausted struct {
	budget string
	what   string
}

func (e *exhausted) Error() string {
	return fmt.Sprintf("the budget of %s is exhausted: %s", e.budget, e.what)
}

// reserve takes est from all accounts, nearest first, or says which one has
// nothing left. Where only requests under way stand between it and a budget's
// end it waits for them to end: those that end cheaper leave room, and what is
// overrun is at most what one request costs more than was reserved for it, for
// each one under way. waiting is called once, before the first wait.
func (t *accounts) reserve(ctx context.Context, all []*account, est Amounts, bound time.Duration, waiting func(budget string)) error {
	var timeout <-chan time.Time
	for {
		t.mu.Lock()
		blocked := ""
		what := ""
		for _, a := range all {
			if over := a.spent.over(a.Limit); over != "" {
				t.mu.Unlock()
				return &exhausted{a.Name, over}
			}
			if over := a.spent.plus(a.reserved).over(a.Limit); over != "" && blocked == "" {
				blocked, what = a.Name, over
			}
		}
		if blocked == "" {
			for _, a := range all {
				a.spent.Requests += est.Requests
				a.reserved = a.reserved.plus(Amounts{est.CostUSD, est.Tokens, 0, est.Turns})
			}
			t.mu.Unlock()
			return nil
		}
		freed := t.freed
		t.mu.Unlock()
		if timeout == nil {
			waiting(blocked)
			timer := time.NewTimer(bound)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-freed:
		case <-timeout:
			return &exhausted{blocked, what + ", with what requests under way may cost"}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settle turns a reservation into what was really spent.
func (t *accounts) settle(all []*account, est, spent Amounts) {
	est.Requests = 0 // counted when it was sent
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range all {
		a.reserved = a.reserved.minus(est)
		a.spent = a.spent.plus(spent)
	}
	close(t.freed)
	t.freed = make(chan struct{})
}

// left is what the account lets be spent; nil: without limit.
func (a *account) left() (left Left) {
	rest := a.Limit.minus(a.spent)
	if a.Limit.CostUSD > 0 {
		v := max(0, rest.CostUSD)
		left.CostUSD = &v
	}
	if a.Limit.Tokens > 0 {
		v := max(0, rest.Tokens)
		left.Tokens = &v
	}
	if a.Limit.Requests > 0 {
		v := max(0, rest.Requests)
		left.Requests = &v
	}
	if a.Limit.Turns > 0 {
		v := max(0, rest.Turns)
		left.Turns = &v
	}
	return left
}

// Left is what budgets let be spent; nil: there is no limit.
type Left struct {
	CostUSD                 *float64
	Tokens, Requests, Turns *int64
}

func least[T int64 | float64](a, b *T) *T {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

func (l Left) and(o Left) Left {
	return Left{least(l.CostUSD, o.CostUSD), least(l.Tokens, o.Tokens), least(l.Requests, o.Requests), least(l.Turns, o.Turns)}
}
