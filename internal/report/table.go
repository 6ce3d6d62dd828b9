package report

import "strings"

// cell is one field of a table.
type cell struct {
	text string
	sgr  string // colour, may be empty
}

// table lays out rows in columns two blanks apart. right says which columns are
// flush right.
func table(p paint, right []bool, rows [][]cell) string {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(c.text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, c := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			space := strings.Repeat(" ", widths[i]-width(c.text))
			if i < len(right) && right[i] {
				line.WriteString(space + p.with(c.sgr, c.text))
			} else {
				line.WriteString(p.with(c.sgr, c.text) + space)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// header makes a row of column titles.
func header(titles ...string) []cell {
	row := make([]cell, len(titles))
	for i, t := range titles {
		row[i] = cell{t, bold}
	}
	return row
}
