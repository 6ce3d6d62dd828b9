package report

import (
	"io"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
)

const errorLines = 20

// Error tells the person what went wrong and what to do next, on one screen.
// The hint is taken from the first error in the chain that has one: a
// any with a method Hint() string.
func Error(w io.Writer, err error, color bool) {
	p := paint(color)
	lines, more := textLines(err.Error(), errorLines)
	var b strings.Builder
	for i, l := range lines {
		if i == 0 {
			b.WriteString(p.with(red, "error: "))
		} else {
			b.WriteString("  ")
		}
		b.WriteString(cut(l, 1000) + "\n")
	}
	if more > 0 {
		b.WriteString("  … and " + plural(more, "more line") + "\n")
	}
	if hint := event.HintOf(err); hint != "" {
		hints, _ := textLines(hint, errorLines)
		b.WriteString(p.with(cyan, "hint: ") + strings.Join(hints, "\n      ") + "\n")
	}
	// There is nowhere left to say that this could not be written.
	_, _ = io.WriteString(w, b.String())
}
