package event

// ConditionInfo is how it was decided whether a job or step runs.
type ConditionInfo struct {
	Source string `json:"source,omitempty"` // of the `if`, as written; empty: it has none
	File   string `json:"file,omitempty"`   // of the `if`, as StepInfo.File
	Line   int    `json:"line,omitempty"`   // 1-based, of the `if` in File
	Result bool   `json:"result"`
	Error  string `json:"error,omitempty"` // why it could not be evaluated
	// Success, Failure and Cancelled are what the functions of these names gave.
	Success   bool           `json:"success"`
	Failure   bool           `json:"failure"`
	Cancelled bool           `json:"cancelled"`
	Tree      *ConditionPart `json:"tree,omitempty"` // nil where there is no `if`
	// Needs are, for a job, the results it waited for, and those of jobs further
	// up that did not succeed.
	Needs []NeedResult `json:"needs,omitempty"`
}

// ConditionPart is a part of a condition with the value it had. It is bounded in
// size.
type ConditionPart struct {
	Source  string           `json:"source"`
	Value   string           `json:"value,omitempty"` // as in an expression: 'text', 1, true, null
	Truthy  bool             `json:"truthy,omitempty"`
	Skipped bool             `json:"skipped,omitempty"` // not evaluated: what came before decided
	Error   string           `json:"error,omitempty"`
	Parts   []*ConditionPart `json:"parts,omitempty"`
	More    int              `json:"more,omitempty"` // parts left out at the end
}

// NeedResult is the result of a job that another waited for.
type NeedResult struct {
	Job    string `json:"job"`
	Result string `json:"result"`
	Direct bool   `json:"direct,omitempty"` // in `needs` itself
}
