package workflow

import (
	"cmp"
	"fmt"
	"slices"
)

// maxProblems bounds what is said about one file: nobody reads more.
const maxProblems = 1000

// collector gathers the problems of one file.
type collector struct {
	file     string
	problems []Problem
}

// full says whether more problems are to be left out. Placing one costs time.
func (c *collector) full() bool { return len(c.problems) >= maxProblems }

func (c *collector) add(s Severity, rule string, p Pos, length int, hint, message string) {
	if c.full() {
		return
	}
	c.problems = append(c.problems, Problem{
		File: c.file, Line: max(1, p.Line), Column: max(1, p.Column), Length: max(1, length),
		Severity: s, Rule: rule, Message: message, Hint: hint,
	})
}

func (c *collector) errorf(v *Value, rule, hint, format string, args ...any) {
	if c.full() {
		return
	}
	c.add(SeverityError, rule, v.Pos, v.width(), hint, fmt.Sprintf(format, args...))
}

// named reports something about an identifier.
func (c *collector) named(n Name, rule, hint, format string, args ...any) {
	c.add(SeverityError, rule, n.Pos, len([]rune(n.Value)), hint, fmt.Sprintf(format, args...))
}

// sortProblems brings problems into file order and drops what is said twice.
func sortProblems(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
	})
	ps = slices.CompactFunc(ps, func(a, b Problem) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Message == b.Message
	})
	if len(ps) < maxProblems {
		return ps
	}
	last := ps[maxProblems-1]
	last.Severity, last.Rule, last.Message, last.Hint = SeverityError, "limit", "there are more problems than are listed here", ""
	return append(ps[:maxProblems-1:maxProblems-1], last)
}

// HasErrors says whether any of the problems keeps a workflow from starting.
func HasErrors(ps []Problem) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity == SeverityError })
}

// describe names the shape of v as a person would.
func describe(v *Value) string {
	switch {
	case v == nil:
		return "nothing"
	case v.Kind == Mapping && len(v.Entries) == 0:
		return "an empty mapping"
	case v.Kind == Sequence && len(v.Items) == 0:
		return "an empty list"
	case v.Kind == Mapping:
		return "a mapping"
	case v.Kind == Sequence:
		return "a list"
	case v.Plain == nil:
		return "nothing"
	}
	switch p := v.Plain.(type) {
	case bool:
		return fmt.Sprintf("the boolean %t", p)
	case float64:
		return "the number " + v.Text
	}
	if r := []rune(v.Text); len(r) > 40 {
		return fmt.Sprintf("%q…", string(r[:40]))
	}
	return fmt.Sprintf("%q", v.Text)
}
