package command

import (
	"bytes"
	"strings"
)

// MaxLine is the longest line that is read as a command, in bytes.
const MaxLine = 64 << 10

// Scanner takes the commands out of a stream. A line is a command when, after
// blanks, it begins with :: or ##[ and names one; what is no command is passed
// on at once, without waiting for the end of its line. (GitHub's runner finds
// the old form in the middle of a line too. That would mean holding back every
// line until it ends.) Not safe for concurrent use.
type Scanner struct {
	handle func(Command)
	pass   func([]byte)

	held   []byte // the beginning of a line that may be a command
	inLine bool   // the beginning of the line has been passed on
	drop   bool   // the rest of the line is a mask that is too long to be one
	skipLF bool   // the last command ended with a carriage return
	resume string // not empty: commands are stopped until this token
}

// NewScanner returns a Scanner that calls handle for each command and pass for
// what is not one, in the order of the stream and in the goroutine that writes.
// pass must not retain the bytes. The line that stops commands and the one that
// starts them again are passed on too, after handle has seen the first.
func NewScanner(handle func(Command), pass func([]byte)) *Scanner {
	return &Scanner{handle: handle, pass: pass}
}

// Write scans p; it never fails.
func (s *Scanner) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		p = s.scan(p)
	}
	return n, nil
}

// Flush ends the stream: what is held is a line.
func (s *Scanner) Flush() {
	if len(s.held) > 0 {
		s.line(s.held)
	}
	s.held, s.inLine, s.drop, s.skipLF = s.held[:0], false, false, false
}

// scan deals with a beginning of p and returns the rest.
func (s *Scanner) scan(p []byte) []byte {
	if s.skipLF {
		s.skipLF = false
		if p[0] == '\n' {
			return p[1:]
		}
	}
	if len(s.held) > 0 || s.drop {
		return s.proceed(p)
	}
	at := s.candidate(p)
	if at > 0 {
		s.pass(p[:at])
		s.inLine = !isLineEnd(p[at-1])
	}
	if at == len(p) {
		return nil
	}
	s.inLine = false
	p = p[at:]
	if end := lineEnd(p); end >= 0 && end <= MaxLine {
		s.endedLine(p[:end])
		return p[end:]
	}
	return s.proceed(p)
}

// proceed goes on with a line that is held.
func (s *Scanner) proceed(p []byte) []byte {
	end := lineEnd(p)
	ended := end >= 0
	if !ended {
		end = len(p)
	}
	if s.drop {
		s.drop = !ended
		return p[end:]
	}
	if len(s.held)+end > MaxLine {
		return s.tooLong(p, end, ended)
	}
	s.held = append(s.held, p[:end]...)
	if ended {
		s.endedLine(s.held)
		s.held = s.held[:0]
	} else if !mayBeCommand(s.held) {
		s.pass(s.held)
		s.held, s.inLine = s.held[:0], true
	}
	return p[end:]
}

// tooLong gives up on a line of which p, up to end, is the next piece: it is
// text, except for a mask, of which nothing may be shown.
func (s *Scanner) tooLong(p []byte, end int, ended bool) []byte {
	begin := append(s.held, p[:min(end, len("##[add-mask"))]...)
	if name := strings.TrimLeft(string(begin), " \t\v\f:#["); s.resume == "" && hasPrefixFold(name, AddMask) {
		s.handle(Command{Name: AddMask, Refused: "a mask longer than 64 KiB can not be set; its line is not shown"})
		s.held, s.drop = s.held[:0], !ended
		return p[end:]
	}
	if len(s.held) > 0 {
		s.pass(s.held)
	}
	s.pass(p[:end])
	s.held, s.inLine = s.held[:0], !ended
	return p[end:]
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

func (s *Scanner) endedLine(line []byte) {
	taken := s.line(line)
	s.skipLF = taken && line[len(line)-1] == '\r'
}

// line deals with a whole line, its end included, and reports whether it was
// taken out of the stream.
func (s *Scanner) line(line []byte) (taken bool) {
	c, ok := Parse(strings.TrimRight(string(line), "\r\n"), s.resume)
	switch {
	case !ok:
	case s.resume != "":
		s.resume = ""
	case c.Name == StopCommands && c.Refused == "":
		s.handle(c)
		s.resume = c.Value
	default:
		s.handle(c)
		return true
	}
	s.pass(line)
	return false
}

// candidate returns where in p the first line begins that may be a command, or
// len(p).
func (s *Scanner) candidate(p []byte) int {
	from := 0
	for from < len(p) {
		at := indexMarker(p[from:])
		if at < 0 {
			break
		}
		at += from
		if start := lineStart(p, at); start > 0 && isLineEnd(p[start-1]) || start == 0 && !s.inLine {
			return start
		}
		next := lineEnd(p[at:])
		if next < 0 {
			return len(p)
		}
		from = at + next
	}
	// What ends p may be the beginning of a command.
	start := bytes.LastIndexAny(p, "\r\n") + 1
	if (start > 0 || !s.inLine) && start < len(p) && mayBeCommand(p[start:]) {
		return start
	}
	return len(p)
}

// indexMarker finds the first marker of either form.
func indexMarker(p []byte) int {
	at := bytes.Index(p, []byte(marker))
	end := len(p)
	if at >= 0 {
		end = at
	}
	if old := bytes.Index(p[:end], []byte(oldMarker)); old >= 0 {
		return old
	}
	return at
}

// lineStart goes back over blanks from at.
func lineStart(p []byte, at int) int {
	for at > 0 && isBlank(p[at-1]) {
		at--
	}
	return at
}

// mayBeCommand reports whether a line that begins with p may be a command.
func mayBeCommand(p []byte) bool {
	for len(p) > 0 && isBlank(p[0]) {
		p = p[1:]
	}
	begins := func(m string) bool {
		n := min(len(p), len(m))
		return string(p[:n]) == m[:n]
	}
	return begins(marker) || begins(oldMarker)
}

// lineEnd returns where the line that p begins with ends, its end included, or
// -1. A carriage return ends a line as it does for GitHub's runner.
func lineEnd(p []byte) int {
	end := bytes.IndexAny(p, "\r\n")
	if end < 0 {
		return -1
	}
	if p[end] == '\r' && end+1 < len(p) && p[end+1] == '\n' {
		end++
	}
	return end + 1
}

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\v' || c == '\f' }
