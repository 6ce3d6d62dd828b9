package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/herd-runner/herd-runner/internal/journal"
)

// Egress tells what boxes asked of the egress proxy, and which list would have
// been enough.
func Egress(w io.Writer, s journal.EgressState, color bool) error {
	p := paint(color)
	if len(s.Rows) == 0 {
		_, err := fmt.Fprintf(w, "run %s: no box with an allow-list asked for anything\n", s.Run)
		return err
	}
	rows := [][]cell{header("STEP", "HOST", "REQUESTS", "OUT", "IN", "RESULT")}
	hints := map[string]bool{}
	var told []string
	for _, r := range s.Rows {
		host := "–"
		if r.Host != "" {
			host = fmt.Sprintf("%s:%d", r.Host, r.Port)
		}
		result, sgr := "✓ allowed", green
		switch {
		case !r.Allowed:
			result, sgr = "✗ refused: "+strings.ReplaceAll(r.Reason, "_", " "), red
		case r.Reason != "":
			result, sgr = "! "+r.Reason, yellow
		}
		rows = append(rows, []cell{
			{text: cut(Clean(label(r.Job, r.Step)), 40)}, {text: cut(Clean(host), 80)}, {text: number(int64(r.Requests))},
			{text: Bytes(r.Sent)}, {text: Bytes(r.Received)}, {result, sgr},
		})
		if line := r.Message; !r.Allowed && r.Reason != "not_listed" {
			if r.Hint != "" {
				line += "; to allow it, " + r.Hint
			}
			if !hints[line] {
				hints[line] = true
				told = append(told, line)
			}
		}
	}
	var b strings.Builder
	b.WriteString(table(p, []bool{false, false, true, true, true, false}, rows))
	for _, line := range told {
		b.WriteString("\n" + p.with(yellow, oneLine(line, 400)) + "\n")
	}
	if len(s.List) > 0 {
		b.WriteString("\n" + p.with(bold, "What would have been enough:") + "\n")
	}
	for _, l := range s.List {
		b.WriteString("\n" + p.with(dim, "# "+oneLine(label(l.Job, l.Step), 200)) + "\ndocker:\n  network:\n    allow:\n")
		for _, entry := range l.Allow {
			b.WriteString("      - " + yamlText(entry) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// yamlText quotes what YAML would read as something else.
func yamlText(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz-._0123456789") != "" || strings.Trim(s, "0123456789._-") == "" {
		return fmt.Sprintf("%q", s)
	}
	return s
}
