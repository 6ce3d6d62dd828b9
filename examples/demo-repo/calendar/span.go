// Package calendar finds the free time between meetings of one day.
package calendar

import (
	"fmt"
	"strconv"
	"strings"
)

// Span is a stretch of a day in minutes after midnight; End is not part of it.
type Span struct {
	Start, End int
}

// Parse reads "09:00-17:30".
func Parse(text string) (Span, error) {
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		return Span{}, fmt.Errorf("%q has no dash; expected a span like 09:00-17:30", text)
	}
	start, err := minutes(from)
	if err != nil {
		return Span{}, err
	}
	end, err := minutes(to)
	if err != nil {
		return Span{}, err
	}
	if end <= start {
		return Span{}, fmt.Errorf("%q ends before it begins", text)
	}
	return Span{Start: start, End: end}, nil
}

// String is the inverse of Parse.
func (s Span) String() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", s.Start/60, s.Start%60, s.End/60, s.End%60)
}

func minutes(clock string) (int, error) {
	hour, minute, ok := strings.Cut(clock, ":")
	h, errHour := strconv.Atoi(hour)
	m, errMinute := strconv.Atoi(minute)
	if !ok || errHour != nil || errMinute != nil || h < 0 || h > 24 || m < 0 || m > 59 {
		return 0, fmt.Errorf("%q is no time of day; expected one like 09:00", clock)
	}
	return h*60 + m, nil
}
