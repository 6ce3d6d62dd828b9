package calendar

// Free returns the spans of day in which no meeting takes place, in order.
func Free(day Span, meetings []Span) []Span {
	var free []Span
	at := day.Start
	for _, busy := range Merge(meetings) {
		if busy.End <= at {
			continue
		}
		if busy.Start >= day.End {
			break
		}
		if busy.Start > at {
			free = append(free, Span{Start: at, End: busy.Start})
		}
		at = busy.End
	}
	if at < day.End {
		free = append(free, Span{Start: at, End: day.End})
	}
	return free
}
