package workflow

import (
	"math"
	"strconv"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// coreScalar is the value of an unquoted scalar in the YAML 1.2 core schema:
// `on`, `yes` and `no` are text.
func coreScalar(s string) expr.Value {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	case ".nan", ".NaN", ".NAN":
		return math.NaN()
	}
	if n, ok := coreNumber(s); ok {
		return n
	}
	return s
}

func coreNumber(s string) (float64, bool) {
	if c := s[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') {
		return 0, false
	}
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case ".inf":
		if len(s) > 5 || (strings.TrimLeft(s, "+-") != ".inf" && strings.TrimLeft(s, "+-") != ".Inf" && strings.TrimLeft(s, "+-") != ".INF") {
			return 0, false
		}
		if s[0] == '-' {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	}
	switch {
	case strings.HasPrefix(s, "0x"):
		n, err := strconv.ParseUint(s[2:], 16, 64)
		return float64(n), err == nil
	case strings.HasPrefix(s, "0o"):
		n, err := strconv.ParseUint(s[2:], 8, 64)
		return float64(n), err == nil
	case !isDecimal(s):
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil || math.IsInf(n, 0)
}

var decimal = pattern(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)

func isDecimal(s string) bool {
	return decimal().MatchString(s)
}
