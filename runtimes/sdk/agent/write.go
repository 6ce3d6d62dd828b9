package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func (w workspace) write() tool {
	return tool{
		name:        "write",
		description: "Write a whole file; what was there is replaced, missing directories are made. To change part of a file use edit.",
		schema: `{"type":"object","properties":{` +
			`"path":{"type":"string"},"content":{"type":"string"}},` +
			`"required":["path","content"]}`,
		run: w.runWrite,
	}
}

func (w workspace) runWrite(_ context.Context, input json.RawMessage) (string, error) {
	var in struct {
		Path    string  `json:"path"`
		Content *string `json:"content"`
	}
	if err := decode(input, &in); err != nil {
		return "", err
	}
	if in.Path == "" || in.Content == nil {
		return "", errors.New("path and content are needed")
	}
	path := w.path(in.Path)
	what := "wrote"
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what = "created"
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	default:
		if err := regular(in.Path, info); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(path, []byte(*in.Content), 0o666); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s (%d bytes)", what, in.Path, len(*in.Content)), nil
}

func (w workspace) edit() tool {
	return tool{
		name: "edit",
		description: "Replace text in a file. old_string must be in the file exactly as given, blanks included, and only once " +
			"(add lines around it to make it unique), unless replace_all is true.",
		schema: `{"type":"object","properties":{` +
			`"path":{"type":"string"},"old_string":{"type":"string"},"new_string":{"type":"string"},` +
			`"replace_all":{"type":"boolean"}},` +
			`"required":["path","old_string","new_string"]}`,
		run: w.runEdit,
	}
}

func (w workspace) runEdit(_ context.Context, input json.RawMessage) (string, error) {
	var in struct {
		Path string  `json:"path"`
		Old  string  `json:"old_string"`
		New  *string `json:"new_string"`
		All  bool    `json:"replace_all"`
	}
	if err := decode(input, &in); err != nil {
		return "", err
	}
	switch {
	case in.Path == "" || in.New == nil:
		return "", errors.New("path, old_string and new_string are needed")
	case in.Old == "":
		return "", errors.New("old_string is empty; to make a file use write")
	case in.Old == *in.New:
		return "", errors.New("old_string and new_string are the same")
	}
	path := w.path(in.Path)
	data, err := readWhole(path)
	if err != nil {
		return "", err
	}
	count := bytes.Count(data, []byte(in.Old))
	switch {
	case count == 0:
		return "", fmt.Errorf("old_string is not in %s; read the file and copy it exactly", in.Path)
	case count > 1 && !in.All:
		return "", fmt.Errorf("old_string is %d times in %s; add lines around it or set replace_all", count, in.Path)
	}
	line := 1 + bytes.Count(data[:bytes.Index(data, []byte(in.Old))], []byte("\n"))
	data = bytes.ReplaceAll(data, []byte(in.Old), []byte(*in.New))
	if err := os.WriteFile(path, data, 0o666); err != nil {
		return "", err
	}
	if count > 1 {
		return fmt.Sprintf("replaced %d places in %s, the first at line %d", count, in.Path, line), nil
	}
	return fmt.Sprintf("edited %s at line %d", in.Path, line), nil
}
