package workflow

import (
	"fmt"
	"io"
	"strings"
)

// graphDot draws jobs as clusters of their steps, each from a point where it
// begins to one where it ends; the steps of actions and the jobs of called
// workflows are clusters inside of these.
func graphDot(w io.Writer, jobs []jobDrawing) {
	d := dot{w, strings.NewReplacer(`\`, `\\`, `"`, `\"`)}
	fmt.Fprintln(w, "digraph workflow {")
	fmt.Fprintln(w, "  node [shape=box];")
	d.jobs(jobs, "", "  ")
	fmt.Fprintln(w, "}")
}

type dot struct {
	w      io.Writer
	escape *strings.Replacer
}

func (d dot) quote(s string) string { return `"` + d.escape.Replace(printable(s)) + `"` }

// cluster draws a cluster with the points where it begins and ends.
func (d dot) cluster(id, label, indent string, inside func(indent string)) {
	fmt.Fprintf(d.w, "%ssubgraph cluster_%s {\n%s  label=%s;\n", indent, id, indent, d.quote(label))
	fmt.Fprintf(d.w, "%s  %s_start [shape=point];\n%s  %s_end [shape=point];\n", indent, id, indent, id)
	inside(indent + "  ")
	fmt.Fprintln(d.w, indent+"}")
}

func (d dot) edge(indent, from, to string) { fmt.Fprintf(d.w, "%s%s -> %s;\n", indent, from, to) }

// jobs draws jobs whose ids begin with prefix.
func (d dot) jobs(jobs []jobDrawing, prefix, indent string) {
	for _, job := range jobs {
		id := fmt.Sprintf("%sj%d", prefix, job.number)
		if job.job.Uses != nil {
			d.cluster(id, callLabel(job), indent, func(indent string) { d.called(job, id, indent) })
			continue
		}
		d.cluster(id, job.job.ID, indent, func(indent string) {
			for l, leg := range job.legs {
				label := ""
				if leg != job.job.ID {
					label = leg + ": "
				}
				d.steps(job.job.Steps, job.before, job.last, fmt.Sprintf("%sl%d", id, l), id, label, indent)
			}
		})
	}
	for _, job := range jobs {
		for _, n := range job.needs {
			d.edge(indent, fmt.Sprintf("%sj%d_end", prefix, n.number), fmt.Sprintf("%sj%d_start", prefix, job.number))
		}
	}
}

// called draws the jobs of a called workflow between the points of the job that
// calls it.
func (d dot) called(job jobDrawing, id, indent string) {
	inner := calledDrawings(job.job)
	d.jobs(inner, id, indent)
	needed := map[int]bool{}
	for _, j := range inner {
		for _, n := range j.needs {
			needed[n.number] = true
		}
	}
	for _, j := range inner {
		if len(j.needs) == 0 {
			d.edge(indent, id+"_start", fmt.Sprintf("%sj%d_start", id, j.number))
		}
		if !needed[j.number] {
			d.edge(indent, fmt.Sprintf("%sj%d_end", id, j.number), id+"_end")
		}
	}
}

// steps draws steps whose ids begin with prefix between the points of the
// cluster; last are those that its end waits for.
func (d dot) steps(steps []*Step, before [][]int, last []int, prefix, cluster, label, indent string) {
	node := func(step int, point string) string {
		switch {
		case step < 0:
			return cluster + "_start"
		case steps[step].Action != nil:
			return fmt.Sprintf("%ss%d_%s", prefix, step, point)
		}
		return fmt.Sprintf("%ss%d", prefix, step)
	}
	for i, s := range steps {
		text := label + stepLabel(s)
		if a := s.Action; a != nil {
			id := fmt.Sprintf("%ss%d", prefix, i)
			d.cluster(id, text, indent, func(indent string) {
				d.steps(a.Steps, inTurn(a.Steps), []int{len(a.Steps) - 1}, id, id, "", indent)
			})
		} else {
			style := ""
			if s.IsAgent() {
				style = ", style=\"rounded,bold\""
			}
			fmt.Fprintf(d.w, "%s%s [label=%s%s];\n", indent, node(i, ""), d.quote(text), style)
		}
		for _, b := range before[i] {
			d.edge(indent, node(b, "end"), node(i, "start"))
		}
	}
	for _, e := range last {
		d.edge(indent, node(e, "end"), cluster+"_end")
	}
}
