package expr

import (
	"math"
	"strconv"
	"strings"
)

// parseNumber turns a string into a number as the runner does: JavaScript's
// Number() built on .NET's Double.Parse. What is no number gives NaN.
func parseNumber(s string) float64 {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0
	}
	if isDecimal(s) {
		// Out of range gives an infinity or zero, which is what is wanted.
		f, _ := strconv.ParseFloat(s, 64)
		return f
	}
	if len(s) > 2 && s[0] == '0' {
		switch s[1] {
		case 'x':
			return parseBits(s[2:], 16)
		case 'o':
			return parseBits(s[2:], 8)
		}
	}
	// .NET finds the names of the infinities without regard to case.
	sign, name := 1, s
	if s[0] == '+' || s[0] == '-' {
		name = s[1:]
		if s[0] == '-' {
			sign = -1
		}
	}
	if equalFold(name, "Infinity") {
		return math.Inf(sign)
	}
	return math.NaN()
}

// parseBits reads a 32-bit pattern, so 0xFFFFFFFF is -1.
func parseBits(digits string, base int) float64 {
	if strings.ContainsAny(digits, "_+-") {
		return math.NaN()
	}
	n, err := strconv.ParseUint(digits, base, 32)
	if err != nil {
		return math.NaN()
	}
	return float64(int32(uint32(n)))
}

// isDecimal reports whether s is [+-] digits [. digits] [e [+-] digits] with a
// digit before the exponent.
func isDecimal(s string) bool {
	i := 0
	sign := func() {
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
	}
	digits := func() int {
		from := i
		for i < len(s) && '0' <= s[i] && s[i] <= '9' {
			i++
		}
		return i - from
	}
	sign()
	n := digits()
	if i < len(s) && s[i] == '.' {
		i++
		n += digits()
	}
	if n == 0 {
		return false
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		sign()
		if digits() == 0 {
			return false
		}
	}
	return i == len(s)
}

// formatNumber prints f as .NET's "G15" does: at most 15 digits, scientific
// below 1E-04 and from 1E+15. Negative zero is "0".
func formatNumber(f float64) string {
	const precision = 15
	switch {
	case f == 0:
		return "0"
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		return strconv.FormatInt(int64(f), 10)
	}
	text := strconv.FormatFloat(f, 'e', precision-1, 64) // d.dddde±xx
	mantissa, exponent, _ := strings.Cut(text, "e")
	exp, _ := strconv.Atoi(exponent)
	if -5 < exp && exp < precision {
		fixed := strconv.FormatFloat(f, 'f', precision-1-exp, 64)
		return trimFraction(fixed)
	}
	sign := "+"
	if exp < 0 {
		sign, exp = "-", -exp
	}
	power := strconv.Itoa(exp)
	if exp < 10 {
		power = "0" + power
	}
	return trimFraction(mantissa) + "E" + sign + power
}

func trimFraction(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
