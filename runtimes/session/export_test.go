package session

// Held is how many bytes wait for something.
func (m *Merge) Held() int {
	n := m.size
	for _, s := range m.files {
		n += cap(s.lines.buf)
	}
	return n
}
