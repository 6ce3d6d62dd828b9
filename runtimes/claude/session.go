package claude

import (
	"path"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/internal/jsonscan"
	"github.com/herd-runner/herd-runner/sandbox"
)

// maxForked bounds the records remembered of the session that is forked.
const maxForked = 100_000

// SessionFiles is the conversation's file. A fork's begins with a copy of the
// session it goes on from, which is read to know the copy.
func (Runtime) SessionFiles(task runtimes.Task) []sandbox.Follow {
	file := func(id string, whole bool) sandbox.Follow {
		return sandbox.Follow{Root: task.Box.Home, Pattern: path.Join(ConfigDir(""), "projects/*", id+".jsonl"), Whole: whole}
	}
	switch {
	case task.Resume != "" && !task.Fork:
		return []sandbox.Follow{file(task.Resume, false)}
	case task.SessionID == "":
		return nil
	case task.Fork:
		return []sandbox.Follow{file(task.Resume, true), file(task.SessionID, false)}
	}
	return []sandbox.Follow{file(task.SessionID, false)}
}

// DecodeSession returns a decoder of the conversation's file.
func (Runtime) DecodeSession(task runtimes.Task) runtimes.SessionDecoder {
	return &sessionDecoder{fork: task.Fork, forked: map[string]bool{}}
}

// sessionDecoder reads a session: its messages are those of stdout. What
// sub-agents say is in files of their own, which are not read.
type sessionDecoder struct {
	decoder
	fork   bool
	forked map[string]bool // records of the session that is forked, by uuid
}

// Line decodes one record.
func (d *sessionDecoder) Line(file runtimes.SessionFile, line []byte) []event.Message {
	var rec record
	uuid, side := "", false
	if whole, _ := runtimes.Record(line, func(key, value []byte) {
		switch string(key) {
		case "type":
			rec.typ = jsonscan.Text(value)
		case "uuid":
			uuid = jsonscan.Text(value)
		case "isSidechain":
			side = string(value) == "true"
		case "message":
			rec.message = value
		}
	}); !whole {
		return nil
	}
	if d.fork && file.Of == 0 {
		if len(d.forked) < maxForked {
			d.forked[uuid] = true
		}
		return nil
	}
	if side || d.forked[uuid] {
		return nil
	}
	switch rec.typ {
	case "assistant":
		return d.assistant(rec)
	case "user":
		return d.user(rec)
	}
	return nil
}

// Key: a call has the same id in both.
func (*sessionDecoder) Key(m event.Message) string { return m.CallID }
