package workflow

import "slices"

// checkInputs looks at the defaults and options of declared inputs.
func (c *checker) checkInputs() {
	for _, in := range c.w.On.Inputs {
		at := Name{in.Name, in.Pos}
		if in.Type == "choice" && len(in.Options) == 0 {
			c.named(at, "input", "add `options: [a, b]`", "input %q is a choice without `options`", in.Name)
			continue
		}
		if in.Type != "choice" && len(in.Options) > 0 {
			c.named(at, "input", "write `type: choice`", "input %q has `options` but is of type %s", in.Name, in.Type)
		}
		if in.Default == nil || in.Default.template() != nil {
			continue
		}
		if _, problem, hint := inputValue(in, in.Default.Text); problem != "" {
			c.errorf(in.Default, "input", hint, "the default of input %q %s", in.Name, problem)
		}
		for i, o := range in.Options {
			if slices.Contains(in.Options[:i], o) {
				c.named(at, "input", "remove one of them", "input %q has the option %q twice", in.Name, o)
			}
		}
	}
}
