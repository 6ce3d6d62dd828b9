package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// givenMax bounds what a run was given, in bytes.
const givenMax = 256 << 20

// Given is what a run was started with, as far as another run may start with the
// same: never a secret.
type Given struct {
	Workflow string           `json:"workflow"` // its file, as it was named
	Files    map[string]*File `json:"files"`    // the workflow and all that it uses
	Job      string           `json:"job,omitempty"`

	EventName   string            `json:"event_name"`
	Payload     json.RawMessage   `json:"payload,omitempty"`      // github.event, without inputs
	InputsEvent string            `json:"inputs_event,omitempty"` // whose inputs they are
	Inputs      map[string]string `json:"inputs,omitempty"`       // as they were written
	Vars        map[string]string `json:"vars,omitempty"`
	GitHub      json.RawMessage   `json:"github,omitempty"` // what else the context held

	Secrets []string `json:"secrets,omitempty"` // names, sorted
	Env     []string `json:"env,omitempty"`     // names of the variables for all steps, sorted

	// Withheld names what holds a secret and is not kept, for people.
	Withheld []string `json:"withheld,omitempty"`
}

// File is a text that a run has read.
type File struct {
	SHA256 string  `json:"sha256"`
	Text   *string `json:"text,omitempty"` // nil: it was not to be kept
}

// NewFile keeps a text, unless keep says that it must not be.
func NewFile(text []byte, keep bool) *File {
	f := &File{SHA256: digest(text)}
	if keep && utf8.Valid(text) {
		s := string(text)
		f.Text = &s
	}
	return f
}

// Is says whether text is the file's.
func (f *File) Is(text []byte) bool { return f.SHA256 == digest(text) }

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// WriteGiven records what the run was started with. That it fails Err and Close
// say.
func (w *Writer) WriteGiven(g Given) {
	b, err := json.Marshal(g)
	if err == nil {
		err = w.root.WriteFile(givenName, append(b, '\n'), 0o600)
	}
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fail(fmt.Errorf("record what the run was given: %w", err))
	}
}

// NoGivenError says that nothing is recorded of what a run was given.
type NoGivenError struct{ ID string }

func (e *NoGivenError) Error() string {
	return fmt.Sprintf("run %s has no record of what it was started with: it ended before it began, or an older herd-runner made it", e.ID)
}

// Hint says what to do next.
func (e *NoGivenError) Hint() string {
	return "herd-runner ps lists the others; herd-runner run WORKFLOW starts a new one"
}

// Given reads what the run was started with. Where nothing is recorded the error
// is a *NoGivenError.
func (r *Reader) Given() (Given, error) {
	f, err := os.Open(filepath.Join(r.Dir, givenName))
	if errors.Is(err, fs.ErrNotExist) {
		return Given{}, &NoGivenError{ID: r.ID}
	}
	if err != nil {
		return Given{}, fmt.Errorf("read what run %s was given: %w", r.ID, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, givenMax+1))
	switch {
	case err != nil:
		return Given{}, fmt.Errorf("read what run %s was given: %w", r.ID, err)
	case len(b) > givenMax:
		return Given{}, fmt.Errorf("%s is larger than %d MiB", f.Name(), givenMax>>20)
	}
	var g Given
	if err := json.Unmarshal(b, &g); err != nil {
		return Given{}, fmt.Errorf("%s can not be read: %w", f.Name(), err)
	}
	if g.Files[g.Workflow] == nil {
		return Given{}, fmt.Errorf("%s does not hold the workflow %q", f.Name(), g.Workflow)
	}
	for name, file := range g.Files {
		if file == nil || file.Text != nil && !file.Is([]byte(*file.Text)) {
			return Given{}, fmt.Errorf("%s: the text of %q is not the one that the run has read", f.Name(), name)
		}
	}
	return g, nil
}
