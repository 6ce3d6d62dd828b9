// Package gateway is where model traffic leaves. It runs on the runner's side;
// boxes reach it through their tunnel with a placeholder token. It checks the
// token, adds the real credential, forwards, counts tokens and dollars, and
// records or replays.
package gateway

// Mode is what the gateway does with an exchange.
type Mode string

// The modes.
const (
	Live   Mode = "live"
	Record Mode = "record"
	Replay Mode = "replay"
	// ReplayOrRecord replays the lanes that are recorded and records the rest.
	ReplayOrRecord Mode = "replay-or-record"
)

// Lane files the exchanges of one agent step attempt in a cassette.
type Lane struct {
	Job     string // leg id
	Step    string
	Attempt int // 1-based
}

// Limits bound one session. Zero: no limit. They are checked before each
// request; what is under way when one is reached still ends.
type Limits struct {
	CostUSD  float64 // refuses models without a known price
	Tokens   int64   // of all kinds, cached ones too
	Requests int64   // to the model; counting tokens is free
	// Unanswered is how many requests in a row may bring no answer; 0: 50.
	Unanswered int
	// Budgets are those the session shares with others, nearest first.
	Budgets []Budget
	Models  []string // allowed; empty: any
}
