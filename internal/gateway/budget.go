package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/herd-runner/herd-runner/internal/event"
)

// What a request is taken to need until its answer says more. Taking too much
// only keeps requests from running side by side when a budget is nearly used up.
const (
	bytesPerToken  = 3
	reservedOutput = 4096 // tokens
)

// maxFruitless is how many requests in a row a session may make without an
// answer where its limits do not say: some CLIs ask for ever where a stream is empty. The most patient one
// asks thirty times where the API fails.
const maxFruitless = 50

// reservation is what an admitted request holds of its budgets.
type reservation struct {
	est Amounts
	day string // empty: there is no day's budget
}

// admit checks a request against what its session may do and, where it may go,
// reserves what it may cost.
func (x *exchange) admit() *refusal {
	if no := x.s.checkModel(x.req.model); no != nil {
		return no
	}
	if !x.req.asks() {
		return nil
	}
	if no := x.s.checkProgress(); no != nil {
		return no
	}
	err := x.reserve()
	var over *exhausted
	switch {
	case err == nil:
		return nil
	case errors.As(err, &over):
		return &refusal{status: http.StatusPaymentRequired, kind: "billing_error", reason: "budget_exhausted", message: "herd-runner: " + err.Error()}
	case x.r.Context().Err() != nil:
		return &refusal{status: http.StatusServiceUnavailable, kind: "api_error", reason: "client_gone", message: "the agent ended the request"}
	}
	return &refusal{status: http.StatusServiceUnavailable, kind: "api_error", reason: "budget_book", message: "herd-runner: " + err.Error()}
}

func (x *exchange) reserve() error {
	s, g := x.s, x.s.gw
	input := int64(len(x.body)/bytesPerToken) + 1
	est := Amounts{Tokens: input + reservedOutput, Requests: 1, Turns: 1}
	// What is written to a cache costs most.
	est.CostUSD, _ = g.prices.cost(x.req.model, tokens{cacheWrite: input, output: reservedOutput})
	bound := x.holdUntil().Sub(g.clock())
	waiting := func(budget string) { x.waits(event.Wait{Reason: event.WaitBudget, What: budget}) }
	if err := g.accounts.reserve(x.r.Context(), s.accounts, est, bound, waiting); err != nil {
		return err
	}
	x.reserved = &reservation{est: est}
	if g.day == nil || s.mode == Replay {
		return nil
	}
	day, err := g.day.reserve(x.r.Context(), est, bound, waiting)
	if err != nil {
		g.accounts.settle(s.accounts, est, Amounts{Requests: -1})
		x.reserved = nil
		return err
	}
	x.reserved.day = day
	return nil
}

// settle replaces what was reserved by what the exchange used. An answer that
// came but does not say what it used counts as what was reserved for it.
func (x *exchange) settle(m *meter) {
	if x.reserved == nil {
		return
	}
	u, g := x.call.Usage, x.s.gw
	spent := Amounts{CostUSD: u.CostUSD, Tokens: u.InputTokens + u.OutputTokens + u.CacheReadTokens + u.CacheWriteTokens}
	if m != nil && x.call.Status < 400 {
		if !m.counted {
			spent = x.reserved.est
			spent.Requests = 0
		}
		spent.Turns = 1
	}
	g.accounts.settle(x.s.accounts, x.reserved.est, spent)
	if x.reserved.day != "" {
		if err := g.day.settle(x.reserved.day, x.reserved.est, spent); err != nil && x.call.Reason == "" {
			x.call.Reason = "budget_book" // the reservation stands
		}
	}
	x.reserved = nil
}

// holdUntil is how long the exchange may be kept waiting.
func (x *exchange) holdUntil() time.Time {
	until := x.started.Add(x.s.gw.timeouts.Hold)
	if d := x.s.deadline; !d.IsZero() && d.Before(until) {
		return d
	}
	return until
}

// waits tells that the exchange is kept waiting.
func (x *exchange) waits(w event.Wait) {
	w.Model = x.call.Model
	x.s.waiting(w)
}

func (s *Session) checkModel(model string) *refusal {
	if allowed := s.limits.Models; len(allowed) > 0 && !slices.Contains(allowed, model) {
		return &refusal{status: http.StatusForbidden, kind: "permission_error", reason: "model",
			message: fmt.Sprintf("herd-runner: model %q is not allowed for %s; allowed: %s", cutText(model, 100), s.lane, strings.Join(allowed, ", "))}
	}
	if s.gw.permit != nil {
		if err := s.gw.permit(model); err != nil {
			return &refusal{status: http.StatusForbidden, kind: "permission_error", reason: "model",
				message: cutText(fmt.Sprintf("herd-runner: %v", err), 1<<10)}
		}
	}
	if limited := s.limitedBy(func(limit Amounts) bool { return limit.CostUSD > 0 }); limited != "" && !s.gw.prices.Known(model) {
		return &refusal{status: http.StatusForbidden, kind: "permission_error", reason: "model",
			message: fmt.Sprintf("herd-runner: model %q has no known price, so the cost limit of %s cannot be kept; give it a price in prices.json or limit tokens instead", cutText(model, 100), limited)}
	}
	return nil
}

// limitedBy names the nearest budget with such a limit; empty: there is none.
func (s *Session) limitedBy(such func(limit Amounts) bool) string {
	for _, a := range s.accounts {
		if such(a.Limit) {
			return a.Name
		}
	}
	if d := s.gw.day; d != nil && such(d.limit) && s.mode != Replay {
		return d.name()
	}
	return ""
}

// checkProgress ends an agent that asks and asks and gets no answer.
func (s *Session) checkProgress() *refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fruitless < cmp.Or(s.limits.Unanswered, maxFruitless) {
		return nil
	}
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", reason: "no_progress",
		message: fmt.Sprintf("herd-runner: %s made %d requests in a row without an answer of the model (the last one: %s)", s.lane, s.fruitless, s.fruitlessEnd)}
}

// progressed notes whether an ended exchange brought an answer. The caller
// holds mu.
func (s *Session) progressed(x *exchange) {
	call := x.call
	switch {
	case !x.req.asks() || call.Mode == "refused" || call.Reason == "client_gone":
	case call.Status < 400 && (call.Usage.OutputTokens > 0 || call.StopReason != ""):
		s.fruitless = 0
	default:
		s.fruitless++
		s.fruitlessEnd = fmt.Sprintf("HTTP %d", call.Status)
		if call.Status < 400 {
			s.fruitlessEnd += " with nothing in it"
		}
	}
}

// Left is what budgets, and the day, let be spent. A budget that no session
// was opened with yet is whole.
func (g *Gateway) Left(budgets []Budget) (Left, error) {
	var left Left
	for _, a := range g.accounts.open(budgets) {
		g.accounts.mu.Lock()
		left = left.and(a.left())
		g.accounts.mu.Unlock()
	}
	if g.day == nil || g.mode == Replay {
		return left, nil
	}
	spent, err := g.day.Spent()
	if err != nil {
		return left, err
	}
	day := account{Budget: Budget{Limit: g.day.limit}, spent: spent}
	return left.and(day.left()), nil
}
