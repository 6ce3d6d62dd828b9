package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

func frame(stream byte, data string) []byte {
	h := make([]byte, 8)
	h[0] = stream
	binary.BigEndian.PutUint32(h[4:], uint32(len(data)))
	return append(h, data...)
}

func TestAttachedTakesFramesApart(t *testing.T) {
	in := bytes.Join([][]byte{
		frame(1, "hel"), frame(2, "oops\x1b"), frame(1, ""), frame(1, "lo"), frame(2, strings.Repeat("x", 10*maxStderr)), frame(1, "!"),
	}, nil)
	a := &attached{r: bufio.NewReader(bytes.NewReader(in))}
	got, err := io.ReadAll(a)
	if err != nil || string(got) != "hello!" {
		t.Errorf("got %q, %v", got, err)
	}
	if s := a.said(); !strings.HasPrefix(s, `"oops\x1bxxx`) || len(a.stderr) != maxStderr {
		t.Errorf("kept %d bytes: %.20s", len(a.stderr), s)
	}
}

func TestAttachedRefusesUnknownStreams(t *testing.T) {
	a := &attached{r: bufio.NewReader(bytes.NewReader(frame(7, "x")))}
	if _, err := io.ReadAll(a); err == nil {
		t.Error("no error")
	}
}
