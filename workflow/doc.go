// Package workflow turns a workflow file into a plan: Parse reads YAML into a
// Workflow that keeps every position, Check finds all problems at once, NewPlan
// lowers jobs, steps and matrices into one DAG. It is pure: no clock, disk,
// network or environment.
//
// Words, each with one meaning everywhere: workflow, job, step, agent step (a
// step with a prompt), leg (one matrix combination of a job), node (a vertex of
// the plan), run (one execution, with an id), box (one sandbox instance),
// runtime (how an agent is driven), engine (which agent), gateway (where model
// traffic leaves), journal (the record of a run), policy (what the operator
// allows), lane (the place of an agent step's exchanges in a cassette).
package workflow
