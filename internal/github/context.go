package github

import (
	"path/filepath"
	"strings"

	"github.com/herd-runner/herd-runner/workflow/expr"
)

// Options are what a context is made of beside the checkout.
type Options struct {
	// Getenv reads the runner's own environment. Inside GitHub Actions
	// (GITHUB_ACTIONS=true) its GITHUB_* say what nothing else knows better.
	Getenv func(string) string

	Workspace string // the work tree as the steps see it
	Workflow  string // its name
	File      string // the workflow file, relative to the root of the checkout
	RunID     string // ours; inside GitHub Actions its own id is used instead
	Token     string

	EventName string
	EventPath string       // as the steps see it; empty: there is no file
	Event     *expr.Object // the payload; nil: none
	// OwnEvent says that the person gave the event: it then speaks for ref and
	// commit, even inside GitHub Actions.
	OwnEvent bool
	// Inputs become github.event.inputs, as strings.
	Inputs *expr.Object
}

// Context builds the `github` context. It is pure but for o.Getenv. The fields
// that differ between jobs (job) and steps (action) are for the executor to set.
func Context(o Options, c Checkout) *expr.Object {
	ci := o.Getenv("GITHUB_ACTIONS") == "true"
	// first picks the first that says something: the surroundings, then the rest.
	first := func(variable string, others ...string) string {
		if v := o.Getenv(variable); ci && v != "" {
			return v
		}
		return firstOf(others...)
	}
	at := o.place(ci, c)
	host, repo := splitRemote(c.Remote)
	if host == "" {
		host = "github.com"
	}
	repo = first("GITHUB_REPOSITORY", text(o.Event, "repository", "full_name"), repo)
	owner, _, _ := strings.Cut(repo, "/")
	server := first("GITHUB_SERVER_URL", "https://"+host)
	api, graphql := apiURLs(server)
	actor := first("GITHUB_ACTOR", text(o.Event, "sender", "login"), o.Getenv("USER"), o.Getenv("LOGNAME"))
	name, typ := refName(at.ref)

	g := expr.NewObject()
	set := func(key, value string) { g.Set(key, value) }
	set("actor", actor)
	set("actor_id", first("GITHUB_ACTOR_ID", text(o.Event, "sender", "id")))
	set("api_url", first("GITHUB_API_URL", api))
	set("base_ref", at.baseRef)
	g.Set("event", o.event())
	set("event_name", o.EventName)
	set("event_path", o.EventPath)
	set("graphql_url", first("GITHUB_GRAPHQL_URL", graphql))
	set("head_ref", at.headRef)
	set("ref", at.ref)
	set("ref_name", name)
	g.Set("ref_protected", ci && o.Getenv("GITHUB_REF_PROTECTED") == "true")
	set("ref_type", typ)
	set("repository", repo)
	set("repository_id", first("GITHUB_REPOSITORY_ID", text(o.Event, "repository", "id")))
	set("repository_owner", first("GITHUB_REPOSITORY_OWNER", owner))
	set("repository_owner_id", first("GITHUB_REPOSITORY_OWNER_ID", text(o.Event, "repository", "owner", "id")))
	url := ""
	if repo != "" {
		url = "git" + strings.TrimPrefix(strings.TrimPrefix(server, "https"), "http") + "/" + repo + ".git"
	}
	set("repositoryUrl", url)
	set("retention_days", first("GITHUB_RETENTION_DAYS", "90"))
	set("run_attempt", first("GITHUB_RUN_ATTEMPT", "1"))
	set("run_id", first("GITHUB_RUN_ID", o.RunID))
	set("run_number", first("GITHUB_RUN_NUMBER", "1"))
	set("secret_source", "Actions")
	set("server_url", server)
	set("sha", at.sha)
	set("token", o.Token)
	set("triggering_actor", first("GITHUB_TRIGGERING_ACTOR", actor))
	set("workflow", o.Workflow)
	set("workflow_ref", workflowRef(repo, o.File, at.ref))
	set("workflow_sha", at.sha)
	set("workspace", o.Workspace)
	return g
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func workflowRef(repo, file, ref string) string {
	if repo == "" || file == "" {
		return ""
	}
	return repo + "/" + filepath.ToSlash(file) + "@" + ref
}

// event is the payload with the inputs, which it may not share with others.
func (o Options) event() *expr.Object {
	event := expr.NewObject()
	for _, key := range o.Event.Keys() {
		v, _ := o.Event.Get(key)
		event.Set(key, v)
	}
	if len(o.Inputs.Keys()) > 0 {
		inputs := expr.NewObject()
		for _, key := range o.Inputs.Keys() {
			v, _ := o.Inputs.Get(key)
			inputs.Set(key, expr.String(v))
		}
		event.Set("inputs", inputs)
	}
	return event
}

// text walks down a payload; "" where the path leads nowhere.
func text(o *expr.Object, path ...string) string {
	var v expr.Value = o
	for _, key := range path {
		object, ok := v.(*expr.Object)
		if !ok {
			return ""
		}
		v, _ = object.Get(key)
	}
	switch v.(type) {
	case string, float64:
		return expr.String(v)
	}
	return ""
}

// place is what ran when: the commit and the refs of an event.
type place struct{ sha, ref, headRef, baseRef string }

func (o Options) place(ci bool, c Checkout) place {
	p := o.eventPlace()
	if ci && !o.OwnEvent {
		return place{
			sha: firstOf(o.Getenv("GITHUB_SHA"), p.sha, c.SHA), ref: firstOf(o.Getenv("GITHUB_REF"), p.ref, c.Ref),
			headRef: firstOf(o.Getenv("GITHUB_HEAD_REF"), p.headRef), baseRef: firstOf(o.Getenv("GITHUB_BASE_REF"), p.baseRef),
		}
	}
	p.sha, p.ref = firstOf(p.sha, c.SHA), firstOf(p.ref, c.Ref)
	return p
}

// eventPlace reads a payload as the event's documentation says.
func (o Options) eventPlace() place {
	e := o.Event
	switch o.EventName {
	case "push":
		return place{sha: text(e, "after"), ref: text(e, "ref")}
	case "pull_request", "pull_request_review", "pull_request_review_comment":
		p := place{sha: firstOf(text(e, "pull_request", "merge_commit_sha"), text(e, "pull_request", "head", "sha")),
			headRef: text(e, "pull_request", "head", "ref"), baseRef: text(e, "pull_request", "base", "ref")}
		if n := firstOf(text(e, "number"), text(e, "pull_request", "number")); n != "" {
			p.ref = "refs/pull/" + n + "/merge"
		}
		return p
	case "pull_request_target":
		p := place{sha: text(e, "pull_request", "base", "sha"),
			headRef: text(e, "pull_request", "head", "ref"), baseRef: text(e, "pull_request", "base", "ref")}
		if p.baseRef != "" {
			p.ref = "refs/heads/" + p.baseRef
		}
		return p
	case "release":
		if tag := text(e, "release", "tag_name"); tag != "" {
			return place{ref: "refs/tags/" + tag}
		}
	case "create":
		if ref := text(e, "ref"); ref != "" {
			kind := map[string]string{"tag": "refs/tags/"}[text(e, "ref_type")]
			return place{ref: firstOf(kind, "refs/heads/") + ref}
		}
	case "workflow_dispatch":
		return place{ref: text(e, "ref")}
	}
	return place{}
}

// refName gives the short form of a ref and what it is.
func refName(ref string) (name, typ string) {
	if name, ok := strings.CutPrefix(ref, "refs/tags/"); ok {
		return name, "tag"
	}
	for _, prefix := range []string{"refs/heads/", "refs/pull/"} {
		if name, ok := strings.CutPrefix(ref, prefix); ok {
			return name, "branch"
		}
	}
	if ref == "" {
		return "", ""
	}
	return strings.TrimPrefix(ref, "refs/"), "branch"
}
