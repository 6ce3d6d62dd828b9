package main

import (
	"encoding/json"
	"os"

	"github.com/herd-runner/herd-runner/internal/journal"
)

// result is what --result-file holds.
type result struct {
	RunID      string  `json:"run_id"`
	Conclusion string  `json:"conclusion"`
	CostUSD    float64 `json:"cost_usd"`
}

func writeResult(name string, state journal.RunState) error {
	r := result{RunID: state.ID, Conclusion: string(state.Status)}
	if state.Usage.Requests > 0 {
		r.CostUSD = state.Usage.CostUSD
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o644)
}
