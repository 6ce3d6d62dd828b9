package workflow

import (
	"fmt"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// MaxLegs is the most combinations a matrix may have, as at GitHub.
const MaxLegs = 256

// MatrixError is a matrix that gives no combinations. Key and Entry say where:
// Key is "include", "exclude" or a vector's name, Entry the 0-based entry in
// it, -1 for the whole.
type MatrixError struct {
	Key   string
	Entry int
	Msg   string
	Hint  string
}

func (e *MatrixError) Error() string {
	if e.Hint != "" {
		return e.Msg + " (" + e.Hint + ")"
	}
	return e.Msg
}

func matrixErrorf(key string, entry int, hint, format string, args ...any) *MatrixError {
	return &MatrixError{Key: key, Entry: entry, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// MatrixCombinations spells out an evaluated matrix: the first key varies
// slowest, exclude comes before include. Errors are *MatrixError.
func MatrixCombinations(v expr.Value) ([]*expr.Object, error) {
	all, _, err := combine(v)
	return all, err
}

// combine also gives the values that show in each combination's name: what
// include adds to a combination of the vectors does not.
func combine(v expr.Value) ([]*expr.Object, [][]string, error) {
	m, ok := v.(*expr.Object)
	if !ok {
		return nil, nil, matrixErrorf("", -1, "write a mapping, or fromJSON of one", "a matrix must be a mapping, found %s", kindName(v))
	}
	vectors, include, exclude, err := matrixParts(m)
	if err != nil {
		return nil, nil, err
	}
	all, err := cross(vectors)
	if err != nil {
		return nil, nil, err
	}
	if all, err = applyExclude(all, vectors, exclude); err != nil {
		return nil, nil, err
	}
	names := make([][]string, 0, len(all))
	for _, o := range all {
		names = append(names, leaves(nil, o))
	}
	if all, err = applyInclude(all, vectors, include); err != nil {
		return nil, nil, err
	}
	for _, o := range all[len(names):] {
		names = append(names, leaves(nil, o))
	}
	if len(all) == 0 {
		return nil, nil, matrixErrorf("", -1, "exclude fewer", "the matrix has no combinations left")
	}
	return all, names, nil
}

// leaves lists the scalars in v that say something.
func leaves(list []string, v expr.Value) []string {
	switch v := v.(type) {
	case *expr.Object:
		for _, key := range v.Keys() {
			item, _ := v.Get(key)
			list = leaves(list, item)
		}
	case *expr.Array:
		for _, item := range v.Items {
			list = leaves(list, item)
		}
	default:
		if s := expr.String(v); s != "" {
			list = append(list, s)
		}
	}
	return list
}

type vector struct {
	key    string
	values []expr.Value
}

func matrixParts(m *expr.Object) (vectors []vector, include, exclude []*expr.Object, err error) {
	for _, key := range m.Keys() {
		v, _ := m.Get(key)
		switch strings.ToLower(key) {
		case "include":
			include, err = matrixEntries(key, v)
		case "exclude":
			exclude, err = matrixEntries(key, v)
		default:
			list, ok := v.(*expr.Array)
			if !ok {
				return nil, nil, nil, matrixErrorf(key, -1, "write a list, for example `"+key+": [a, b]`", "matrix vector %q must be a list, found %s", key, kindName(v))
			}
			if len(list.Items) == 0 {
				return nil, nil, nil, matrixErrorf(key, -1, "give it at least one value", "matrix vector %q has no values", key)
			}
			vectors = append(vectors, vector{key, list.Items})
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
	if len(vectors) == 0 && len(include) == 0 {
		return nil, nil, nil, matrixErrorf("", -1, "give it a vector or an `include`", "the matrix has no vector")
	}
	return vectors, include, exclude, nil
}

func matrixEntries(key string, v expr.Value) ([]*expr.Object, error) {
	list, ok := v.(*expr.Array)
	if !ok {
		return nil, matrixErrorf(key, -1, "write a list of mappings", "matrix `%s` must be a list, found %s", key, kindName(v))
	}
	var entries []*expr.Object
	for i, item := range list.Items {
		o, ok := item.(*expr.Object)
		if !ok {
			return nil, matrixErrorf(key, i, "write `- {key: value}`", "an entry of `%s` must be a mapping, found %s", key, kindName(item))
		}
		entries = append(entries, o)
	}
	return entries, nil
}

func cross(vectors []vector) ([]*expr.Object, error) {
	if len(vectors) == 0 {
		return nil, nil
	}
	total := 1
	for _, v := range vectors {
		total *= len(v.values)
		if total > maxCross {
			return nil, tooManyLegs()
		}
	}
	all := make([]*expr.Object, total)
	for i := range all {
		o := expr.NewObject()
		block := total
		for _, v := range vectors {
			block /= len(v.values)
			o.Set(v.key, v.values[i/block%len(v.values)])
		}
		all[i] = o
	}
	return all, nil
}

// maxCross bounds the product before exclude has made it smaller.
const maxCross = 1 << 14

func tooManyLegs() *MatrixError {
	return matrixErrorf("", -1, "narrow its vectors or exclude some", "the matrix has more than %d combinations", MaxLegs)
}

func applyExclude(all []*expr.Object, vectors []vector, exclude []*expr.Object) ([]*expr.Object, error) {
	for i, x := range exclude {
		if x.Len() == 0 {
			return nil, matrixErrorf("exclude", i, "name at least one key", "an entry of `exclude` is empty")
		}
		for _, key := range x.Keys() {
			if !isVector(vectors, key) {
				return nil, matrixErrorf("exclude", i, suggest(key, vectorNames(vectors)), "`exclude` names %q, which is no key of the matrix", key)
			}
		}
	}
	kept := all[:0]
	for _, o := range all {
		if !matchesAny(o, exclude) {
			kept = append(kept, o)
		}
	}
	return kept, nil
}

func matchesAny(o *expr.Object, patterns []*expr.Object) bool {
	for _, p := range patterns {
		if matches(o, p, p.Keys()) {
			return true
		}
	}
	return false
}

func matches(o, pattern *expr.Object, keys []string) bool {
	for _, key := range keys {
		want, _ := pattern.Get(key)
		have, ok := o.Get(key)
		if !ok || !deepEqual(have, want) {
			return false
		}
	}
	return true
}

func applyInclude(all []*expr.Object, vectors []vector, include []*expr.Object) ([]*expr.Object, error) {
	original := len(all)
	for i, entry := range include {
		if entry.Len() == 0 {
			return nil, matrixErrorf("include", i, "name at least one key", "an entry of `include` is empty")
		}
		var shared, extra []string
		for _, key := range entry.Keys() {
			if isVector(vectors, key) {
				shared = append(shared, key)
			} else {
				extra = append(extra, key)
			}
		}
		matched := false
		for _, o := range all[:original] {
			if !matches(o, entry, shared) {
				continue
			}
			matched = true
			for _, key := range extra {
				v, _ := entry.Get(key)
				o.Set(key, v)
			}
		}
		if !matched {
			all = append(all, pick(entry, append(shared, extra...)))
		}
	}
	if len(all) > MaxLegs {
		return nil, tooManyLegs()
	}
	return all, nil
}

func pick(o *expr.Object, keys []string) *expr.Object {
	c := expr.NewObject()
	for _, key := range keys {
		v, _ := o.Get(key)
		c.Set(key, v)
	}
	return c
}

func isVector(vectors []vector, key string) bool {
	for _, v := range vectors {
		if strings.EqualFold(v.key, key) {
			return true
		}
	}
	return false
}

func vectorNames(vectors []vector) []string {
	names := make([]string, len(vectors))
	for i, v := range vectors {
		names[i] = v.key
	}
	return names
}

// deepEqual compares by content: mappings without regard to the order of their
// keys, scalars as GitHub's `==` does for two of the same kind.
func deepEqual(a, b expr.Value) bool {
	switch a := a.(type) {
	case *expr.Array:
		b, ok := b.(*expr.Array)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !deepEqual(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case *expr.Object:
		b, ok := b.(*expr.Object)
		return ok && a.Len() == b.Len() && matches(a, b, b.Keys())
	}
	switch b.(type) {
	case *expr.Array, *expr.Object:
		return false
	}
	return expr.Equal(a, b)
}
