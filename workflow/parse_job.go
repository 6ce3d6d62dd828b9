package workflow

const maxJobs = 10_000

func (p *fileParser) jobs(w *Workflow, jobs *Value) {
	if jobs.Kind != Mapping || len(jobs.Entries) == 0 {
		p.errorf(jobs, "type", "write `jobs:` and below it `build:` with `steps:`", "`jobs` must be a mapping with at least one job, found %s", describe(jobs))
		return
	}
	for i, e := range jobs.Entries {
		if i == maxJobs {
			p.errorf(e.Key, "limit", "split the workflow", "more than %d jobs", maxJobs)
			return
		}
		job := &Job{ID: e.Key.Text, Pos: e.Key.Pos}
		if e.Value.Kind != Mapping {
			p.errorf(e.Value, "type", "", "job %q must be a mapping with `steps`, found %s", job.ID, describe(e.Value))
			continue
		}
		w.Jobs = append(w.Jobs, job)
		p.job(job, e.Value)
	}
}

func (p *fileParser) job(job *Job, v *Value) {
	var steps *Value
	reused := false
	for _, e := range v.Entries {
		switch e.Key.Text {
		case "name":
			job.Name = p.text(e)
		case "needs":
			job.Needs = p.needs(e)
		case "if":
			job.If = p.condition(e)
		case "runs-on":
			job.RunsOn = p.runsOn(e)
		case "env":
			job.Env = p.environment(e)
		case "defaults":
			job.Defaults = p.defaultsOf(e)
		case "strategy":
			job.Strategy = p.strategy(e)
		case "continue-on-error":
			job.ContinueOnError = p.boolean(e)
		case "timeout-minutes":
			job.TimeoutMinutes = p.number(e)
		case "concurrency":
			job.Concurrency = p.concurrency(e)
		case "budget":
			job.Budget = p.budget(e)
		case "environment":
			job.Environment = p.deployment(e)
		case "permissions":
			job.Permissions = p.permissions(e)
		case "outputs":
			job.Outputs = p.environment(e)
		case "runtime":
			job.Runtime = p.runtimeBlock(e)
		case "docker":
			job.Docker = p.dockerBlock(e)
		case "workspace":
			job.Workspace = p.workspaceBlock(e)
		case "steps":
			steps = e.Value
		case "uses":
			reused = true
			job.Uses = p.jobUses(e)
		case "with":
			job.With = p.environment(e)
		case "secrets":
			job.Secrets = p.jobSecrets(e)
		case "container":
			p.container(job, e)
		case "services":
			p.services(job, e)
		case "snapshot":
			p.snapshot(job, e)
		case "cancel-timeout-minutes":
			if v := p.number(e); v != nil {
				job.inert = append(job.inert, inert{"timeout-minutes", v})
			}
		default:
			p.unknown(e.Key, "job")
		}
	}
	p.steps(job, steps, reused)
}

func (p *fileParser) steps(job *Job, steps *Value, reused bool) {
	if steps == nil {
		if !reused {
			p.named(Name{job.ID, job.Pos}, "missing-key", "add `steps:` with a `run:` or a `prompt:`", "job %q has no `steps`", job.ID)
		}
		return
	}
	if steps.Kind != Sequence || len(steps.Items) == 0 {
		p.errorf(steps, "type", "write `- run: …` or `- prompt: …`", "`steps` of job %q must be a list with at least one step, found %s", job.ID, describe(steps))
		return
	}
	p.inherit(job)
	for _, item := range steps.Items {
		if item.Kind == Mapping && item.Get("parallel") != nil {
			p.parallel(job, item)
			continue
		}
		p.appendStep(job, item)
	}
}

func (p *fileParser) needs(e Entry) []Name {
	items := []*Value{e.Value}
	if e.Value.Kind == Sequence {
		items = e.Value.Items
	} else if p.empty(e) {
		return nil
	}
	var names []Name
	for _, item := range items {
		if item.Kind != Scalar || item.Text == "" {
			p.errorf(item, "type", "", "`needs` must name jobs, found %s", describe(item))
			continue
		}
		if p.plainText(item, "`needs`") {
			continue
		}
		pos := item.Pos
		if item.Quoted {
			pos = item.locate(0)
		}
		names = append(names, Name{item.Text, pos})
	}
	return names
}

func (p *fileParser) strategy(e Entry) *Strategy {
	if p.empty(e) {
		return nil
	}
	s := &Strategy{Pos: e.Key.Pos}
	if e.Value.Kind != Mapping {
		p.errorf(e.Value, "type", "", "`strategy` must be a mapping, found %s", describe(e.Value))
		return s
	}
	for _, e := range e.Value.Entries {
		switch e.Key.Text {
		case "matrix":
			s.Matrix = p.mapping(e)
		case "fail-fast":
			s.FailFast = p.boolean(e)
		case "max-parallel":
			s.MaxParallel = p.number(e)
		default:
			p.unknown(e.Key, "strategy")
		}
	}
	return s
}
