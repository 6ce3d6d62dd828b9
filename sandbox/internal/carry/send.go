package carry

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// What an entry is that is no file, in its PAX record.
const (
	recordIs  = "HERD.is"
	recordWhy = "HERD.why"

	isGone    = "gone"
	isSkipped = "skipped"
	isEnd     = "end" // the last one: the stream is whole
)

// Send writes the changes. A file that changes meanwhile is sent again the next
// time.
func (c *Changes) Send(w io.Writer) error {
	tw := tar.NewWriter(w)
	for _, name := range c.gone {
		if err := c.tell(tw, name, isGone, ""); err != nil {
			return err
		}
	}
	for _, name := range c.changed {
		if err := c.entry(tw, name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	for _, s := range c.skipped {
		if err := c.tell(tw, s.name, isSkipped, s.why); err != nil {
			return err
		}
	}
	if err := c.tell(tw, ".", isEnd, ""); err != nil {
		return err
	}
	return tw.Close()
}

func (c *Changes) tell(tw *tar.Writer, name, is, why string) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Format: tar.FormatPAX, PAXRecords: map[string]string{recordIs: is}}
	if why != "" {
		h.PAXRecords[recordWhy] = why
	}
	return tw.WriteHeader(h)
}

func (c *Changes) entry(tw *tar.Writer, name string) error {
	stamp := c.now[name]
	h := &tar.Header{Name: name, Mode: int64(stamp.Mode.Perm()), ModTime: time.Unix(0, stamp.Mtime), Format: tar.FormatPAX}
	full := path.Join(c.at, name)
	switch {
	case stamp.Mode.IsDir():
		h.Typeflag = tar.TypeDir
		return tw.WriteHeader(h)
	case stamp.Mode.IsRegular():
		h.Typeflag = tar.TypeReg
		return c.file(tw, h, full)
	}
	target, err := c.root.Readlink(full)
	if err != nil {
		return c.missed(tw, name, err)
	}
	h.Typeflag, h.Linkname = tar.TypeSymlink, target
	return tw.WriteHeader(h)
}

func (c *Changes) file(tw *tar.Writer, h *tar.Header, full string) error {
	f, err := c.root.OpenFile(full, os.O_RDONLY|openPlain, 0)
	if err != nil {
		return c.missed(tw, h.Name, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err == nil && st.Size() > c.limits.Bytes {
		err = &TooLarge{fmt.Sprintf("more than %d MiB of files", c.limits.Bytes>>20)}
	}
	if err != nil {
		return c.missed(tw, h.Name, err)
	}
	h.Size = st.Size()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(tw, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size { // it has been cut
		_, err = io.CopyN(tw, zeros{}, h.Size-n)
	}
	return err
}

// missed is a file that was there a moment ago, or can not be read.
func (c *Changes) missed(tw *tar.Writer, name string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return c.tell(tw, name, isSkipped, "it can not be read")
	}
	var large *TooLarge
	if errors.As(err, &large) {
		return err
	}
	// The next look tells what has become of it.
	delete(c.now, name)
	if old, was := c.known[name]; was {
		c.now[name] = old
	}
	return nil
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
