// Command freetime says when a day has room for another meeting.
package main

import (
	"fmt"
	"os"

	"example.com/freetime/calendar"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: freetime DAY [MEETING]...   each as 09:00-17:00")
		os.Exit(2)
	}
	var spans []calendar.Span
	for _, arg := range os.Args[1:] {
		span, err := calendar.Parse(arg)
		if err != nil {
			fmt.Fprintln(os.Stderr, "freetime:", err)
			os.Exit(2)
		}
		spans = append(spans, span)
	}
	for _, free := range calendar.Free(spans[0], spans[1:]) {
		fmt.Println(free)
	}
}
