package workflow

import (
	"strings"
)

const maxID = 99 // characters, as at GitHub

var positionalID = pattern(`^step-[0-9]+$`)

// checkIDs looks at the names of jobs and steps. (Two equal job ids are equal
// keys of `jobs`, which reading the file has found.)
func (c *checker) checkIDs() {
	for _, job := range c.w.Jobs {
		c.checkID("job", Name{job.ID, job.Pos})
		seen := make(map[string]*Step, len(job.Steps))
		for _, s := range job.Steps {
			if !s.Declared {
				continue
			}
			name := Name{s.ID, s.idAt.locate(0)}
			c.checkID("step", name)
			if positionalID().MatchString(s.ID) {
				c.named(name, "id", "choose another name", "step id %q is kept for steps without an id", s.ID)
			}
			if first := seen[strings.ToLower(s.ID)]; first != nil {
				c.named(name, "id", "rename one of them", "step id %q is already used in line %d", s.ID, first.idAt.Pos.Line)
				continue
			}
			seen[strings.ToLower(s.ID)] = s
		}
	}
}

func (c *checker) checkID(kind string, n Name) {
	switch {
	case !isIdentifier(n.Value):
		c.named(n, "id", "start with a letter or `_`, go on with letters, digits, `-` and `_`", "%q is no %s id", n.Value, kind)
	case strings.HasPrefix(n.Value, "__"):
		c.named(n, "id", "use at most one `_` at the start", "%s id %q starts with `__`, which is reserved", kind, n.Value)
	case len(n.Value) > maxID:
		c.named(n, "id", "shorten it", "%s id has %d characters, at most %d are allowed", kind, len(n.Value), maxID)
	}
}
