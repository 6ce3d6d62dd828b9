package runtimes

import (
	"bytes"
	"fmt"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
)

// Record calls visit for each field of a line that is one JSON object and reports
// whether it is. lost is the warning for one that was longer than MaxLine and came
// cut; another line that is no record, such as a word of the program's, has none.
func Record(line []byte, visit func(key, value []byte)) (whole bool, lost []event.Message) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return false, nil
	}
	if jsonscan.Object(line, visit) {
		return true, nil
	}
	if len(line) < MaxLine-1 {
		return false, nil
	}
	return false, []event.Message{{Kind: event.MessageWarning,
		Text: fmt.Sprintf("a record of the agent was longer than %d MiB and is lost", MaxLine>>20)}}
}
