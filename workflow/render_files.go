package workflow

import "io"

// RenderText writes the problems of w and of what it uses, each with the line of
// its own file.
func (w *Workflow) RenderText(out io.Writer, ps []Problem, color bool) error {
	for len(ps) > 0 {
		n := 1
		for n < len(ps) && ps[n].File == ps[0].File {
			n++
		}
		src := w.Sources[ps[0].File]
		if ps[0].File == w.File {
			src = w.Src
		}
		if err := RenderText(out, src, ps[:n], color); err != nil {
			return err
		}
		ps = ps[n:]
	}
	return nil
}
