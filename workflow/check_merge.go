package workflow

import (
	"slices"
	"strings"
)

// workOutputs are the outputs of what was done in an isolated workspace: of the
// job whose steps share it, or of the step that has it to itself.
func workOutputs() []string { return []string{"patch", "branch", "changed-files"} }

// isolated says whether steps of the job may work in an isolated workspace.
func isolated(job *Job) bool {
	return slices.ContainsFunc(job.Steps, func(s *Step) bool {
		mode, known := staticMode(s.Workspace)
		return !known || mode == WorkspaceIsolated
	})
}

// checkMerges looks at the jobs that workspaces merge: they must have ended, and
// have work of their own to give.
func (c *checker) checkMerges() {
	if at := c.w.Defaults.Workspace.Get("merge"); at != nil {
		c.errorf(at, "workspace", "say it at the job that merges", "`merge` cannot stand in the defaults of a workflow")
	}
	for _, job := range c.w.Jobs {
		c.mergesOf(job, job.Defaults.Workspace)
		c.mergesOf(job, job.Workspace)
		for _, s := range job.Steps {
			if s.OwnWorkspace {
				c.mergesOf(job, s.Workspace)
			}
		}
	}
}

func (c *checker) mergesOf(job *Job, workspace *Value) {
	merge := workspace.Get("merge")
	if merge == nil {
		return
	}
	names := merge.Items
	if merge.Kind != Sequence {
		names = []*Value{merge}
	}
	var seen []string
	for _, v := range names {
		other := c.jobs[strings.ToLower(v.Text)]
		needed := func(n Name) bool { return strings.EqualFold(n.Value, v.Text) }
		switch {
		case v.template() != nil:
			c.errorf(v, "workspace", "write the ids of jobs", "`merge` cannot hold expressions")
		case other == nil:
			c.errorf(v, "workspace", suggest(v.Text, c.jobIDs()), "`merge` names the job %q, which does not exist", v.Text)
		case !slices.ContainsFunc(job.Needs, needed):
			c.errorf(v, "workspace", "add "+other.ID+" to its `needs`", "job %q merges %q, which it does not need", job.ID, other.ID)
		case other.Uses != nil:
			c.errorf(v, "workspace", "merge in the workflow that is called", "job %q calls a workflow: there is nothing of its own to merge", other.ID)
		case !isolated(other):
			c.errorf(v, "workspace", "say `workspace: isolated` in job "+other.ID, "job %q has no isolated workspace: there is nothing to merge", other.ID)
		case slices.Contains(seen, other.ID):
			c.errorf(v, "workspace", "remove it", "`merge` names the job %q twice", other.ID)
		default:
			seen = append(seen, other.ID)
		}
	}
}
