package workflow

import (
	"slices"
	"strings"
)

// event is what may start a workflow at GitHub.
type event struct {
	name, doc string
	filters   string // keys beside types, separated by spaces
	types     string // activities, separated by spaces; "*" is any text
}

const branchFilters = "branches branches-ignore"

// events are GitHub's events, see
// https://docs.github.com/en/actions/reference/workflows-and-actions/events-that-trigger-workflows
func events() []event {
	const onPullRequest = "assigned unassigned labeled unlabeled opened edited closed reopened synchronize converted_to_draft locked " +
		"unlocked enqueued dequeued milestoned demilestoned ready_for_review review_requested review_request_removed " +
		"auto_merge_enabled auto_merge_disabled stacked"
	const comment = "created edited deleted"
	return []event{
		{name: "branch_protection_rule", doc: "a branch protection rule changes", types: comment},
		{name: "check_run", doc: "something happens to a check run", types: "completed created rerequested requested_action"},
		{name: "check_suite", doc: "a check suite completes", types: "completed"},
		{name: "create", doc: "a branch or tag is created"},
		{name: "delete", doc: "a branch or tag is deleted"},
		{name: "deployment", doc: "a deployment is created"},
		{name: "deployment_status", doc: "a deployment's status is given"},
		{name: "discussion", doc: "something happens to a discussion",
			types: "created edited deleted transferred pinned unpinned labeled unlabeled locked unlocked category_changed answered unanswered"},
		{name: "discussion_comment", doc: "something happens to a comment of a discussion", types: comment},
		{name: "fork", doc: "the repository is forked"},
		{name: "gollum", doc: "a wiki page changes"},
		{name: "image_version", doc: "a version of a runner image changes", filters: "names versions", types: "created ready deleted"},
		{name: "issue_comment", doc: "something happens to a comment of an issue or pull request", types: comment},
		{name: "issues", doc: "something happens to an issue",
			types: "opened edited deleted transferred pinned unpinned closed reopened assigned unassigned labeled unlabeled locked unlocked " +
				"milestoned demilestoned field_added field_removed typed untyped"},
		{name: "label", doc: "something happens to a label", types: comment},
		{name: "merge_group", doc: "checks are requested for a merge queue's group", filters: branchFilters, types: "checks_requested"},
		{name: "milestone", doc: "something happens to a milestone", types: "created closed opened edited deleted"},
		{name: "page_build", doc: "someone pushes to the branch that Pages are built from"},
		{name: "project", doc: "something happens to a classic project", types: "created closed reopened edited deleted"},
		{name: "project_card", doc: "something happens to a card of a classic project", types: "created moved converted edited deleted"},
		{name: "project_column", doc: "something happens to a column of a classic project", types: "created updated moved deleted"},
		{name: "public", doc: "the repository becomes public"},
		{name: "pull_request", doc: "something happens to a pull request", filters: branchFilters + " paths paths-ignore", types: onPullRequest},
		{name: "pull_request_comment", doc: "something happens to a comment of a pull request", types: comment},
		{name: "pull_request_review", doc: "something happens to a review", types: "submitted edited dismissed"},
		{name: "pull_request_review_comment", doc: "something happens to a comment of a review", types: comment},
		{name: "pull_request_target", doc: "as pull_request, in the context of the base branch", filters: branchFilters + " paths paths-ignore", types: onPullRequest},
		{name: "push", doc: "commits or tags are pushed", filters: branchFilters + " tags tags-ignore paths paths-ignore"},
		{name: "registry_package", doc: "a package is published or updated", types: "published updated"},
		{name: "release", doc: "something happens to a release", types: "published unpublished created edited deleted prereleased released"},
		{name: "repository_dispatch", doc: "someone calls the API", types: "*"},
		{name: "schedule", doc: "the time has come: a list of `cron` lines"},
		{name: "status", doc: "a commit's status changes"},
		{name: "watch", doc: "someone stars the repository", types: "started"},
		{name: "workflow_call", doc: "another workflow calls this one", filters: "inputs outputs secrets"},
		{name: "workflow_dispatch", doc: "someone starts it by hand, as `herd-runner run` does", filters: "inputs"},
		{name: "workflow_run", doc: "another workflow runs", filters: "workflows " + branchFilters, types: "requested completed in_progress"},
	}
}

func eventNames() []string {
	var names []string
	for _, e := range events() {
		names = append(names, e.name)
	}
	return names
}

func findEvent(name string) (event, bool) {
	all := events()
	i := slices.IndexFunc(all, func(e event) bool { return e.name == name })
	if i < 0 {
		return event{}, false
	}
	return all[i], true
}

// filterKeys are the keys that may stand below the event.
func (e event) filterKeys() []string {
	keys := strings.Fields(e.filters)
	if e.types != "" {
		keys = append([]string{"types"}, keys...)
	}
	return keys
}

// eventBlocks are `on:` and what stands below its events.
func eventBlocks() []block {
	const head = "on: {%s}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n"
	on := block{name: "on", title: "`on`", doc: "What starts the workflow at GitHub: an event's name, a list of names, or a mapping from names to filters. " +
		"Here you start it yourself: the filters are checked and decide nothing.", sample: head}
	all := []block{}
	for _, e := range events() {
		k := key{name: e.name, doc: "When " + e.doc + ".", shape: null(), inert: true, example: "~"}
		switch {
		case e.name == "schedule":
			k.shape, k.example = shape{kind: listShape, of: &shape{kind: blockShape, block: "schedule"}}, `[{cron: "0 3 * * *"}]`
		case len(e.filterKeys()) > 0:
			k.shape = either(null(), in("on."+e.name))
			b := block{name: "on." + e.name, title: "event `" + e.name + "`", sample: "on: {" + e.name + ": {%s}}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n"}
			for _, f := range e.filterKeys() {
				b.keys = append(b.keys, filterKey(e, f))
			}
			all = append(all, b)
		}
		if e.name == "workflow_dispatch" {
			k.inert = false
		}
		if e.name == "workflow_call" {
			k.inert = false
		}
		on.keys = append(on.keys, k)
	}
	all = append([]block{on}, all...)
	return append(all,
		block{name: "schedule", title: "an entry of `schedule`", sample: "on: {schedule: [{%s}]}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: []key{
			{name: "cron", shape: filled(), required: true, inert: true, example: `"0 3 * * 1-5"`, doc: "Minute, hour, day, month, weekday (0 is Sunday); months and weekdays also by their English names."},
			{name: "timezone", shape: filled(), inert: true, example: "Europe/Berlin", beside: `cron: "0 3 * * *"`, doc: "A name of the IANA database; UTC where there is none."},
		}},
		block{name: "dispatch input", title: "an input", sample: "on: {workflow_dispatch: {inputs: {x: {%s}}}}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: []key{
			{name: "description", shape: text(), example: "What it is for", doc: "Shown to who gives it."},
			{name: "type", shape: oneOf("string", "boolean", "number", "choice", "environment"), example: "number", doc: "`string` where there is none."},
			{name: "required", shape: boolean(), example: "true", doc: "Whether the run needs a value."},
			{name: "default", shape: text(), example: "low", doc: "The value where none is given."},
			{name: "options", shape: listOf(text()), example: "[low, high]", beside: "type: choice", doc: "What a `choice` may be."},
		}},
		block{name: "call input", title: "an input of `workflow_call`", sample: "on: {workflow_call: {inputs: {x: {%s}}}}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: []key{
			{name: "description", shape: text(), example: "What it is for", beside: "type: string", doc: "Shown to who gives it."},
			{name: "type", shape: oneOf("string", "boolean", "number"), required: true, example: "string", doc: "What is taken."},
			{name: "required", shape: boolean(), example: "true", beside: "type: string", doc: "Whether a caller must give it."},
			{name: "default", shape: text(), place: "on.workflow_call.inputs.default", example: "low", beside: "type: string", doc: "The value where none is given."},
		}},
		block{name: "call secret", title: "a secret of `workflow_call`", sample: "on: {workflow_call: {secrets: {x: {%s}}}}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: []key{
			{name: "description", shape: text(), example: "What it is for", doc: "Shown to who gives it."},
			{name: "required", shape: boolean(), example: "true", doc: "Whether a caller must give it."},
		}},
		block{name: "call output", title: "an output of `workflow_call`", sample: "on: {workflow_call: {outputs: {x: {%s}}}}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: []key{
			{name: "description", shape: text(), example: "What it is", beside: "value: a", doc: "Shown to who uses it."},
			{name: "value", shape: text(), required: true, place: "on.workflow_call.outputs", example: `"${{ jobs.a.outputs.x }}"`, doc: "What the caller gets."},
		}},
	)
}

func filterKey(e event, name string) key {
	k := key{name: name, shape: oneOrMore(filled()), inert: true, example: "[main, 'releases/**']"}
	switch name {
	case "types":
		k.doc, k.example = "The activities that count.", "["+strings.Fields(e.types)[0]+"]"
		if e.types == "*" {
			k.shape, k.example = listOf(filled()), "[deploy]"
			break
		}
		k.shape = oneOrMore(oneOf(strings.Fields(e.types)...))
	case "branches", "tags", "paths":
		k.doc = "Only these " + name + "; patterns with `*`, `**`, `?`, `[]` and, for exceptions, `!`."
	case "branches-ignore", "tags-ignore", "paths-ignore":
		k.doc = "All " + strings.TrimSuffix(name, "-ignore") + " but these; not together with `" + strings.TrimSuffix(name, "-ignore") + "`."
	case "workflows":
		k.doc = "Names of workflows."
	case "names", "versions":
		k.doc = "Only these " + name + " of the image."
	case "inputs":
		k.doc, k.inert, k.example = "What can be given to a run, by name (`-i NAME=VALUE`).", false, "{level: {type: choice, options: [low, high]}}"
		k.shape = either(null(), mapOf(either(null(), in("dispatch input"))))
		if e.name == "workflow_call" {
			k.shape, k.example = mapOf(in("call input")), "{level: {type: string}}"
		}
	case "secrets":
		k.doc, k.inert, k.example = "Secrets that a caller gives, by name.", false, "{token: {required: true}}"
		k.shape = mapOf(either(null(), in("call secret")))
	case "outputs":
		k.doc, k.inert, k.example = "What a caller gets, by name.", false, `{x: {value: "${{ jobs.a.outputs.x }}"}}`
		k.shape = mapOf(in("call output"))
	}
	return k
}
