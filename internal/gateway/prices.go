package gateway

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

//go:embed prices.json
var defaultPrices []byte

// Prices is a dated price table. Read-only once made.
type Prices struct {
	Date   string `json:"date"` // of the list, YYYY-MM-DD
	Source string `json:"source"`
	// Multipliers of the input price for cached input.
	CacheRead    float64 `json:"cache_read"`
	CacheWrite5m float64 `json:"cache_write_5m"`
	CacheWrite1h float64 `json:"cache_write_1h"`
	Models       []Price `json:"models"`
}

// Price is of all models whose name begins with Prefix, in US dollars per
// million tokens. The longest prefix wins.
type Price struct {
	Prefix string  `json:"prefix"`
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// DefaultPrices is the table this build carries.
func DefaultPrices() (Prices, error) { return ParsePrices(defaultPrices) }

// ParsePrices reads a price table of the form of prices.json.
func ParsePrices(data []byte) (Prices, error) {
	var p Prices
	if err := json.Unmarshal(data, &p); err != nil {
		return Prices{}, fmt.Errorf("price table: %w", err)
	}
	if p.empty() || p.Date == "" {
		return Prices{}, fmt.Errorf("price table: needs a date and models")
	}
	for _, m := range p.Models {
		if m.Prefix == "" || m.Input < 0 || m.Output < 0 {
			return Prices{}, fmt.Errorf("price table: model %q: needs a prefix and prices of at least 0", m.Prefix)
		}
	}
	return p, nil
}

func (p Prices) empty() bool { return len(p.Models) == 0 }

func (p Prices) find(model string) (Price, bool) {
	var best Price
	for _, m := range p.Models {
		if strings.HasPrefix(model, m.Prefix) && len(m.Prefix) > len(best.Prefix) {
			best = m
		}
	}
	return best, best.Prefix != ""
}

// cost is in US dollars; false where the model has no price.
func (p Prices) cost(model string, t tokens) (float64, bool) {
	m, ok := p.find(model)
	if !ok {
		return 0, t == tokens{}
	}
	short := t.cacheWrite - t.cacheWrite1h
	input := float64(t.input) + float64(t.cacheRead)*p.CacheRead + float64(short)*p.CacheWrite5m + float64(t.cacheWrite1h)*p.CacheWrite1h
	return (input*m.Input + float64(t.output)*m.Output) / 1e6, true
}
