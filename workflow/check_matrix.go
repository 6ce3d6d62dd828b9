package workflow

import "fmt"

// checkMatrices spells out the matrices that are known before the run, and
// looks at the known parts of the others.
func (c *checker) checkMatrices() {
	for _, job := range c.w.Jobs {
		if job.Strategy == nil || job.Strategy.Matrix == nil {
			continue
		}
		m := job.Strategy.Matrix
		before := len(c.problems)
		c.checkPartialMatrix(m)
		if len(c.problems) > before || !isStatic(m) {
			continue
		}
		v, err := staticEval(m)
		if err == nil {
			_, _, err = combine(v)
		}
		if err != nil {
			c.matrixError(matrixProblem(m, err))
		}
	}
}

func (c *checker) checkPartialMatrix(m *Value) {
	keys, known := matrixKeys(m)
	for _, e := range m.Entries {
		switch {
		case e.Key.template() != nil || e.Value.Kind == Scalar && e.Value.template() != nil:
		case e.Value.Kind != Sequence:
			c.errorf(e.Value, "matrix", fmt.Sprintf("write a list, for example `%s: [a, b]`", e.Key.Text), "matrix vector %q must be a list, found %s", e.Key.Text, describe(e.Value))
		case len(e.Value.Items) == 0 && e.Key.Text != "include" && e.Key.Text != "exclude":
			c.errorf(e.Key, "matrix", "give it at least one value", "matrix vector %q has no values", e.Key.Text)
		case e.Key.Text == "exclude" && known:
			for _, item := range e.Value.Items {
				for _, x := range item.Entries {
					if !containsFold(keys, x.Key.Text) {
						c.errorf(x.Key, "matrix", suggest(x.Key.Text, keys), "`exclude` names %q, which is no key of the matrix", x.Key.Text)
					}
				}
			}
		}
	}
}

func (c *checker) matrixError(err error) {
	for _, p := range Problems(c.file, err) {
		p.Rule = "matrix"
		c.problems = append(c.problems, p)
	}
}
