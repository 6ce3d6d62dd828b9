package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
)

// The colours, as SGR parameters.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint colours text, or leaves it alone where it is false.
type paint bool

func (p paint) with(sgr, text string) string {
	if !p || sgr == "" || text == "" {
		return text
	}
	return "\x1b[" + sgr + "m" + text + "\x1b[0m"
}

// jobColour picks a colour for the n-th job.
func jobColour(n int) string {
	palette := [...]string{"36", "35", "34", "33", "32", "96", "95", "94"}
	return palette[n%len(palette)]
}

// width is the number of columns text takes, told apart from the locale.
func width(text string) int {
	return condition().StringWidth(text)
}

func condition() *runewidth.Condition { return &runewidth.Condition{StrictEmojiNeutral: true} }

// cut shortens text to n columns.
func cut(text string, n int) string {
	if width(text) <= n {
		return text
	}
	return condition().Truncate(text, n, "…")
}

func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-width(text), 0))
}

// Duration prints d as a person reads it: 40ms, 2.1s, 1m05s, 2h03m.
func Duration(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 59950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		d = d.Round(time.Second)
		if d < time.Hour {
			return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
		}
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

func milliseconds(ms int64) string { return Duration(time.Duration(ms) * time.Millisecond) }

// number prints n with commas.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Cost prints what usage cost; "≥" where a model had no price, "~" where part of
// it is an estimate. What a login pays for is said so, with what API rates would
// be.
func Cost(u event.Usage) string {
	cost := dollars(u)
	switch {
	case cost == "":
	case u.CostBasis == event.BasisSubscription:
		return "subscription (≈ " + cost + " at API rates)"
	case u.CostBasis == event.BasisMixed:
		return "≈ " + cost + " at API rates, part of it subscription"
	}
	return cost
}

func dollars(u event.Usage) string {
	switch {
	case u.Requests == 0 && u.CostUSD == 0:
		return ""
	case !u.CostKnown && u.CostUSD == 0:
		return "?"
	case !u.CostKnown:
		return fmt.Sprintf("≥$%.4f", u.CostUSD)
	case u.Estimated:
		return fmt.Sprintf("~$%.4f", u.CostUSD)
	}
	return fmt.Sprintf("$%.4f", u.CostUSD)
}

func tokensIn(u event.Usage) string {
	if u.Requests == 0 && u.InputTokens == 0 {
		return ""
	}
	return number(u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens)
}

func tokensOut(u event.Usage) string {
	if u.Requests == 0 && u.OutputTokens == 0 {
		return ""
	}
	return number(u.OutputTokens)
}

// Bytes prints a size in binary units.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for v >= unit && i < 3 {
		v, i = v/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[i])
}

// mark is the sign of a status and its colour.
func mark(s journal.Status) (sign, sgr string) {
	switch s {
	case journal.Success:
		return "✓", green
	case journal.Failure, journal.Died:
		return "✗", red
	case journal.Cancelled:
		return "⊘", yellow
	case journal.Skipped:
		return "⊘", dim
	}
	return "●", cyan
}

// stepMark is the sign of a step and its colour; a failure that was let pass has
// one of its own.
func stepMark(st *journal.StepState) (sign, sgr string) {
	if st.Status == journal.Success && st.Outcome != nil && st.Outcome.Outcome == "failure" {
		return "✗", yellow
	}
	return mark(st.Status)
}

// result says in words how something ended: its status, or the cause of a
// failure, and whether the failure was let pass.
func result(s journal.Status, o *event.Outcome) string {
	if o == nil {
		return string(s)
	}
	text := string(s)
	if o.Outcome == "failure" {
		text = "failure"
		if o.Cause != "" {
			text = string(o.Cause)
		}
		if !o.RetryAt.IsZero() {
			text += " until " + o.RetryAt.Local().Format(time.DateTime)
		}
		if o.Cause == event.CauseExitCode {
			text = fmt.Sprintf("exit code %d", o.ExitCode)
		}
		if o.Conclusion == "success" {
			text += " (continued)"
		}
	}
	return text
}

// place is file:line of something in a file of the project.
func place(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line <= 0:
		return Clean(file)
	}
	return fmt.Sprintf("%s:%d", Clean(file), line)
}

// label names a step of a run in one word.
func label(job, step string) string {
	if step == "" {
		return oneLine(job, labelMax)
	}
	return oneLine(job+"/"+step, labelMax)
}

const (
	labelMax = 32   // columns
	maxLine  = 4096 // bytes of one line shown; the log has all of it
)
