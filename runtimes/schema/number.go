package schema

import (
	"encoding/json"
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// maxDigits bounds a number's digits and its exponent: 1e999999 takes long to
// compare.
const maxDigits = 400

var errTooLarge = errors.New("a number of more digits than are compared")

// rational is n without loss.
func rational(n json.Number) (*big.Rat, error) {
	digits, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if len(digits) > maxDigits {
		return nil, errTooLarge
	}
	if exponent != "" {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxDigits || e < -maxDigits {
			return nil, errTooLarge
		}
	}
	r, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil, errTooLarge
	}
	return r, nil
}

// number compiles the bounds of a number.
func (k *keyword) number() error {
	name := k.name
	if _, ok := k.value.(bool); ok && k.draft == 4 && strings.HasPrefix(name, "exclusive") {
		return nil // in draft 4 it says how the bound beside it is meant
	}
	n, ok := k.value.(json.Number)
	if !ok {
		return k.errorf("expected a number, got %s", typeOf(k.value))
	}
	bound, err := rational(n)
	if err != nil {
		return k.errorf("%v", err)
	}
	if name == "multipleOf" && bound.Sign() <= 0 {
		return k.errorf("expected a number above 0, got %s", n)
	}
	if k.draft == 4 {
		switch {
		case name == "minimum" && k.siblings["exclusiveMinimum"] == true:
			name = "exclusiveMinimum"
		case name == "maximum" && k.siblings["exclusiveMaximum"] == true:
			name = "exclusiveMaximum"
		}
	}
	on(k, func(c *check, v json.Number, at *place) {
		got, err := rational(v)
		if err != nil {
			c.problem(at, "%v", err)
			return
		}
		cmp := got.Cmp(bound)
		switch {
		case name == "minimum" && cmp < 0:
			c.problem(at, "got %s, want at least %s", short(v), n)
		case name == "maximum" && cmp > 0:
			c.problem(at, "got %s, want at most %s", short(v), n)
		case name == "exclusiveMinimum" && cmp <= 0:
			c.problem(at, "got %s, want more than %s", short(v), n)
		case name == "exclusiveMaximum" && cmp >= 0:
			c.problem(at, "got %s, want less than %s", short(v), n)
		case name == "multipleOf" && !new(big.Rat).Quo(got, bound).IsInt():
			c.problem(at, "got %s, want a multiple of %s", short(v), n)
		}
	})
	return nil
}
