package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// maxEntries is how many entries of a directory are listed.
const maxEntries = 1000

func (w workspace) list() tool {
	return tool{
		name:        "list",
		description: "List a directory: names with a slash behind directories, sizes in bytes behind files, targets behind symbolic links.",
		schema: `{"type":"object","properties":{` +
			`"path":{"type":"string","description":"The working directory when left out"}}}`,
		readOnly: true,
		run:      w.runList,
	}
}

func (w workspace) runList(_ context.Context, input json.RawMessage) (string, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := decode(input, &in); err != nil {
		return "", err
	}
	dir := w.path(in.Path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	if len(entries) == 0 {
		return "[the directory is empty]", nil
	}
	var out strings.Builder
	for i, e := range entries {
		if i == maxEntries {
			fmt.Fprintf(&out, "[%d more]\n", len(entries)-maxEntries)
			break
		}
		name := strings.ToValidUTF8(e.Name(), "\uFFFD")
		info, err := e.Info()
		switch {
		case err != nil:
			continue // gone since
		case e.IsDir():
			fmt.Fprintf(&out, "%s/\n", name)
		case info.Mode()&os.ModeSymlink != 0:
			target, _ := os.Readlink(dir + string(os.PathSeparator) + e.Name())
			fmt.Fprintf(&out, "%s -> %s\n", name, target)
		case info.Mode().IsRegular():
			fmt.Fprintf(&out, "%s %d\n", name, info.Size())
		default:
			fmt.Fprintf(&out, "%s (%s)\n", name, info.Mode().Type())
		}
	}
	return clipped(out.String()), nil
}
