package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// admit checks a request against the session's limits and, where it may go,
// counts it. Requests under way at the same time are admitted on what is known
// then, so a budget can be overrun by what they cost.
func (s *Session) admit(model string, asks bool) *refusal {
	if no := s.checkModel(model); no != nil {
		return no
	}
	if !asks {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.limits
	over := ""
	switch {
	case l.Requests > 0 && s.admitted >= l.Requests:
		over = fmt.Sprintf("%d model requests of %d allowed", s.admitted, l.Requests)
	case l.Tokens > 0 && s.consumed >= l.Tokens:
		over = fmt.Sprintf("%d tokens of %d allowed (cached ones counted)", s.consumed, l.Tokens)
	case l.CostUSD > 0 && s.view.Usage.CostUSD >= l.CostUSD:
		over = fmt.Sprintf("$%.4f of $%.4f allowed", s.view.Usage.CostUSD, l.CostUSD)
	}
	if over != "" {
		return &refusal{http.StatusPaymentRequired, "billing_error", "budget_exhausted",
			fmt.Sprintf("herd-runner: the budget of %s is exhausted: %s", s.lane, over)}
	}
	s.admitted++
	return nil
}

func (s *Session) checkModel(model string) *refusal {
	allowed := s.limits.Models
	if len(allowed) > 0 && !slices.Contains(allowed, model) {
		return &refusal{http.StatusForbidden, "permission_error", "model",
			fmt.Sprintf("herd-runner: model %q is not allowed for %s; allowed: %s", cutText(model, 100), s.lane, strings.Join(allowed, ", "))}
	}
	if _, priced := s.gw.prices.find(model); s.limits.CostUSD > 0 && !priced {
		return &refusal{http.StatusForbidden, "permission_error", "model",
			fmt.Sprintf("herd-runner: model %q has no known price, so the cost limit of %s cannot be kept; give it a price or limit tokens instead", cutText(model, 100), s.lane)}
	}
	return nil
}
