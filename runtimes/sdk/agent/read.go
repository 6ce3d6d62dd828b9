package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	defaultLines = 2000
	maxLineBytes = 2000
	// maxRead bounds what a read with an offset goes through, in bytes.
	maxRead = 512 << 20
	// maxReadOutput is how much of a file one read gives, in bytes.
	maxReadOutput = 100_000
)

func (w workspace) read() tool {
	return tool{
		name: "read",
		description: "Read a text file. Each line comes with its number. Long files come in parts: give offset and limit. " +
			"Lines longer than 2000 bytes are cut.",
		schema: `{"type":"object","properties":{` +
			`"path":{"type":"string"},` +
			`"offset":{"type":"integer","description":"First line to read, from 1"},` +
			`"limit":{"type":"integer","description":"How many lines; 2000 when left out"}},` +
			`"required":["path"]}`,
		readOnly: true,
		run:      w.runRead,
	}
}

func (w workspace) runRead(ctx context.Context, input json.RawMessage) (string, error) {
	var in struct {
		Path   string `json:"path"`
		Offset int    `json:"offset"`
		Limit  int    `json:"limit"`
	}
	if err := decode(input, &in); err != nil {
		return "", err
	}
	if in.Path == "" {
		return "", errors.New("path is empty")
	}
	first, limit := max(in.Offset, 1), in.Limit
	if limit <= 0 {
		limit = defaultLines
	}
	f, err := openRegular(w.path(in.Path))
	if err != nil {
		return "", err
	}
	defer f.Close()
	r := bufio.NewReaderSize(io.LimitReader(f, maxRead), 64<<10)
	if start, _ := r.Peek(sniff); binary(start) {
		info, err := f.Stat()
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("[%s is a binary file of %d bytes]", in.Path, info.Size()), nil
	}
	var out strings.Builder
	for number := 1; ; number++ {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		line, cut, err := readLine(r)
		if errors.Is(err, io.EOF) {
			switch {
			case number == 1:
				return "[the file is empty]", nil
			case out.Len() == 0:
				return "", fmt.Errorf("the file has %d lines; offset %d is behind its end", number-1, first)
			}
			return out.String(), nil
		}
		if err != nil {
			return out.String(), err
		}
		if number < first {
			continue
		}
		if number >= first+limit || out.Len() > maxReadOutput {
			fmt.Fprintf(&out, "[more follows: go on with offset %d]\n", number)
			return out.String(), nil
		}
		fmt.Fprintf(&out, "%6d\t%s", number, strings.ToValidUTF8(string(line), "\uFFFD"))
		if cut > 0 {
			fmt.Fprintf(&out, " [… %d bytes more in this line]", cut)
		}
		out.WriteByte('\n')
	}
}

// readLine reads one line without its end, at most maxLineBytes of it, and
// says how many bytes it left out. io.EOF: there is no further line.
func readLine(r *bufio.Reader) (line []byte, cut int, err error) {
	for any := false; ; any = true {
		part, err := r.ReadSlice('\n')
		if len(part) == 0 && errors.Is(err, io.EOF) && !any {
			return nil, 0, io.EOF
		}
		ended := len(part) > 0 && part[len(part)-1] == '\n'
		if ended {
			part = part[:len(part)-1]
		}
		keep := min(len(part), maxLineBytes-len(line))
		line = append(line, part[:keep]...)
		cut += len(part) - keep
		switch {
		case ended, errors.Is(err, io.EOF):
			return line, cut, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return line, cut, err
		}
	}
}
