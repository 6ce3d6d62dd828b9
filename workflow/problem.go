package workflow

// Severity of a Problem.
type Severity string

// The severities. Only errors keep a workflow from starting; a note says that
// something is as it is, and is worth a line to who looks at the file, not to
// who runs it.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

// Problem is something wrong in the user's file.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line"`   // 1-based
	Column   int      `json:"column"` // 1-based, in characters
	Length   int      `json:"length"` // characters under the caret, at least 1
	Severity Severity `json:"severity"`
	Rule     string   `json:"rule"` // "syntax", "expression", "unknown-key", …
	Message  string   `json:"message"`
	Hint     string   `json:"hint,omitempty"`
}
