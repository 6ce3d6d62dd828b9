package steps

import (
	"context"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps/redact"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// Options are everything a run needs from outside. All fields without a note
// are required.
type Options struct {
	Plan *workflow.Plan
	Info event.RunInfo
	// Earlier are the legs that are taken over from an earlier run, by the id of
	// their job and their own; nil: there was none.
	Earlier map[string]map[string]EarlierLeg

	// Contexts gives the contexts that are the same for the whole run, but for
	// where things are, which differs between a box and the host: github,
	// inputs, vars, secrets, runner. It may build them lazily and must be safe
	// for concurrent use.
	Contexts func(name string, onHost bool) (expr.Value, bool)
	// Env is the environment every step starts from on top of what its box
	// gives: GITHUB_* and --env-file. Paths in it are as in the box b; it is the
	// same for all boxes of the same Backend, OS and Arch.
	Env func(b sandbox.Info) map[string]string

	// Event is github.event (JSON) for GITHUB_EVENT_PATH; nil: there is no file.
	Event []byte

	// Backend gives the backend for boxes (host false) or the bare host. The
	// executor does not close it.
	Backend func(ctx context.Context, host bool) (sandbox.Backend, error)
	// Workspace prepares what a box sees of the project.
	Workspace Workspace
	// SessionDir makes the directory of a box that is kept (sandbox.Spec.Session).
	SessionDir func(spec sandbox.Spec) (string, error)
	// Sessions keeps the conversations that steps go on with; a workflow without
	// `session` does not need it.
	Sessions Sessions
	// Authorize refuses what the operator's policy does not allow, and gives
	// back what it allowed with the sources of volumes resolved.
	Authorize func(d workflow.Docker) (workflow.Docker, error)
	// AuthorizeWork does the same for what is to become of a workspace's work.
	AuthorizeWork func(w workflow.Workspace) error

	// Model gives the model that a name in the workflow stands for; nil: itself.
	Model func(name string) string
	// Runtime picks the runtime for a configuration.
	Runtime func(cfg runtimes.Config) (runtimes.Runtime, error)
	// OpenModel opens the gateway's session for one attempt of an agent step;
	// the function it returns ends the session, waits for its open exchanges
	// and may be called again.
	OpenModel func(run AgentRun) (ModelSession, func() error, error)

	// OpenEgress opens the way out of one box whose network is the allow-list
	// allow. asked is called for every request, possibly by several goroutines;
	// what it returns is told how the request ended.
	OpenEgress func(allow []string, asked func() func(event.EgressCall)) (EgressSession, error)
	// Budgets bound what all agents of the run may spend, nearest first.
	Budgets []BudgetLevel
	// BudgetLeft says what is left of budgets, for budget.remaining; nil: nobody
	// knows. Safe for concurrent use.
	BudgetLeft func(levels []BudgetLevel) BudgetLeft

	// AgentSecrets lets secrets into an agent's prompt and env; the operator's
	// policy says so.
	AgentSecrets bool

	Sink   event.Sink
	Masker *redact.Masker

	MaxParallel int // run: steps at the same time; at least 1
	MaxAgents   int // agent steps at the same time; at least 1
	// Prewarm is how many boxes may be started ahead of their step at a time; 0:
	// none.
	Prewarm int
	Now     func() time.Time
	NewUUID func() string
	// Stall ends an agent that shows no sign of life for so long.
	Stall time.Duration
	// MinFree is what boxes leave free of this machine's disk, in bytes; 0:
	// a GiB, or a twentieth of a small disk; negative: they are not watched.
	MinFree int64
	// DefaultImage is the image of boxes that name none.
	DefaultImage string
	// AcquireGroup waits for a concurrency group of a run or job. A *GroupRefused
	// cancels who asked; another error, when ctx has not ended, is one of the
	// machine. nil: `concurrency` is not heeded.
	AcquireGroup func(ctx context.Context, req GroupRequest) (Group, error)
	// Begin, where given, is called when the run may begin: after its concurrency
	// group was free, before anything of the plan. Its error, one of the machine,
	// ends the run.
	Begin func() error
	// Finish, where given, is called when every step has ended and its boxes are
	// gone, before the run counts as finished. What it returns is told.
	Finish func(ctx context.Context) []event.Note
	// Kill, when closed, kills every process at once (the second Ctrl-C).
	Kill <-chan struct{}
}

// Workspace is what boxes see of the project directory. Safe for concurrent use.
type Workspace interface {
	// Root is the directory on the host that steps work in.
	Root() string
	// Box prepares the mounts and directories for a box of a leg: mode is
	// "shared", "ro", or "host" for steps without a box. Step is empty for
	// what the leg's run: steps share.
	Box(mode, leg, step string) (sandbox.Layout, error)
	// Reuse takes back the layout of a box that is gone, for one to come. Of
	// what lies in its Temp only what keep names stays: regular files, to be
	// written anew, and empty directories.
	Reuse(l sandbox.Layout, keep func(e fs.DirEntry) bool)
	// Clone makes a workspace apart from the project, "isolated" or "copy", for
	// who is called name, with work merged into it. A *CloneRefused fails the
	// step; another error is one of the machine.
	Clone(ctx context.Context, mode, name string, merge []Work) (Clone, error)
}

// Clone is a workspace apart from the project. Box may be called concurrently,
// the others one at a time; Save, Reset, Finish and Remove while no box is open
// in it.
type Clone interface {
	// Root is its directory on the host.
	Root() string
	// Box is Workspace.Box for the clone.
	Box(onHost bool, leg, step string) (sandbox.Layout, error)
	// Mark names the state of its files, and Since tells what changed after it.
	// Both say nothing where the clone is thrown away.
	Mark(ctx context.Context) (string, error)
	Since(ctx context.Context, mark string) (Work, error)
	// Save keeps all that it holds, and Reset goes back to that.
	Save() error
	Reset() error
	// Finish brings the work back. It has commands that must obey what the
	// clone holds run by inside, which runs them where the steps ran.
	Finish(ctx context.Context, inside func(ctx context.Context, argv []string, stdout io.Writer) error) (Work, error)
	// Push sends the branch of finished work to a remote of the project's repository.
	Push(ctx context.Context, branch, remote string) error
	// Remove throws the clone away.
	Remove() error
}

// Work is what was done in an isolated workspace.
type Work struct {
	Name    string   // who did it
	Branch  string   // where it is in the person's repository; empty: nothing was changed
	Commit  string   // the branch's
	Patch   string   // empty where there is none, or it is too large
	Changed []string // paths, sorted
	Notices []string // what was left out, for the person
}

// CloneRefused says that a workspace cannot be had as the workflow asks for it.
type CloneRefused struct{ Message, Hint string }

func (e *CloneRefused) Error() string { return e.Message }

// AgentRun names one attempt of an agent step for the gateway.
type AgentRun struct {
	Job, Step string
	Attempt   int
	APIs      []string // runtimes.Description.APIsFor the configuration
	Config    runtimes.Config
	Auth      string // docker.auth, see Direct
	Emit      func(event.ModelCall)
	// Budgets are those the attempt spends from, nearest first.
	Budgets []BudgetLevel
	// Deadline is when the step must end; zero: no time of its own.
	Deadline time.Time
	// Waiting is told when a model call is kept waiting.
	Waiting func(event.Wait)
}

// ModelSession is the gateway's side of one attempt of an agent step.
type ModelSession interface {
	Credential() runtimes.Credential
	// Serve answers one connection from the box and returns when it ends.
	Serve(conn net.Conn)
	View() runtimes.GatewayView
}

// run is one execution of a plan.
type run struct {
	Options
	jobs   map[string]*jobState // by job id; filled before the start, then read only
	legs   map[*workflow.Leg]*legState
	legsMu sync.Mutex
	// talkedOn are the steps whose sessions others go on with; read only.
	talkedOn map[*workflow.Step]bool
	cleanup  *conc.WaitGroup
	bounds   *bounds
	disk     *disk
	ahead    *ahead

	startEnvsMu sync.Mutex
	startEnvs   map[machine]startEnv

	// Of a called workflow: what stands before the ids of its jobs, and the
	// concurrency groups held by who waits for it.
	prefix string
	groups []string

	cancelOnce sync.Once
	cancelled  chan struct{} // closed when the run is cancelled
	why        string        // it was; set before cancelled is closed

	refused string // result of a run that could not begin, but for a cancel
	broken  bool   // it was the machine's fault
}

// Run executes the plan and returns how it ended. Cancelling ctx cancels the
// run as GitHub does: running steps are stopped, then always() and cancelled()
// steps run. Run returns when nothing of it is left running.
func Run(ctx context.Context, o Options) event.Outcome {
	r := newRun(o)
	r.cleanup, r.bounds = conc.NewWaitGroup(), newBounds(o.MaxParallel, o.MaxAgents)
	r.disk = newDisk(o.MinFree, o.Now, func(warning string) { r.tellRun("warning", warning, nil) })
	r.ahead = newAhead(r, make(chan struct{}, o.Prewarm))
	start := o.Now()
	info := o.Info
	r.emit(event.Event{Type: event.RunStarted, Run: &info})

	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	base := context.WithoutCancel(ctx)
	leave, ok := r.enter(ctx)
	if ok && r.begun() {
		r.schedule(base)
	}
	r.cleanup.Wait()
	if o.Finish != nil {
		for _, note := range o.Finish(base) {
			r.emit(event.Event{Type: event.Notice, Note: &note})
		}
	}

	leave()

	out := r.outcome()
	out.DurationMS = o.Now().Sub(start).Milliseconds()
	r.emit(event.Event{Type: event.RunFinished, Outcome: &out})
	return out
}

func newRun(o Options) *run {
	r := &run{
		Options:   o,
		jobs:      make(map[string]*jobState, len(o.Plan.Workflow.Jobs)),
		legs:      make(map[*workflow.Leg]*legState),
		startEnvs: make(map[machine]startEnv),
		cancelled: make(chan struct{}),
		talkedOn:  sessionSources(o.Plan.Workflow),
	}
	for _, n := range o.Plan.Nodes {
		if n.Kind == workflow.JobGate {
			r.jobs[n.Job.ID] = newJobState(n.Job)
		}
	}
	return r
}

// job gives the state of a planned job; ids are found without regard to case.
func (r *run) job(id string) *jobState {
	if st := r.jobs[id]; st != nil {
		return st
	}
	for name, st := range r.jobs {
		if strings.EqualFold(name, id) {
			return st
		}
	}
	return nil
}

// personCancelled is why a run is cancelled that its caller cancels.
const personCancelled = "the run was cancelled"

func (r *run) cancel() { r.cancelFor(personCancelled) }

func (r *run) cancelFor(why string) {
	r.cancelOnce.Do(func() {
		r.why = why
		close(r.cancelled)
	})
}

func (r *run) isCancelled() bool {
	select {
	case <-r.cancelled:
		return true
	default:
		return false
	}
}

func (r *run) emit(e event.Event) {
	e.Time = r.Now()
	r.Sink.Emit(e)
}

// outcome joins the jobs' results: cancelled before infrastructure before failure.
func (r *run) outcome() event.Outcome {
	out := event.Outcome{Outcome: resultSuccess}
	var total event.Usage
	infra := r.broken
	if r.refused != "" {
		out.Outcome = r.refused
	}
	for _, j := range r.Plan.Workflow.Jobs {
		st := r.jobs[j.ID]
		if st == nil {
			continue
		}
		total = total.Add(st.usage)
		switch {
		case st.result == resultFailure:
			out.Outcome = resultFailure
			infra = infra || st.infrastructure
		case st.result == resultCancelled && out.Outcome == resultSuccess:
			// A job ran out of time, or out of its concurrency group.
			out.Outcome = resultCancelled
		}
	}
	switch {
	case r.isCancelled():
		out.Outcome, out.Cause = resultCancelled, event.CauseCancelled
		if r.why != personCancelled {
			out.Message = r.why
		}
	case infra:
		out.Cause = event.CauseInfrastructure
	case out.Outcome == resultCancelled:
		out.Cause = event.CauseCancelled
	}
	out.Conclusion = out.Outcome
	if total.Requests > 0 {
		out.Usage = &total
	}
	return out
}
