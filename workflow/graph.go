package workflow

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Graph draws a plan as "text", "mermaid" or "dot". The same plan gives the same
// bytes.
func Graph(w io.Writer, p *Plan, format string) error {
	draw := map[string]func(io.Writer, []jobDrawing){"text": graphText, "mermaid": graphMermaid, "dot": graphDot}[format]
	if draw == nil {
		return fmt.Errorf("unknown graph format %q: %s", format, suggest(format, []string{"text", "mermaid", "dot"}))
	}
	out := bufio.NewWriter(w)
	draw(out, p.drawings())
	return out.Flush()
}

// jobDrawing is a job of the plan with its legs, as they are drawn.
type jobDrawing struct {
	job     *Job
	number  int
	needs   []jobDrawing // only job and number are set
	legs    []string     // ids; one that is the job's own id without a matrix
	dynamic bool
	before  [][]int // by step: the steps it starts after, -1 for the job's start
	last    []int   // the steps that the job's end waits for
}

func (p *Plan) drawings() []jobDrawing {
	var list []jobDrawing
	at := map[*Job]int{}
	for _, n := range p.Nodes {
		switch n.Kind {
		case JobGate:
			at[n.Job] = len(list)
			d := jobDrawing{job: n.Job, number: len(list)}
			d.before, d.last = stepOrder(n.Job)
			list = append(list, d)
		case LegEnd:
			d := &list[at[n.Job]]
			d.legs = append(d.legs, n.Leg.ID)
		}
	}
	for _, n := range p.Nodes {
		if n.Kind != JobGate {
			continue
		}
		d := &list[at[n.Job]]
		for _, need := range n.Needs {
			d.needs = append(d.needs, jobDrawing{job: need.Job, number: at[need.Job]})
		}
		if len(d.legs) == 0 {
			d.dynamic = true
			d.legs = []string{n.Job.ID + " (…)"}
		}
	}
	return list
}

// stepOrder gives the edges between the steps of a job.
func stepOrder(job *Job) (before [][]int, last []int) {
	index := func(nodes []*Node) []int {
		list := make([]int, len(nodes))
		for i, n := range nodes {
			list[i] = -1
			if n.Step != nil {
				list[i] = n.Step.Index
			}
		}
		return list
	}
	nodes, ends := (&Plan{}).lowerSteps(&Node{Kind: JobGate}, &Leg{Job: job})
	for _, n := range nodes {
		before = append(before, index(n.Needs))
	}
	return before, index(ends)
}

func stepLabel(s *Step) string {
	label := s.ID
	if s.Name != nil && s.Name.template() == nil {
		label = s.Name.Text
		if s.Declared && label != s.ID {
			label = s.ID + ": " + label
		}
	} else if !s.Declared && s.Run != nil {
		label = firstLine(s.Run.Text)
	} else if s.Uses != nil {
		label = s.Uses.Text
		if s.Declared {
			label = s.ID + ": " + label
		}
	} else if !s.Declared && s.IsControl() {
		label = controlLabel(s)
	}
	if r := []rune(printable(label)); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return printable(label)
}

func controlLabel(s *Step) string {
	switch {
	case s.Cancel != nil:
		return "cancel " + s.Cancel.Value
	case s.WaitAll:
		return "wait for all"
	}
	return "wait for " + joinNames(s.Wait)
}

func joinNames(names []Name) string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.Value
	}
	return strings.Join(list, ", ")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

func graphText(w io.Writer, jobs []jobDrawing) {
	for i, d := range jobs {
		if i > 0 {
			fmt.Fprintln(w)
		}
		head := d.job.ID
		if len(d.needs) > 0 {
			names := make([]string, len(d.needs))
			for i, n := range d.needs {
				names[i] = n.job.ID
			}
			head += "  ← " + strings.Join(names, ", ")
		}
		switch {
		case d.dynamic:
			head += "  [matrix known when it runs]"
		case len(d.legs) > 1:
			head += fmt.Sprintf("  [%d legs]", len(d.legs))
		}
		fmt.Fprintln(w, head)
		if d.job.Strategy != nil && d.job.Strategy.Matrix != nil && !d.dynamic {
			for _, leg := range d.legs {
				fmt.Fprintf(w, "│  %s\n", printable(leg))
			}
		}
		for i, s := range d.job.Steps {
			branch := "├─"
			if i == len(d.job.Steps)-1 {
				branch = "└─"
			}
			order := ""
			switch {
			case s.Background:
				order = "  (background)"
			case s.HasNeeds && len(s.Needs) == 0:
				order = "  ← start of the job"
			case s.HasNeeds:
				order = "  ← " + joinNames(s.Needs)
			}
			fmt.Fprintf(w, "%s %s %s%s\n", branch, stepMark(s), stepLabel(s), order)
			graphAction(w, s.Action, i == len(d.job.Steps)-1)
		}
		graphCall(w, d.job)
	}
}
