package event

import "testing"

func TestUsageAdd(t *testing.T) {
	priced := Usage{Requests: 1, InputTokens: 2, OutputTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 5, CostUSD: 0.5, CostKnown: true}
	unpriced := Usage{Requests: 1, InputTokens: 7}
	tests := []struct{ a, b, want Usage }{
		{Usage{}, Usage{}, Usage{}},
		{Usage{}, priced, priced},
		{priced, Usage{}, priced},
		{priced, unpriced, Usage{Requests: 2, InputTokens: 9, OutputTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 5, CostUSD: 0.5}},
		{priced, priced, Usage{Requests: 2, InputTokens: 4, OutputTokens: 6, CacheReadTokens: 8, CacheWriteTokens: 10, CostUSD: 1, CostKnown: true}},
	}
	for _, tt := range tests {
		if got := tt.a.Add(tt.b); got != tt.want {
			t.Errorf("%+v + %+v = %+v, want %+v", tt.a, tt.b, got, tt.want)
		}
	}
}
