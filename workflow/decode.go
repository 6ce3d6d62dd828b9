package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// decoder turns an evaluated block into a struct and gathers all errors in it.
type decoder struct {
	eval   EvalFunc
	static bool // leave out what holds expressions: the check before the run
	// done holds the big values that a check has seen in another merged block.
	done map[*Value]bool
	errs []error
}

func staticEval(v *Value) (expr.Value, error) { return Evaluate(v, expr.Env{}) }

func (d *decoder) seen(v *Value) bool {
	if d.done == nil {
		return false
	}
	before := d.done[v]
	d.done[v] = true
	return before
}

func (d *decoder) err() error { return errors.Join(d.errs...) }

func (d *decoder) fail(v *Value, hint, format string, args ...any) {
	d.errs = append(d.errs, evalErrorf(v, hint, format, args...))
}

// value evaluates v; ok is false where there is nothing to go on with.
func (d *decoder) value(v *Value) (x expr.Value, ok bool) {
	if v == nil || d.static && !isStatic(v) {
		return nil, false
	}
	x, err := d.eval(v)
	if err != nil {
		d.errs = append(d.errs, err)
		return nil, false
	}
	return x, true
}

// each calls read for every key of the mapping v, which must be known.
func (d *decoder) each(v *Value, where string, known []string, read func(key string, v *Value)) {
	switch {
	case v == nil:
		return
	case v.Kind != Mapping:
		d.fail(v, "", "%s must be a mapping, found %s", where, describe(v))
		return
	}
	for _, e := range v.Entries {
		switch {
		case !slices.Contains(known, e.Key.Text):
			d.fail(e.Key, suggest(e.Key.Text, known), "unknown key %q in %s", e.Key.Text, where)
		case isNull(e.Value):
			d.fail(e.Key, "give it a value or remove the key", "`%s` is empty", e.Key.Text)
		default:
			read(e.Key.Text, e.Value)
		}
	}
}

func (d *decoder) text(v *Value) string {
	x, ok := d.value(v)
	if !ok {
		return ""
	}
	s, err := textOf(v, x)
	if err != nil {
		d.errs = append(d.errs, err)
	}
	return s
}

func (d *decoder) nonEmpty(key string, v *Value) string {
	x, ok := d.value(v)
	if !ok {
		return ""
	}
	s, err := textOf(v, x)
	switch {
	case err != nil:
		d.errs = append(d.errs, err)
	case strings.TrimSpace(s) == "":
		d.fail(v, "", "`%s` is empty", key)
	case strings.ContainsAny(s, "\x00\n"):
		d.fail(v, "", "`%s` must be one line without NUL", key)
	}
	return s
}

func (d *decoder) oneOf(key string, v *Value, allowed ...string) string {
	x, ok := d.value(v)
	if !ok {
		return ""
	}
	s, isText := x.(string)
	if !isText || !slices.Contains(allowed, s) {
		d.fail(v, suggest(s, allowed), "`%s` cannot be %s", key, kindName(x))
		return ""
	}
	return s
}

func (d *decoder) boolean(v *Value) *bool {
	x, ok := d.value(v)
	if !ok {
		return nil
	}
	b, err := boolOf(v, x)
	if err != nil {
		d.errs = append(d.errs, err)
		return nil
	}
	return &b
}

// number takes a finite number between low and high.
func (d *decoder) number(key string, v *Value, low, high float64) float64 {
	x, ok := d.value(v)
	if !ok {
		return 0
	}
	n, err := numberOf(v, x)
	switch {
	case err != nil:
		d.fail(v, fmt.Sprintf("write a number from %s to %s", expr.String(low), expr.String(high)), "`%s` must be a number, found %s", key, kindName(x))
		return 0
	case n < low || n > high:
		d.fail(v, fmt.Sprintf("write a number from %s to %s", expr.String(low), expr.String(high)), "`%s` cannot be %s", key, expr.String(n))
		return 0
	}
	return n
}

// whole takes a whole number between low and high.
func (d *decoder) whole(key string, v *Value, low, high int64) int64 {
	before := len(d.errs)
	n := d.number(key, v, float64(low), float64(high))
	if len(d.errs) == before && n != math.Trunc(n) {
		d.fail(v, "", "`%s` must be a whole number, found %s", key, expr.String(n))
		return 0
	}
	return int64(n)
}

// item is one evaluated entry of a list with where it is written.
type item struct {
	at *Value
	x  expr.Value
}

// list takes a list, or one value that stands for a list of one. Where the list
// itself is an expression all its entries are placed there.
func (d *decoder) list(key string, v *Value) []item {
	if d.seen(v) {
		return nil
	}
	if v.Kind == Sequence {
		var items []item
		for _, at := range v.Items {
			if x, ok := d.value(at); ok {
				items = append(items, item{at, x})
			}
		}
		return items
	}
	x, ok := d.value(v)
	if !ok {
		return nil
	}
	switch x := x.(type) {
	case *expr.Array:
		items := make([]item, len(x.Items))
		for i := range x.Items {
			items[i] = item{v, x.Items[i]}
		}
		return items
	case string, float64, bool:
		return []item{{v, x}}
	}
	d.fail(v, "", "`%s` must be a list, found %s", key, kindName(x))
	return nil
}

func (d *decoder) texts(key string, v *Value) []string {
	list := []string{}
	for _, it := range d.list(key, v) {
		s, err := textOf(it.at, it.x)
		if err != nil {
			d.errs = append(d.errs, err)
			continue
		}
		if strings.Contains(s, "\x00") {
			d.fail(it.at, "", "an entry of `%s` holds a NUL", key)
			continue
		}
		list = append(list, s)
	}
	return list
}

// textMap takes a mapping of texts, such as `env` and `labels`.
func (d *decoder) textMap(key string, v *Value) map[string]string {
	m := map[string]string{}
	if d.seen(v) {
		return m
	}
	put := func(name string, at *Value, x expr.Value) {
		s, err := textOf(at, x)
		switch {
		case err != nil:
			d.errs = append(d.errs, err)
		case name == "" || strings.ContainsAny(name, "=\x00\n") || strings.Contains(s, "\x00"):
			d.fail(at, "", "%q cannot be a name in `%s`, or its value holds a NUL", name, key)
		default:
			m[name] = s
		}
	}
	if v.Kind == Mapping {
		for _, e := range v.Entries {
			name := d.text(e.Key)
			if x, ok := d.value(e.Value); ok && name != "" {
				put(name, e.Value, x)
			}
		}
		return m
	}
	x, ok := d.value(v)
	if !ok {
		return m
	}
	o, isObject := x.(*expr.Object)
	if !isObject {
		d.fail(v, "", "`%s` must be a mapping, found %s", key, kindName(x))
		return m
	}
	for _, name := range o.Keys() {
		item, _ := o.Get(name)
		put(name, v, item)
	}
	return m
}

// json takes a mapping, or a text that holds one as JSON; the order of keys is
// kept.
func (d *decoder) json(key string, v *Value) json.RawMessage {
	if d.seen(v) {
		return nil
	}
	x, ok := d.value(v)
	if !ok {
		return nil
	}
	if s, isText := x.(string); isText {
		parsed, err := expr.FromJSON([]byte(s))
		if err != nil {
			d.fail(v, "write a mapping", "`%s` is no JSON: %v", key, err)
			return nil
		}
		x = parsed
	}
	if _, isObject := x.(*expr.Object); !isObject {
		d.fail(v, "", "`%s` must be a mapping, found %s", key, kindName(x))
		return nil
	}
	return expr.AppendJSON(nil, x)
}
