package expr

import "math"

// Truthy reports whether v counts as true: everything but null, false, 0, -0,
// NaN and ”.
func Truthy(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case float64:
		return v != 0 && !math.IsNaN(v)
	case string:
		return v != ""
	}
	return true
}

// String turns v into a string: null is ”, a list is "Array", a mapping is
// "Object".
func String(v Value) string {
	switch v := v.(type) {
	case nil:
		return ""
	case bool:
		if v {
			return "true"
		}
		return "false"
	case float64:
		return formatNumber(v)
	case string:
		return v
	case *Array:
		return "Array"
	}
	return "Object"
}

// Number turns v into a number as JavaScript's Number() does, but lists and
// mappings are NaN.
func Number(v Value) float64 {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 1
		}
		return 0
	case float64:
		return v
	case string:
		return parseNumber(v)
	}
	return math.NaN()
}

// Equal is the == of the language: loose, without regard to case, by identity
// for lists and mappings.
func Equal(a, b Value) bool {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return equalFold(x, y)
		}
	}
	a, b = coercePair(a, b)
	switch x := a.(type) {
	case nil:
		return b == nil
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case float64:
		y, ok := b.(float64)
		return ok && x == y
	case string:
		y, ok := b.(string)
		return ok && equalFold(x, y)
	case *Array:
		y, ok := b.(*Array)
		return ok && x == y
	case *Object:
		y, ok := b.(*Object)
		return ok && x == y
	}
	return false
}

// less is the < of the language. Values of kinds that do not compare, and NaN,
// are not less than anything.
func less(a, b Value) bool {
	a, b = coercePair(a, b)
	switch x := a.(type) {
	case bool:
		y, ok := b.(bool)
		return ok && !x && y
	case float64:
		y, ok := b.(float64)
		return ok && x < y
	case string:
		y, ok := b.(string)
		return ok && compareFold(x, y) < 0
	}
	return false
}

// coercePair brings a and b to one kind where the language does: a number beside
// a string makes both numbers, and so does null or a bool beside anything else.
func coercePair(a, b Value) (Value, Value) {
	ka, kb := kindOf(a), kindOf(b)
	if ka == kb {
		return a, b
	}
	if ka == kindNull || ka == kindBool {
		a, ka = Number(a), kindNumber
	}
	if kb == kindNull || kb == kindBool {
		b, kb = Number(b), kindNumber
	}
	switch {
	case ka == kindNumber && kb == kindString:
		b = Number(b)
	case ka == kindString && kb == kindNumber:
		a = Number(a)
	}
	return a, b
}

type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

func kindOf(v Value) kind {
	switch v.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBool
	case float64:
		return kindNumber
	case string:
		return kindString
	case *Array:
		return kindArray
	}
	return kindObject
}

func (k kind) String() string {
	return [...]string{"Null", "Boolean", "Number", "String", "Array", "Object"}[k]
}

func isPrimitive(v Value) bool { return kindOf(v) <= kindString }
