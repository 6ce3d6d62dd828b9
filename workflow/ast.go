package workflow

import "github.com/herd-runner/herd-runner/workflow/expr"

// Pos is a place in the workflow file; both are 1-based, Column in characters.
// The zero Pos is no place.
type Pos struct{ Line, Column int }

// ValueKind is the shape of a Value.
type ValueKind int

// The shapes.
const (
	Scalar ValueKind = iota
	Sequence
	Mapping
)

// Value is a YAML value with its position: what may hold expressions stays in
// this form until it is evaluated. nil means the key is absent.
type Value struct {
	Kind    ValueKind
	Pos     Pos
	EndLine int
	// Text is the scalar's text after YAML unquoting; Plain the value by the
	// YAML 1.2 core schema (nil, bool, float64, string).
	Text    string
	Plain   expr.Value
	Quoted  bool // in quotes or a block scalar
	Items   []*Value
	Entries []Entry

	src      *source         // where it was read, for positions inside the text
	size     int             // values in it, aliases spelled out
	height   int             // mappings and lists in each other, itself included; 0 of a scalar
	prepared bool            // tpl is filled here and below
	tpl      *parsedTemplate // scalars with ${{, parsed once
	cond     *parsedTemplate // scalars that stand as a condition, parsed once
}

// Entry is one key of a Mapping, in file order.
type Entry struct {
	Key   *Value
	Value *Value
}

// Workflow is a parsed file.
type Workflow struct {
	File string
	Src  []byte

	Name, RunName *Value
	On            Triggers
	Env           *Value
	Defaults      Defaults
	Concurrency   *Value
	Budget        *Value
	Permissions   *Value
	Jobs          []*Job // file order

	// Call is what `on.workflow_call` says, of a workflow that another calls.
	Call *Call
	// Sources are the texts of the other files that were read with it, by name.
	Sources map[string][]byte
}

// Triggers is the `on:` block.
type Triggers struct {
	Pos    Pos
	Events []Trigger
	// Inputs are those of workflow_dispatch (and workflow_call).
	Inputs []*Input
	// Secrets are those declared by workflow_call.
	Secrets []*Value
}

// Trigger is one event of `on:` with its filters.
type Trigger struct {
	Name    string
	Pos     Pos
	Filters *Value
}

// Input is a declared input.
type Input struct {
	Name        string
	Pos         Pos
	Description string
	Type        string // "string", "boolean", "number", "choice", "environment"
	Required    bool
	Default     *Value
	Options     []string
}

// Defaults are `defaults:` of a workflow or job.
type Defaults struct {
	Shell, WorkingDirectory    *Value
	Runtime, Docker, Workspace *Value
}

// Job is one job as written.
type Job struct {
	ID  string
	Pos Pos // of the id

	Name            *Value
	Needs           []Name
	If              *Value
	RunsOn          *Value
	Env             *Value
	Defaults        Defaults
	Strategy        *Strategy
	ContinueOnError *Value
	TimeoutMinutes  *Value
	Concurrency     *Value
	Budget          *Value
	Environment     *Value
	Permissions     *Value
	Outputs         *Value // mapping
	Steps           []*Step

	// Uses is the reusable workflow that runs in place of steps, With and
	// Secrets (a mapping, or `inherit`) are what it gets, and Called is that
	// workflow once Load has read it.
	Uses, With, Secrets *Value
	Called              *Workflow

	// Runtime, Docker, Workspace are the job's own, before merging.
	Runtime, Docker, Workspace *Value

	inherited Defaults // merged for its steps; those with nothing of their own share it
	inert     []inert  // what is checked and has no effect here
}

// inert is a value that nothing is done with; place is that of its expressions,
// below jobs.<job_id>.
type inert struct {
	place string
	v     *Value
}

// Name is an identifier with its place.
type Name struct {
	Value string
	Pos   Pos
}

// Strategy is a job's strategy.
type Strategy struct {
	Pos         Pos
	Matrix      *Value
	FailFast    *Value
	MaxParallel *Value
}

// Step is one step as written.
type Step struct {
	// ID is the declared id, or "step-N" (1-based in its job), which can not
	// be declared. Declared says which.
	ID       string
	Declared bool
	Index    int // 0-based in its job
	File     string
	Pos      Pos

	Name             *Value
	If               *Value
	Run              *Value
	Prompt           *Value
	PromptFile       *Value
	Env              *Value
	Shell            *Value
	WorkingDirectory *Value
	TimeoutMinutes   *Value
	ContinueOnError  *Value
	Retry            *Value
	Budget           *Value

	// Uses is what the step uses in place of a script, With what it gets:
	// actions/checkout, or a composite action of the project, which is Action
	// once Load has read it.
	Uses, With *Value
	Action     *Action

	// Needs are the steps this one starts after, in place of the step before
	// it; HasNeeds says that the key is there, if only as an empty list.
	Needs    []Name
	HasNeeds bool
	// Background says that the next step does not wait for this one.
	Background bool
	// A control step runs nothing itself: Wait waits for background steps,
	// WaitAll for all that began so far, Cancel ends one. A `parallel:` group
	// is its steps in the background and a Wait for them.
	Wait    []Name
	WaitAll bool
	Cancel  *Name

	// Runtime, Docker, Workspace are merged: workflow defaults, then job
	// defaults, then the job's block, then the step's own, nearest key wins;
	// of Workspace the nearest is taken as a whole.
	// Short forms are already spelled out (see Merge). nil: said nowhere.
	Runtime, Docker, Workspace *Value
	// OwnWorkspace says that Workspace was said at the step itself.
	OwnWorkspace bool

	idAt     *Value // the declared id as written
	reported bool   // what it would run is already reported as wrong
}

// IsControl says whether the step only waits for others or ends one.
func (s *Step) IsControl() bool { return len(s.Wait) > 0 || s.WaitAll || s.Cancel != nil }

// IsConcurrent says whether steps of the job may run at the same time.
func (j *Job) IsConcurrent() bool {
	for _, s := range j.Steps {
		if s.Background || s.HasNeeds {
			return true
		}
	}
	return false
}

// IsAgent says whether the step drives an agent.
func (s *Step) IsAgent() bool { return s.Prompt != nil || s.PromptFile != nil }

// HasAgent says whether the step, or one in the action that it uses, drives an
// agent.
func (s *Step) HasAgent() bool {
	if s.IsAgent() {
		return true
	}
	if s.Action != nil {
		for _, inner := range s.Action.Steps {
			if inner.HasAgent() {
				return true
			}
		}
	}
	return false
}
