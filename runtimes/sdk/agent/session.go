package agent

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
)

// maxSession bounds a session file in bytes when it is read back.
const maxSession = 256 << 20

type session struct {
	id      string
	engine  string
	path    string
	warning string // why it is not saved; empty: it is
}

// sessionLine is one line of the file; other types are for later versions.
type sessionLine struct {
	Type    string  `json:"type"`   // "message"
	Engine  string  `json:"engine"` // that the conversation was with
	Message message `json:"message"`
}

// openSession begins a session, or goes on with or forks the one named.
func openSession(req sdk.Request) (*session, []message, error) {
	dir := filepath.Join(req.Home, sdk.SessionDir)
	s := &session{id: req.SessionID, engine: req.Engine}
	if s.id == "" && (req.Resume == "" || req.Fork) {
		s.id = newUUID()
	}
	var messages []message
	if req.Resume != "" {
		var err error
		if messages, err = loadSession(filepath.Join(dir, filepath.Base(req.Resume)+".jsonl"), req.Engine); err != nil {
			return nil, nil, err
		}
		if !req.Fork {
			s.id = req.Resume
		}
	}
	s.path = filepath.Join(dir, filepath.Base(s.id)+".jsonl")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.path, s.warning = "", "the session is not saved: "+err.Error()
		return s, messages, nil
	}
	if err := s.begin(req, messages); err != nil {
		s.path, s.warning = "", "the session is not saved: "+err.Error()
	}
	return s, messages, nil
}

// begin rewrites the file from messages, which drops a torn last line; a fork
// and a new session must not meet an existing file.
func (s *session) begin(req sdk.Request, messages []message) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	target := s.path
	resumed := req.Resume != "" && !req.Fork
	if resumed {
		target = s.path + ".new"
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(target, flags, 0o600)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	enc.SetEscapeHTML(false)
	for _, m := range messages {
		err = errors.Join(err, enc.Encode(sessionLine{"message", s.engine, m}))
	}
	if err = errors.Join(err, f.Close()); err != nil || !resumed {
		return err
	}
	return os.Rename(target, s.path)
}

// append saves one message.
func (s *session) append(m message) error {
	if s.path == "" {
		return nil
	}
	line, err := json.Marshal(sessionLine{"message", s.engine, m})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.path = "" // said once
	}
	return err
}

// loadSession reads the messages up to the first line that is not whole, for a
// conversation with engine.
func loadSession(path, engine string) ([]message, error) {
	f, err := openRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{event.CauseExitCode, "no session " + strings.TrimSuffix(filepath.Base(path), ".jsonl") + " in this box's HOME",
			"start without `session:`, or keep the HOME of the step it names"}
	}
	if err != nil {
		return nil, fmt.Errorf("read the session: %w", err)
	}
	defer f.Close()
	var messages []message
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxSession)
	for lines.Scan() {
		var line sessionLine
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			break
		}
		if line.Type != "message" || len(line.Message.Parts) == 0 {
			continue
		}
		if line.Engine != engine {
			line.Message.unseal()
		}
		messages = append(messages, line.Message)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the session: %w", err)
	}
	return messages, nil
}

// interrupted answers the tool calls that a session was killed in.
func interrupted(messages []message) []part {
	if len(messages) == 0 || messages[len(messages)-1].Role != roleAssistant {
		return nil
	}
	var parts []part
	for _, c := range messages[len(messages)-1].calls() {
		parts = append(parts, resultPart(c, toolOutput{text: "interrupted: it is not known how far this got", isError: true}))
	}
	return parts
}

// newUUID is a random (version 4) UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
