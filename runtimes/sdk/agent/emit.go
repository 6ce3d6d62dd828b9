package agent

import (
	"encoding/json"
	"io"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// emitter writes records. One goroutine, the loop's, uses it. The first write
// error sticks.
type emitter struct {
	enc *json.Encoder
	err error
}

func newEmitter(w io.Writer) *emitter {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &emitter{enc: enc}
}

func (e *emitter) emit(r sdk.Record) {
	if e.err == nil {
		e.err = e.enc.Encode(r)
	}
}

func (e *emitter) warn(text string) {
	e.emit(sdk.Record{Type: event.MessageWarning, Text: text})
}
