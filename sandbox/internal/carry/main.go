package carry

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Where the courier, the container that holds the engine's copies, has them and
// what it knows of them. Boxes see nothing but copies.
const (
	Dir   = "/carry"
	Trees = "trees" // in Dir, as State is
	State = "state"

	stateDir = Dir + "/" + State
)

// Main is what the courier runs for one copy: `in N GENERATION` receives changes
// on stdin, `out N GENERATION` sends them on stdout, `drop N` removes the copy.
// What is known of a copy is filed by generation, a number that the runner raises
// once both sides have a change: one that was cut off is sent again.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := run(args, stdin, stdout)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, err)
	var large *TooLarge
	if errors.As(err, &large) {
		return codeTooLarge
	}
	return 1
}

// codeTooLarge is the exit code that tells a TooLarge.
const codeTooLarge = 3

// Failed is the error that an exit of Main tells, with what it said.
func Failed(code int, said string) error {
	said = strings.ToValidUTF8(strings.TrimSpace(said), "?")
	switch code {
	case 0:
		return nil
	case codeTooLarge:
		return &TooLarge{said}
	}
	return fmt.Errorf("%s (exit code %d)", said, code)
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) < 2 {
		return errors.New("expected in, out or drop, and a number")
	}
	if _, err := strconv.ParseUint(args[1], 10, 32); err != nil {
		return err
	}
	root, err := os.OpenRoot(filepath.Join(Dir, Trees))
	if err != nil {
		return err
	}
	defer root.Close()
	if args[0] == "drop" {
		old, _ := filepath.Glob(filepath.Join(stateDir, args[1]+".*"))
		for _, name := range old {
			_ = os.Remove(name)
		}
		return root.RemoveAll(args[1])
	}
	generation, err := strconv.ParseUint(args[len(args)-1], 10, 32)
	if err != nil || len(args) != 3 {
		return errors.New("expected a number and a generation")
	}
	known, err := load(args[1], generation)
	if err != nil {
		return err
	}
	switch args[0] {
	case "in":
		if _, err := Receive(stdin, root, args[1], known, Default); err != nil {
			return err
		}
	case "out":
		changes, err := Look(root, args[1], known, Default)
		if err != nil {
			return err
		}
		if err := changes.Send(stdout); err != nil {
			return err
		}
		known = changes.Now()
	default:
		return fmt.Errorf("unknown %q", args[0])
	}
	return save(args[1], generation+1, known)
}

func state(tree string, generation uint64) string {
	return filepath.Join(stateDir, tree+"."+strconv.FormatUint(generation, 10))
}

func load(tree string, generation uint64) (Stamps, error) {
	known := Stamps{}
	f, err := os.Open(state(tree, generation))
	if errors.Is(err, fs.ErrNotExist) && generation == 0 {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return known, gob.NewDecoder(f).Decode(&known)
}

func save(tree string, generation uint64, known Stamps) error {
	f, err := os.Create(state(tree, generation))
	if err != nil {
		return err
	}
	if err := errors.Join(gob.NewEncoder(f).Encode(known), f.Close()); err != nil {
		return err
	}
	if generation > 1 {
		_ = os.Remove(state(tree, generation-2))
	}
	return nil
}
