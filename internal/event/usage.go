package event

import "encoding/json"

// Add gives the sum of u and v. Its cost is known when that of both is; one
// that counts nothing says nothing about it.
func (u Usage) Add(v Usage) Usage {
	known := u.CostKnown && v.CostKnown
	switch (Usage{}) {
	case u:
		known = v.CostKnown
	case v:
		known = u.CostKnown
	}
	return Usage{
		Requests:         u.Requests + v.Requests,
		InputTokens:      u.InputTokens + v.InputTokens,
		OutputTokens:     u.OutputTokens + v.OutputTokens,
		CacheReadTokens:  u.CacheReadTokens + v.CacheReadTokens,
		CacheWriteTokens: u.CacheWriteTokens + v.CacheWriteTokens,
		ReasoningTokens:  u.ReasoningTokens + v.ReasoningTokens,
		CostUSD:          u.CostUSD + v.CostUSD,
		CostKnown:        known,
		Estimated:        u.Estimated || v.Estimated,
		CostBasis:        JoinBasis(u.CostBasis, v.CostBasis),
	}
}

// JoinBasis is the basis of two costs together.
func JoinBasis(a, b string) string {
	switch {
	case a == "" || a == b:
		return b
	case b == "":
		return a
	}
	return BasisMixed
}

// MarshalJSON writes null for a cost of which nothing is known: 0 would be a
// claim.
func (u Usage) MarshalJSON() ([]byte, error) {
	type plain Usage // without this method
	if u.CostKnown || u.CostUSD != 0 {
		return json.Marshal(plain(u))
	}
	return json.Marshal(struct {
		plain
		CostUSD *float64 `json:"cost_usd"`
	}{plain: plain(u)})
}
