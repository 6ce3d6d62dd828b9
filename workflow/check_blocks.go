package workflow

// checkBlocks decodes what is written in `runtime`, `docker`, `workspace` and
// `retry` and
// `budget` without expressions, by the decoders that the run uses.
func (c *checker) checkBlocks() {
	seen, done := map[*Value]bool{}, map[*Value]bool{}
	once := func(v *Value, decode func(d *decoder)) {
		if v == nil || seen[v] {
			return
		}
		seen[v] = true
		d := &decoder{eval: staticEval, static: true, done: done}
		decode(d)
		c.problems = append(c.problems, Problems(c.file, d.err())...)
	}
	blocks := func(runtime, docker, workspace *Value) {
		once(runtime, func(d *decoder) { d.runtime(runtime) })
		once(docker, func(d *decoder) { d.docker(docker) })
		once(workspace, func(d *decoder) { d.workspace(workspace) })
	}
	budget := func(v *Value) { once(v, func(d *decoder) { d.budget(v) }) }
	budget(c.w.Budget)
	blocks(c.w.Defaults.Runtime, c.w.Defaults.Docker, c.w.Defaults.Workspace)
	for _, job := range c.w.Jobs {
		budget(job.Budget)
		blocks(job.Defaults.Runtime, job.Defaults.Docker, job.Defaults.Workspace)
		blocks(job.Runtime, job.Docker, job.Workspace)
		for _, s := range job.Steps {
			blocks(s.Runtime, s.Docker, s.Workspace)
			budget(s.Budget)
			once(s.Retry, func(d *decoder) { d.retry(s.Retry) })
		}
	}
}
