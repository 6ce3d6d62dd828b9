package workflow

import (
	"fmt"
	"io"
	"strings"
)

// graphMermaid draws jobs as groups of their steps; legs, the steps of actions
// and the jobs of called workflows are groups inside of these.
func graphMermaid(w io.Writer, jobs []jobDrawing) {
	fmt.Fprintln(w, "flowchart TD")
	m := mermaid{w, strings.NewReplacer("&", "#amp;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "#96;", "\\", "#92;")}
	m.jobs(jobs, "", "  ")
}

type mermaid struct {
	w      io.Writer
	escape *strings.Replacer
}

// group draws a group; inside gets the indentation of what is in it.
func (m mermaid) group(id, label, indent string, inside func(indent string)) {
	fmt.Fprintf(m.w, "%ssubgraph %s [\"%s\"]\n", indent, id, m.escape.Replace(printable(label)))
	inside(indent + "  ")
	fmt.Fprintln(m.w, indent+"end")
}

// jobs draws jobs whose ids begin with prefix.
func (m mermaid) jobs(jobs []jobDrawing, prefix, indent string) {
	for _, d := range jobs {
		id := fmt.Sprintf("%sj%d", prefix, d.number)
		if d.job.Uses != nil {
			m.group(id, callLabel(d), indent, func(indent string) { m.jobs(calledDrawings(d.job), id, indent) })
			continue
		}
		m.group(id, d.job.ID, indent, func(indent string) {
			for l, leg := range d.legs {
				inLeg := fmt.Sprintf("%sl%d", id, l)
				steps := func(indent string) { m.steps(d.job.Steps, d.before, inLeg, indent) }
				if leg == d.job.ID {
					steps(indent)
					continue
				}
				m.group(inLeg, leg, indent, steps)
			}
		})
	}
	for _, d := range jobs {
		for _, n := range d.needs {
			fmt.Fprintf(m.w, "%s%sj%d --> %sj%d\n", indent, prefix, n.number, prefix, d.number)
		}
	}
}

func (m mermaid) steps(steps []*Step, before [][]int, prefix, indent string) {
	for i, s := range steps {
		id := fmt.Sprintf("%ss%d", prefix, i)
		if s.Action != nil {
			m.group(id, stepLabel(s), indent, func(indent string) { m.steps(s.Action.Steps, inTurn(s.Action.Steps), id, indent) })
			continue
		}
		left, right := `["`, `"]`
		if s.IsAgent() {
			left, right = `(["🤖 `, `"])`
		}
		fmt.Fprintf(m.w, "%s%s%s%s%s\n", indent, id, left, m.escape.Replace(stepLabel(s)), right)
	}
	for i := range steps {
		for _, b := range before[i] {
			if b >= 0 {
				fmt.Fprintf(m.w, "%s%ss%d --> %ss%d\n", indent, prefix, b, prefix, i)
			}
		}
	}
}
