package runtimes

import (
	"fmt"
	"sort"
	"strings"
)

// Types of runtimes, as written in `runtime: {type: …}`.
const (
	TypeCLI = "cli"
	TypeSDK = "sdk"
)

// defaultEngine names the engine of a type where the workflow names none.
func defaultEngine(typ string) string {
	switch typ {
	case TypeCLI:
		return "claude"
	case TypeSDK:
		return "anthropic"
	}
	return ""
}

// Factory chooses a Runtime from configuration. It is immutable and safe for
// concurrent use.
type Factory struct {
	rts []Runtime // in the order given
}

// NewFactory returns a Factory over rts. Two runtimes of the same type and
// engine, or one without either, are an error.
func NewFactory(rts ...Runtime) (*Factory, error) {
	seen := map[[2]string]string{}
	for _, rt := range rts {
		d := rt.Describe()
		if d.Type == "" || d.Engine == "" {
			return nil, fmt.Errorf("runtime %q has no type or no engine", d.Name)
		}
		key := [2]string{d.Type, d.Engine}
		if other, ok := seen[key]; ok {
			return nil, fmt.Errorf("runtimes %q and %q are both type %q, engine %q", other, d.Name, d.Type, d.Engine)
		}
		seen[key] = d.Name
	}
	return &Factory{rts: append([]Runtime(nil), rts...)}, nil
}

// All describes every runtime, sorted by type and engine.
func (f *Factory) All() []Description {
	all := make([]Description, 0, len(f.rts))
	for _, rt := range f.rts {
		all = append(all, rt.Describe())
	}
	sort.Slice(all, func(i, j int) bool {
		if all[i].Type != all[j].Type {
			return all[i].Type < all[j].Type
		}
		return all[i].Engine < all[j].Engine
	})
	return all
}

// Pick returns the runtime that cfg asks for. An empty type means the type of
// the named engine, or "cli"; an empty engine means "claude" for "cli" and
// "anthropic" for "sdk". There is no fallback: what is not there is an error
// that lists what is.
func (f *Factory) Pick(cfg Config) (Runtime, error) {
	typ, engine := cfg.Type, cfg.Engine
	if typ == "" && engine != "" {
		typ = f.typeOf(engine)
	}
	if typ == "" {
		typ = TypeCLI
	}
	if engine == "" {
		engine = defaultEngine(typ)
	}
	for _, rt := range f.rts {
		if d := rt.Describe(); d.Type == typ && d.Engine == engine {
			return rt, nil
		}
	}
	return nil, f.unknown(typ, engine)
}

// typeOf finds the type of an engine that has only its name; cli wins.
func (f *Factory) typeOf(engine string) string {
	typ := ""
	for _, d := range f.All() {
		if d.Engine == engine && (typ == "" || d.Type == TypeCLI) {
			typ = d.Type
		}
	}
	return typ
}

func (f *Factory) unknown(typ, engine string) error {
	var types, engines, list []string
	for _, d := range f.All() {
		list = append(list, d.Type+"/"+d.Engine)
		types = append(types, d.Type)
		if d.Type == typ {
			engines = append(engines, d.Engine)
		}
	}
	what, have, near := fmt.Sprintf("unknown runtime type %q", typ), types, typ
	if len(engines) > 0 {
		what, have, near = fmt.Sprintf("unknown engine %q for runtime type %q", engine, typ), engines, engine
	}
	hint := ""
	if guess := nearest(near, have); guess != "" {
		hint = fmt.Sprintf("; did you mean %q?", guess)
	}
	return fmt.Errorf("%s: expected one of %s (type/engine)%s", what, strings.Join(list, ", "), hint)
}

// nearest returns the word of have within two edits of s, or "".
func nearest(s string, have []string) string {
	best, bestDist := "", 3
	for _, h := range have {
		if d := distance(strings.ToLower(s), h); d < bestDist {
			best, bestDist = h, d
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes, after cutting a to 64.
func distance(a, b string) int {
	if len(a) > 64 {
		a = a[:64]
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diag, row[j] = row[j], min(row[j]+1, row[j-1]+1, diag+cost)
		}
	}
	return row[len(b)]
}
