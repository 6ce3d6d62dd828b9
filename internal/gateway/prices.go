package gateway

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"regexp"
	"strings"
	"time"
)

//go:embed prices.json
var defaultPrices []byte

const (
	maxPriceFile = 1 << 20 // bytes
	maxPrice     = 1e6     // US dollars per million tokens
)

// Prices is what models cost: price lists, of which a later one overrides an
// earlier one. Read-only once made.
type Prices struct {
	lists   []PriceList
	byModel map[string]Price
}

// PriceList is one dated list.
type PriceList struct {
	Vendor string  `json:"vendor,omitempty"`
	Date   string  `json:"date"` // when it held, YYYY-MM-DD
	Source string  `json:"source"`
	Models []Price `json:"models"`
}

// Price is of a model and its dated versions: "claude-opus-4-5" also prices
// "claude-opus-4-5-20251101". A model that no list names has no price; its
// siblings' are no guess to count on.
type Price struct {
	Model string `json:"model"`
	Rates
	// Long are the rates of a whole request whose prompt, cached tokens
	// included, is larger than Above.
	Long *LongRates `json:"long,omitempty"`
}

// LongRates are the rates of long prompts.
type LongRates struct {
	Above int64 `json:"above"` // tokens
	Rates
}

// Rates are US dollars per million tokens. Cached input without a rate of its
// own costs what input does.
type Rates struct {
	Input        float64  `json:"input"`
	Output       float64  `json:"output"`
	CacheRead    *float64 `json:"cache_read,omitempty"`
	CacheWrite   *float64 `json:"cache_write_5m,omitempty"`
	CacheWrite1h *float64 `json:"cache_write_1h,omitempty"`
}

// DefaultPrices is the table this build carries.
func DefaultPrices() (Prices, error) {
	var lists []PriceList
	if err := json.Unmarshal(defaultPrices, &lists); err != nil {
		return Prices{}, fmt.Errorf("price table: %w", err)
	}
	var p Prices
	for _, l := range lists {
		if err := p.add(l); err != nil {
			return Prices{}, fmt.Errorf("price table: %w", err)
		}
	}
	return p, nil
}

// LoadPrices is DefaultPrices with the list in the file at path over it, where
// there is such a file.
func LoadPrices(path string) (Prices, error) {
	p, err := DefaultPrices()
	if err != nil || path == "" {
		return p, err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read the price list: %w", err)
	}
	if info.Size() > maxPriceFile {
		return p, fmt.Errorf("read the price list %s: it is larger than %d bytes", path, maxPriceFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return p, fmt.Errorf("read the price list: %w", err)
	}
	return p, p.overlay(path, data)
}

// overlay lays a list over the table.
func (p *Prices) overlay(path string, data []byte) error {
	const form = `expected {"date": "YYYY-MM-DD", "source": "…", "models": [{"model": "…", "input": 3, "output": 15}]}, in US dollars per million tokens`
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var l PriceList
	if err := dec.Decode(&l); err != nil {
		line := 1 + bytes.Count(data[:min(dec.InputOffset(), int64(len(data)))], []byte("\n"))
		return fmt.Errorf("read the price list %s:%d: %w; %s", path, line, err, form)
	}
	if err := p.add(l); err != nil {
		return fmt.Errorf("read the price list %s: %w; %s", path, err, form)
	}
	return nil
}

func (p *Prices) add(l PriceList) error {
	if _, err := time.Parse(time.DateOnly, l.Date); err != nil {
		return fmt.Errorf("date %q is not of the form 2026-01-31", l.Date)
	}
	if len(l.Models) == 0 {
		return errors.New("it lists no models")
	}
	if p.byModel == nil {
		p.byModel = map[string]Price{}
	}
	for i, m := range l.Models {
		if m.Model == "" {
			return fmt.Errorf("entry %d names no model", i+1)
		}
		rates := []Rates{m.Rates}
		if m.Long != nil {
			rates = append(rates, m.Long.Rates)
			if m.Long.Above <= 0 {
				return fmt.Errorf("model %q: long.above must be a number of tokens above 0", m.Model)
			}
		}
		for _, r := range rates {
			if err := r.check(); err != nil {
				return fmt.Errorf("model %q: %w", m.Model, err)
			}
		}
		p.byModel[m.Model] = m
	}
	p.lists = append(p.lists, l)
	return nil
}

func (r Rates) check() error {
	for _, v := range []*float64{&r.Input, &r.Output, r.CacheRead, r.CacheWrite, r.CacheWrite1h} {
		if v != nil && (*v < 0 || *v > maxPrice || math.IsNaN(*v)) {
			return fmt.Errorf("a price of %v: expected 0 to %v US dollars per million tokens", *v, maxPrice)
		}
	}
	return nil
}

func (p Prices) empty() bool { return len(p.byModel) == 0 }

// version is what vendors put behind a model's name for one state of it.
var version = regexp.MustCompile(`[-@](\d{3}|\d{8}|\d{4}-\d{2}-\d{2}|latest|preview(-[0-9-]+)?)$`)

func (p Prices) find(model string) (Price, bool) {
	m, ok := p.byModel[model]
	if !ok {
		m, ok = p.byModel[strings.TrimSuffix(model, version.FindString(model))]
	}
	return m, ok
}

// Known says whether the model has a price.
func (p Prices) Known(model string) bool {
	_, ok := p.find(model)
	return ok
}

// cost is in US dollars; false where the model has no price.
func (p Prices) cost(model string, t tokens) (float64, bool) {
	m, ok := p.find(model)
	if !ok {
		return 0, t == tokens{}
	}
	r := m.Rates
	if m.Long != nil && t.input+t.cacheRead+t.cacheWrite > m.Long.Above {
		r = m.Long.Rates
	}
	of := func(n int64, rate *float64) float64 {
		if rate == nil {
			rate = &r.Input
		}
		return float64(n) * *rate
	}
	write1h := r.CacheWrite1h
	if write1h == nil {
		write1h = r.CacheWrite
	}
	return (of(t.input, &r.Input) + of(t.output, &r.Output) + of(t.cacheRead, r.CacheRead) +
		of(t.cacheWrite-t.cacheWrite1h, r.CacheWrite) + of(t.cacheWrite1h, write1h)) / 1e6, true
}
