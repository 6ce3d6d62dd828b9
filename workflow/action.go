package workflow

// Action is a composite action of the project, read for one step that uses it:
// what that step says of runtime, docker and workspace lies below what the
// action's own steps say.
type Action struct {
	File    string // action.yml, relative to the project's top, with slashes
	Dir     string // where it stands; "." is the top
	Inputs  []*Input
	Outputs []Output
	Steps   []*Step

	job *Job // holds Steps for the checks
}

// Output is a declared output of an action or of a reusable workflow.
type Output struct {
	Name  Name
	Value *Value
}

// File is the file that v was read from; empty where it was made up.
func (v *Value) File() string {
	if v == nil || v.src == nil {
		return ""
	}
	return v.src.file
}

// IsCheckout says whether the step checks out the current repository.
func (s *Step) IsCheckout() bool { return s.Uses != nil && isCheckout(s.Uses.Text) }

func (a *Action) outputNames() []string {
	names := make([]string, len(a.Outputs))
	for i, o := range a.Outputs {
		names[i] = o.Name.Value
	}
	return names
}
