package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// table prints rows of cells with aligned columns.
type table struct {
	w *tabwriter.Writer
}

func newTable(title string, columns ...any) *table {
	fmt.Printf("\n%s\n", title)
	t := &table{tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', tabwriter.AlignRight)}
	t.row(columns...)
	return t
}

func (t *table) row(cells ...any) {
	for _, c := range cells {
		fmt.Fprintf(t.w, "%v\t", c)
	}
	fmt.Fprintln(t.w)
}

func (t *table) end() { t.w.Flush() }

// ms is a duration for a table; zero is a dash.
func ms(d time.Duration) string {
	switch {
	case d == 0:
		return "–"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%d", d.Milliseconds())
	}
}

func megabytes(n int64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%d", n>>20)
}

// ratio says how much longer d takes than base.
func ratio(d, base time.Duration) string {
	if d == 0 || base == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", float64(d)/float64(base))
}

// against is ratio with a target, and counts where it is missed.
func (b *bench) against(d, base time.Duration, target float64) string {
	r := float64(d) / float64(base)
	verdict := "ok"
	if r > target {
		verdict = "MISSED"
		b.missed++
	}
	return fmt.Sprintf("%.2f (target %.2f: %s)", r, target, verdict)
}

// within is a duration with an absolute target that has room for any machine.
func (b *bench) within(d, target time.Duration) string {
	verdict := "ok"
	if d > target {
		verdict = "MISSED"
		b.missed++
	}
	return fmt.Sprintf("%s (target %s: %s)", ms(d), ms(target), verdict)
}
