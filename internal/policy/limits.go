package policy

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
)

// DayBudget is what all runs of the user may spend in a day. Zero: no limit.
type DayBudget struct {
	MaxCostUSD  float64 `yaml:"max-cost-usd" json:"max_cost_usd,omitempty"`
	MaxTokens   int64   `yaml:"max-tokens" json:"max_tokens,omitempty"`
	MaxRequests int64   `yaml:"max-requests" json:"max_requests,omitempty"`
	MaxTurns    int64   `yaml:"max-turns" json:"max_turns,omitempty"`
}

func (b DayBudget) check() error {
	if b.MaxCostUSD < 0 || math.IsNaN(b.MaxCostUSD) || math.IsInf(b.MaxCostUSD, 0) || b.MaxTokens < 0 || b.MaxRequests < 0 || b.MaxTurns < 0 {
		return fmt.Errorf("day-budget: a limit must be a number above 0; leave out what is not limited")
	}
	return nil
}

// Models is what the operator says of models.
type Models struct {
	// Allow are patterns of the names that may be asked for; * matches any
	// characters but a slash. Empty: any.
	Allow []string `yaml:"allow" json:"allow,omitempty"`
	// Aliases are names for workflows to use in place of models' own.
	Aliases map[string]string `yaml:"aliases" json:"aliases,omitempty"`
}

func (m Models) check() error {
	for _, pattern := range m.Allow {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			return fmt.Errorf("models.allow: %q is no pattern; write a name, or one with * such as claude-*", pattern)
		}
	}
	for alias, model := range m.Aliases {
		if alias == "" || model == "" {
			return fmt.Errorf("models.aliases: %q: %q: neither may be empty", alias, model)
		}
		if m.Aliases[model] != "" {
			return fmt.Errorf("models.aliases: %q stands for %q, which is an alias itself; write the model's own name", alias, model)
		}
	}
	return nil
}

// Models is what is said of models.
func (p *Policy) Models() Models { return p.models }

// Model is the model that a name of a workflow stands for.
func (p *Policy) Model(name string) string {
	if model := p.models.Aliases[name]; model != "" {
		return model
	}
	return name
}

// PermitModel refuses models that the policy does not allow: a *Refusal.
func (p *Policy) PermitModel(model string) error {
	allowed := func(pattern string) bool {
		ok, err := path.Match(pattern, model)
		return ok && err == nil
	}
	if len(p.models.Allow) == 0 || slices.ContainsFunc(p.models.Allow, allowed) {
		return nil
	}
	return &Refusal{Rule: "models", What: fmt.Sprintf("model %q", model),
		Allow: fmt.Sprintf("add it to models: {allow: [%s]} in %s", strings.Join(p.models.Allow, ", "), p.path)}
}

// String says the limits in words; "" where there are none.
func (b DayBudget) String() string {
	var parts []string
	if b.MaxCostUSD > 0 {
		parts = append(parts, fmt.Sprintf("$%.2f", b.MaxCostUSD))
	}
	for _, l := range []struct {
		n    int64
		what string
	}{{b.MaxTokens, "tokens"}, {b.MaxRequests, "requests"}, {b.MaxTurns, "turns"}} {
		if l.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", l.n, l.what))
		}
	}
	return strings.Join(parts, ", ")
}

// DayBudget is what all runs of the user may spend in a day.
func (p *Policy) DayBudget() DayBudget { return p.day }
