package report

import (
	"errors"
	"io"

	"github.com/herd-runner/herd-runner/internal/event"
)

// Log copies the output of one step to w for reading on a screen: without
// prefixes, and made harmless.
func Log(w io.Writer, log io.Reader, color bool) error {
	t := NewTerminal(w, TerminalOptions{Color: color, Plain: true})
	t.bare = true
	buf := make([]byte, 32<<10)
	for {
		n, err := log.Read(buf)
		t.Emit(event.Event{Type: event.Output, Data: buf[:n]})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, t.Close())
		}
	}
	t.Emit(event.Event{Type: event.RunFinished})
	return t.Close()
}
