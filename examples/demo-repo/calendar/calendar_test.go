package calendar

import (
	"fmt"
	"strings"
	"testing"
)

func spans(t *testing.T, text string) []Span {
	t.Helper()
	var out []Span
	for _, field := range strings.Fields(text) {
		span, err := Parse(field)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, span)
	}
	return out
}

func TestMerge(t *testing.T) {
	for _, test := range []struct{ name, meetings, want string }{
		{"none", "", ""},
		{"apart", "09:00-10:00 11:00-12:00", "09:00-10:00 11:00-12:00"},
		{"out of order", "11:00-12:00 09:00-10:00", "09:00-10:00 11:00-12:00"},
		{"overlapping", "09:00-10:30 10:00-11:00", "09:00-11:00"},
		{"touching", "09:00-10:00 10:00-11:00", "09:00-11:00"},
		{"one inside another", "09:00-12:00 10:00-10:30", "09:00-12:00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fmt.Sprint(Merge(spans(t, test.meetings)))
			if want := fmt.Sprint(spans(t, test.want)); got != want {
				t.Errorf("Merge(%s) = %s, want %s", test.meetings, got, want)
			}
		})
	}
}

func TestFree(t *testing.T) {
	day := Span{Start: 9 * 60, End: 17 * 60}
	for _, test := range []struct{ name, meetings, want string }{
		{"empty day", "", "09:00-17:00"},
		{"full day", "08:00-18:00", ""},
		{"between meetings", "10:00-11:00 12:00-13:00", "09:00-10:00 11:00-12:00 13:00-17:00"},
		{"begins before the day", "08:00-09:30", "09:30-17:00"},
		{"a short meeting during a long one", "09:30-11:00 10:15-10:45 13:00-14:00", "09:00-09:30 11:00-13:00 14:00-17:00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := fmt.Sprint(Free(day, spans(t, test.meetings)))
			if want := fmt.Sprint(spans(t, test.want)); got != want {
				t.Errorf("Free(%s) = %s, want %s", test.meetings, got, want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "09:00", "9-10", "25:00-26:00", "10:00-09:00", "09:60-10:00"} {
		if span, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, span)
		}
	}
}
