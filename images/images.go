// Package images carries what the agent image is built from inside the
// executable, so that `herd-runner image build` needs no source tree, and knows
// how the variants of the image are named. It builds nothing itself: that is
// agent/build.sh.
package images

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed all:agent
var files embed.FS

// BuildScript is the script to run, in a directory that Unpack has filled.
const BuildScript = "build.sh"

// Repository is the name of the agent image. Its tags are sets of engines in
// the order of Engines ("claude-codex"), "latest" (claude) and "all".
const Repository = "herd-runner/agent"

// Labels of an image that build.sh has made.
const (
	LabelEngines = "io.herd-runner.agent.engines"  // "claude,codex"
	LabelInputs  = "io.herd-runner.agent.inputs"   // a hash of all it was built from
	LabelVersion = "io.herd-runner.agent.version." // and an engine: its version
)

// Engines are the agents' programs that an image may hold, in the order of tags.
func Engines() []string { return []string{"claude", "codex", "gemini", "opencode"} }

// ParseEngines reads a list such as "codex,claude", or "all". The result is in
// the order of Engines, each once.
func ParseEngines(list string) ([]string, error) {
	if list == "all" {
		return Engines(), nil
	}
	asked := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	if len(asked) == 0 {
		return nil, fmt.Errorf("no engine is named: expected some of %s, or all", strings.Join(Engines(), ", "))
	}
	for _, name := range asked {
		if !slices.Contains(Engines(), name) {
			return nil, fmt.Errorf("unknown engine %q: expected some of %s, or all", name, strings.Join(Engines(), ", "))
		}
	}
	return slices.DeleteFunc(Engines(), func(name string) bool { return !slices.Contains(asked, name) }), nil
}

// BuildArgs are the arguments of `image build` that make the agent image with this
// name. It is not ok where the name is not that of the agent image with engines.
func BuildArgs(ref string) (args []string, ok bool) {
	name, tag, _ := strings.Cut(ref, ":")
	if name != Repository {
		return nil, false
	}
	if tag == "" || tag == "latest" {
		return []string{"--engines", "claude"}, true
	}
	engines, err := ParseEngines(strings.ReplaceAll(tag, "-", ","))
	if err != nil {
		return nil, false
	}
	args = []string{"--engines", strings.Join(engines, ",")}
	if tag != "all" && Tag(engines) != ref {
		args = append(args, "--tag", ref)
	}
	return args, true
}

// Tag is the image with exactly these engines.
func Tag(engines []string) string { return Repository + ":" + strings.Join(engines, "-") }

// Lacks says whether an image with these labels is without the engine, and what it
// has instead. An image that does not say what it holds may have it.
func Lacks(labels map[string]string, engine string) (have []string, lacks bool) {
	list, said := labels[LabelEngines]
	if !said || !slices.Contains(Engines(), engine) {
		return nil, false
	}
	have = strings.Split(list, ",")
	return have, !slices.Contains(have, engine)
}

// Unpack writes the directory of the image into dir, which exists.
func Unpack(dir string) error {
	root, err := fs.Sub(files, "agent")
	if err != nil {
		return err
	}
	return fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(dir, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		data, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		// Embedding keeps no modes: the scripts are executable.
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		return os.WriteFile(target, data, mode)
	})
}
