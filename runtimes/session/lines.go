package session

import "bytes"

// Lines cuts a stream into lines without their ends. A line longer than Max
// bytes is given once, cut, and the rest of it is dropped. Not safe for
// concurrent use.
type Lines struct {
	Max     int
	Line    func([]byte) // must not retain the line
	buf     []byte
	dropped bool
}

// Write takes a piece of the stream.
func (r *Lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if len(r.buf) == 0 && i >= 0 && !r.dropped && len(part) <= r.Max {
			r.Line(trimCR(part))
			p = p[i+1:]
			continue
		}
		if room := r.Max - len(r.buf); len(part) > room {
			part = part[:max(0, room)]
			r.dropped = true
		}
		r.buf = append(r.buf, part...)
		if i < 0 {
			break
		}
		r.Flush()
		p = p[i+1:]
	}
	return n, nil
}

// Flush gives the last line, which had no end.
func (r *Lines) Flush() {
	if len(r.buf) > 0 {
		r.Line(trimCR(r.buf))
	}
	r.buf, r.dropped = r.buf[:0], false
}

// drop forgets the line that has not ended.
func (r *Lines) drop() { r.buf, r.dropped = nil, false }

func trimCR(p []byte) []byte { return bytes.TrimSuffix(p, []byte("\r")) }
