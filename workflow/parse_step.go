package workflow

func (p *fileParser) step(job *Job, s *Step, v *Value) {
	var runtime, docker, workspace *Value
	for _, e := range v.Entries {
		switch e.Key.Text {
		case "id":
			if id := p.filled(e); id != nil && !p.plainText(id, "`id`") {
				s.ID, s.Declared, s.idAt = id.Text, true, id
			}
		case "name":
			s.Name = p.text(e)
		case "if":
			s.If = p.condition(e)
		case "run":
			s.Run = p.script(e)
			s.reported = s.reported || s.Run == nil
		case "prompt":
			s.Prompt = p.scalar(e)
			s.reported = s.reported || s.Prompt == nil
		case "prompt-file":
			s.PromptFile = p.scalar(e)
			s.reported = s.reported || s.PromptFile == nil
		case "env":
			s.Env = p.environment(e)
		case "shell":
			s.Shell = p.filled(e)
		case "working-directory":
			s.WorkingDirectory = p.text(e)
		case "timeout-minutes":
			s.TimeoutMinutes = p.number(e)
		case "continue-on-error":
			s.ContinueOnError = p.boolean(e)
		case "retry":
			s.Retry = p.retry(e)
		case "budget":
			s.Budget = p.budget(e)
		case "runtime":
			runtime = p.runtimeBlock(e)
		case "docker":
			docker = p.dockerBlock(e)
		case "workspace":
			workspace = p.workspaceBlock(e)
		case "uses":
			s.Uses = p.stepUses(e)
			s.reported = s.reported || s.Uses == nil
		case "needs":
			s.Needs, s.HasNeeds = p.names(e), true
		case "background":
			s.Background = p.flag(e)
		case "wait":
			s.Wait = p.names(e)
			s.reported = s.reported || len(s.Wait) == 0
		case "wait-all":
			s.WaitAll = isNull(e.Value) || p.flag(e)
			s.reported = s.reported || !s.WaitAll
		case "cancel":
			if names := p.names(e); len(names) == 1 {
				s.Cancel = &names[0]
			} else {
				s.reported = true
				p.errorf(e.Value, "type", "write `cancel: ID` of one background step", "`cancel` takes one step")
			}
		case "with":
			s.With = p.environment(e)
		default:
			p.unknown(e.Key, "step")
		}
	}
	s.Runtime = Merge(job.inherited.Runtime, runtime)
	s.Docker = Merge(job.inherited.Docker, docker)
	s.Workspace = firstOf(workspace, job.inherited.Workspace)
	s.OwnWorkspace = workspace != nil
}

// inherit merges what all steps of a job have in common, once for all of them.
func (p *fileParser) inherit(job *Job) {
	job.inherited.Runtime = Merge(p.defaults.Runtime, job.Defaults.Runtime, job.Runtime)
	job.inherited.Docker = Merge(p.defaults.Docker, job.Defaults.Docker, job.Docker)
	job.inherited.Workspace = firstOf(job.Workspace, job.Defaults.Workspace, p.defaults.Workspace)
}

// condition takes what may stand after `if:` and parses it as an expression.
func (p *fileParser) condition(e Entry) *Value {
	if isNull(e.Value) {
		return nil
	}
	v := p.text(e)
	if v != nil {
		v.conditionTemplate()
	}
	return v
}

// retry spells out the short form `retry: 2`.
func (p *fileParser) retry(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	v := e.Value
	switch v.Kind {
	case Sequence:
		p.errorf(v, "type", "write `retry: 2` or `retry: {max: 2, on: [rate_limited]}`", "`retry` must be a number or a mapping, found a list")
		return nil
	case Scalar:
		v = wrap("max", v)
	case Mapping:
		for _, k := range v.Entries {
			if k.Key.Text != "max" && k.Key.Text != "on" {
				p.unknown(k.Key, "retry")
			}
		}
	}
	return p.prepare(v)
}

// budget takes the limits of a workflow, job or step.
func (p *fileParser) budget(e Entry) *Value {
	if p.empty(e) {
		return nil
	}
	v := e.Value
	if v.Kind != Mapping || len(v.Entries) == 0 {
		p.errorf(v, "type", "write `budget: {max-cost-usd: 1.5}`", "`budget` must be a mapping with at least one limit, found %s", describe(v))
		return nil
	}
	return p.prepare(p.known(v, "budget"))
}
