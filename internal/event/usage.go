package event

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
	}
}
