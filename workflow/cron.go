package workflow

import (
	"fmt"
	"strconv"
	"strings"
)

// cronField is one of the five fields of a cron line.
type cronField struct {
	name      string
	low, high int
	names     []string // of low, low+1, …
}

func cronFields() []cronField {
	return []cronField{
		{name: "minute", high: 59}, {name: "hour", high: 23}, {name: "day", low: 1, high: 31},
		{name: "month", low: 1, high: 12, names: strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
		{name: "weekday", high: 6, names: strings.Fields("sun mon tue wed thu fri sat")},
	}
}

// cronProblem says what is wrong in a cron line as GitHub reads it; "" where
// nothing is.
func cronProblem(line string) string {
	parts := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' })
	fields := cronFields()
	if len(parts) != len(fields) {
		return fmt.Sprintf("it has %d fields", len(parts))
	}
	for i, f := range fields {
		for _, item := range strings.Split(parts[i], ",") {
			if problem := f.problem(item); problem != "" {
				return "its " + f.name + " " + problem
			}
		}
	}
	return ""
}

// problem looks at one item: *, 5, 1-5, */5, 1-5/2.
func (f cronField) problem(item string) string {
	span, step, stepped := strings.Cut(item, "/")
	if stepped {
		if n, err := strconv.Atoi(step); err != nil || n < 1 || n > f.high {
			return fmt.Sprintf("step cannot be %q, expected 1 to %d", step, f.high)
		}
	}
	if span == "*" {
		return ""
	}
	first, last, ranged := strings.Cut(span, "-")
	low, ok := f.number(first)
	if !ok {
		return f.expected(first)
	}
	if !ranged {
		return ""
	}
	high, ok := f.number(last)
	switch {
	case !ok:
		return f.expected(last)
	case high < low:
		return fmt.Sprintf("range %q ends before it begins", span)
	}
	return ""
}

func (f cronField) expected(s string) string {
	names := ""
	if len(f.names) > 0 {
		names = fmt.Sprintf(" or %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return fmt.Sprintf("cannot be %q, expected %d to %d%s", s, f.low, f.high, names)
}

func (f cronField) number(s string) (int, bool) {
	for i, name := range f.names {
		if strings.EqualFold(s, name) {
			return f.low + i, true
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= f.low && n <= f.high && s[0] != '+' && s[0] != '-'
}
