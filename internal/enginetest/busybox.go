package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Busybox is an image of a single static executable.
const Busybox = "herd-test/busybox:1"

// ImportBusybox gives an engine the image, once.
func ImportBusybox(api *client.Client) error {
	if _, err := api.ImageInspect(context.Background(), Busybox); err == nil {
		return nil
	}
	path, err := exec.LookPath("busybox")
	if err != nil {
		if out, err := exec.Command("apt-get", "install", "-y", "busybox-static").CombinedOutput(); err != nil {
			return &exec.Error{Name: "apt-get install busybox-static: " + string(out), Err: err}
		}
		if path, err = exec.LookPath("busybox"); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	list, err := exec.Command(path, "--list").Output()
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	add := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err == nil {
			err = w.WriteHeader(&h)
		}
		if err == nil {
			_, err = w.Write(data)
		}
	}
	for _, d := range []string{"bin/", "etc/", "run/", "proc/", "sys/", "dev/", "work/"} {
		add(tar.Header{Name: d, Typeflag: tar.TypeDir}, nil)
	}
	add(tar.Header{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir}, nil)
	add(tar.Header{Name: "etc/passwd", Mode: 0o644, Typeflag: tar.TypeReg}, []byte("root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/:/bin/sh\n"))
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg}, program)
	for applet := range strings.Lines(string(list)) {
		if applet = strings.TrimSpace(applet); applet != "busybox" {
			add(tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
		}
	}
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := api.ImageImport(ctx, image.ImportSource{Source: &buf, SourceName: "-"}, Busybox,
		image.ImportOptions{Changes: []string{"ENV PATH=/usr/local/bin:/bin", "ENV FROM_IMAGE=yes"}})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = new(bytes.Buffer).ReadFrom(r)
	return err
}
