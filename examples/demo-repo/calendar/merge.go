package calendar

import "sort"

// Merge joins meetings that overlap or touch and returns them in order.
func Merge(meetings []Span) []Span {
	sorted := append([]Span(nil), meetings...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Start < sorted[j].Start })

	var merged []Span
	for _, meeting := range sorted {
		if len(merged) == 0 || meeting.Start > merged[len(merged)-1].End {
			merged = append(merged, meeting)
			continue
		}
		last := &merged[len(merged)-1]
		last.End = meeting.End
	}
	return merged
}
