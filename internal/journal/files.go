package journal

import (
	"container/list"
	"errors"
	"os"
	"path/filepath"
)

const (
	maxOpenFiles = 64
	fileBuffer   = 32 << 10 // bytes, for each open file
)

// files appends to many files with few handles: the one unused longest is
// closed when another is needed and opened again when it is written to next.
// Not safe for concurrent use.
type files struct {
	root *os.Root
	open *list.List // of *appender, most recently used first
	free [][]byte
	// lost counts the bytes that could not be written.
	lost int64
}

type appender struct {
	path string
	made bool // its folder exists
	file *os.File
	buf  []byte
	elem *list.Element
}

func (fs *files) write(a *appender, data []byte) error {
	if a.file == nil {
		if err := fs.reopen(a); err != nil {
			fs.lost += int64(len(data))
			return err
		}
	} else if fs.open.Front() != a.elem {
		fs.open.MoveToFront(a.elem)
	}
	if len(a.buf)+len(data) <= cap(a.buf) {
		a.buf = append(a.buf, data...)
		return nil
	}
	err := fs.flush(a)
	if len(data) < cap(a.buf) {
		a.buf = append(a.buf, data...)
		return err
	}
	return errors.Join(err, fs.put(a, data))
}

func (fs *files) reopen(a *appender) error {
	var err error
	if fs.open.Len() >= maxOpenFiles {
		err = fs.close(fs.open.Back().Value.(*appender))
	}
	if !a.made {
		if err := fs.root.MkdirAll(filepath.Dir(a.path), 0o755); err != nil {
			return err
		}
		a.made = true
	}
	f, openErr := fs.root.OpenFile(a.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	a.file = f
	a.elem = fs.open.PushFront(a)
	if n := len(fs.free); n > 0 {
		a.buf, fs.free = fs.free[n-1], fs.free[:n-1]
	} else {
		a.buf = make([]byte, 0, fileBuffer)
	}
	return err
}

func (fs *files) put(a *appender, data []byte) error {
	n, err := a.file.Write(data)
	fs.lost += int64(len(data) - n)
	return err
}

func (fs *files) flush(a *appender) error {
	if len(a.buf) == 0 {
		return nil
	}
	err := fs.put(a, a.buf)
	a.buf = a.buf[:0]
	return err
}

func (fs *files) flushAll() error {
	var errs error
	for e := fs.open.Front(); e != nil; e = e.Next() {
		errs = errors.Join(errs, fs.flush(e.Value.(*appender)))
	}
	return errs
}

func (fs *files) close(a *appender) error {
	if a == nil || a.file == nil {
		return nil
	}
	err := errors.Join(fs.flush(a), a.file.Close())
	fs.open.Remove(a.elem)
	fs.free = append(fs.free, a.buf)
	a.file, a.elem, a.buf = nil, nil, nil
	return err
}

func (fs *files) closeAll() error {
	var errs error
	for fs.open.Len() > 0 {
		errs = errors.Join(errs, fs.close(fs.open.Front().Value.(*appender)))
	}
	return errs
}
