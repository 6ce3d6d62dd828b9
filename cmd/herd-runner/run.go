package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/docker/go-units"
	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/journal"
	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/steps/redact"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

// defaultImage is what steps without docker.image run in.
const defaultImage = "herd-runner/agent"

// stallAfter ends an agent that shows no sign of life.
const stallAfter = 10 * time.Minute

// finishTime bounds what is done after the last step.
const finishTime = 2 * time.Minute

// runFlags are the flags of run.
type runFlags struct {
	dir, job                                          string
	inputs, secrets, vars, allow                      []string
	inputsFile, secretFile, envFile, event, eventName string
	replay, record, replayOrRecord                    string
	maxParallel, maxAgents                            int
	maxCost                                           float64
	prewarm, minFree                                  string
	dryRun, json, verbose, keepWorkspaces             bool
	locked, build                                     bool
	summaryFile, resultFile, policyFile               string
}

func (a *App) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [WORKFLOW.yml]",
		Short: "Run a workflow; without a file, list the workflows of the project",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listWorkflows(f.dir)
			}
			return a.run(cmd, source{file: args[0]}, f)
		},
	}
	a.runFlags(cmd, &f)
	fl := cmd.Flags()
	fl.StringVarP(&f.job, "job", "j", "", "run this job and what it needs")
	fl.StringArrayVarP(&f.inputs, "input", "i", nil, "workflow input NAME=VALUE")
	fl.StringVar(&f.inputsFile, "inputs-file", "", "inputs as JSON, YAML or NAME=VALUE lines")
	fl.StringArrayVar(&f.vars, "var", nil, "NAME=VALUE of the vars context")
	fl.StringVar(&f.event, "event", "", "event payload (JSON) for github.event")
	fl.StringVar(&f.eventName, "event-name", "", "github.event_name (default: workflow_dispatch, or GITHUB_EVENT_NAME)")
	return cmd
}

// runFlags are the flags of every verb that runs a workflow.
func (a *App) runFlags(cmd *cobra.Command, f *runFlags) {
	dirFlag(cmd, &f.dir)
	a.sandboxFlag(cmd)
	fl := cmd.Flags()
	fl.StringArrayVar(&f.secrets, "secret", nil, "secret NAME (from the environment) or NAME=VALUE")
	fl.StringVar(&f.secretFile, "secret-file", "", "secrets as NAME=VALUE lines")
	fl.StringVar(&f.envFile, "env-file", "", "environment of the steps as NAME=VALUE lines")
	fl.StringArrayVar(&f.allow, "allow", nil, "what the workflow may do beyond the defaults, for example host (see docs/security.md)")
	fl.StringVar(&f.policyFile, "policy", "", "policy file (default: policy.yml in the user's configuration directory)")
	fl.StringVar(&f.replay, "replay", "", "answer model requests from the cassettes in this directory")
	fl.StringVar(&f.record, "record", "", "record model requests into this directory")
	fl.StringVar(&f.replayOrRecord, "replay-or-record", "", "replay the steps that are recorded in this directory, record the others")
	fl.IntVar(&f.maxParallel, "max-parallel", max(2, runtime.NumCPU()), "run: steps at the same time")
	fl.IntVar(&f.maxAgents, "max-agents", defaultMaxAgents(), "agent steps at the same time")
	fl.Float64Var(&f.maxCost, "max-cost", 0, "what all agents of the run may cost together, in US dollars")
	fl.StringVar(&f.prewarm, "prewarm", "auto", "boxes started ahead of their step at a time; 0: none")
	fl.StringVar(&f.minFree, "min-free", "", "disk space that boxes leave free: the step that fills the disk is ended before (default: 1g, or a twentieth of a small disk); 0: they may fill it")
	fl.BoolVar(&f.dryRun, "dry-run", false, "check everything and show the plan; start nothing")
	fl.BoolVar(&f.json, "json", false, "events as JSON lines on stdout")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "also show thinking, tool results, boxes and model calls")
	fl.BoolVar(&f.locked, "locked", false, "only images that are in herd.lock, as they are there (see image lock)")
	fl.BoolVar(&f.build, "build", false, "build agent images that are missing before the run")
	fl.StringVar(&f.summaryFile, "summary-file", "", "append the run's summary (Markdown) to this file")
	fl.StringVar(&f.resultFile, "result-file", "", "write run id, conclusion and cost (JSON) to this file")
	fl.BoolVar(&f.keepWorkspaces, "keep-workspaces", false, "keep what isolated and copied workspaces held, in .herd/workspaces, and the copy that boxes have of a project of root's (of the newest 5 runs)")
}

// run is the verb: check everything, then execute, then account.
func (a *App) run(cmd *cobra.Command, from source, f runFlags) error {
	if cmd.Flags().Changed("max-cost") && !(f.maxCost > 0 && f.maxCost <= 1_000_000) {
		return problem("%w", errMaxCost)
	}
	if f.maxParallel < 1 || f.maxAgents < 1 {
		return problem("--max-parallel and --max-agents must be at least 1")
	}
	if f.replayOrRecord != "" && f.replay+f.record != "" {
		return problem("--replay-or-record stands alone: it replays what is recorded and records the rest")
	}
	if f.replay != "" && f.record != "" {
		return problem("--replay and --record cannot stand together: a replay asks no model that could be recorded")
	}
	if _, err := boxesAhead(f.prewarm); err != nil {
		return problem("--prewarm: %w", err)
	}
	if _, err := minFree(f.minFree); err != nil {
		return problem("--min-free: %w", err)
	}
	if err := a.checkSandbox(); err != nil {
		return err
	}
	if f.dryRun && (f.build || f.json) {
		return problem("--dry-run cannot stand with --build or --json: it starts nothing, and has no events")
	}
	ctx := cmd.Context()
	p, err := a.prepare(ctx, from, f)
	if err != nil {
		return err
	}
	if f.dryRun {
		return errors.Join(a.dryRun(p), p.backends.close(ctx))
	}
	return a.execute(ctx, p)
}

// execute runs a prepared workflow. Everything that can be refused has been.
func (a *App) execute(ctx context.Context, p *prepared) (err error) {
	defer func() {
		// finish has closed them already, unless the run never began.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
		defer cancel()
		if closeErr := p.backends.close(closing); closeErr != nil && err == nil {
			err = infra(closeErr)
		}
	}()
	id, err := journal.NewID(a.Now(), rand.Reader)
	if err != nil {
		return infra(err)
	}
	name, err := workflow.EvalString(p.workflow.RunName, expr.Env{Context: func(context string) (expr.Value, bool) {
		return p.contexts(id, p.dir)(context, false)
	}})
	if err != nil {
		return a.show(p.workflow, workflow.Problems(p.workflow.File, fmt.Errorf("run-name: %w", err)))
	}
	record, err := journal.Create(p.dir, id)
	if err != nil {
		return infra(err)
	}
	defer func() {
		if closeErr := record.Close(); closeErr != nil {
			err = a.incomplete(err, closeErr)
		}
	}()
	apart, err := p.apart(ctx)
	if err != nil {
		return infra(err)
	}
	ws, err := workspace.Open(workspace.Options{
		Project: p.dir, RunDir: record.Dir(), Boxes: p.boxes, Apart: apart, Keep: p.flags.keepWorkspaces, Now: a.Now, Later: true,
	})
	if err != nil {
		return infra(err)
	}

	fold := &foldSink{}
	a.output.outlive()
	display := a.display(p, a.Stdout)
	sink := event.NewQueue(redact.Sink(p.masker, event.Tee{record, fold, display}))
	ctx, kill, stop := a.interruptible(ctx, sink, a.output.lost)
	defer stop()

	p.backends.tell(func(msg string) {
		sink.Emit(event.Event{Type: event.Notice, Time: a.Now(), Note: &event.Note{Level: "notice", Message: msg}})
	})
	p.tellChosen(a, sink)
	p.earlier.tell(a, sink)
	ahead := 0
	if p.boxes {
		ahead, _ = boxesAhead(p.flags.prewarm) // checked by run
	}
	free, _ := minFree(p.flags.minFree) // checked by run
	contexts := p.contexts(id, ws.Root())
	record.WriteGiven(p.toRecord(contexts))
	sum := sha256.Sum256(p.workflow.Src)
	conversations := &talks{project: p.dir, workflow: p.workflow.File, run: id}
	out := steps.Run(ctx, steps.Options{
		Plan: p.plan,
		Info: p.earlier.info(event.RunInfo{
			ID: id, Name: name, Workflow: p.name(), File: p.workflow.File, SHA256: hex.EncodeToString(sum[:]),
			Event: p.given.EventName, Dir: p.dir, PID: os.Getpid(), Version: a.Version,
		}),
		Earlier:       p.earlier.legs(),
		Contexts:      contexts,
		Env:           p.environment(contexts, id),
		Event:         eventJSON(contexts),
		Backend:       p.backends.get,
		Workspace:     workspaces{ws},
		SessionDir:    sessionDir,
		Sessions:      conversations,
		Authorize:     p.authorize,
		AuthorizeWork: p.authorizeWork,
		Model:         p.policy.Model,
		Runtime:       p.pickRuntime,
		OpenModel:     p.openModel,
		OpenEgress:    p.openEgress(),
		Sink:          sink,
		Masker:        p.masker,
		AgentSecrets:  p.agentSecrets(),
		Budgets:       p.budgets,
		BudgetLeft:    p.budgetLeft,
		MaxParallel:   p.flags.maxParallel,
		MaxAgents:     p.flags.maxAgents,
		Prewarm:       ahead,
		Now:           a.Now,
		NewUUID:       uuid.NewString,
		Stall:         stallAfter,
		MinFree:       free,
		DefaultImage:  defaultImage,
		AcquireGroup:  a.acquireGroup(p, id, contexts),
		Begin:         func() error { return a.begin(p, ws, sink) },
		Finish:        func(ctx context.Context) []event.Note { return finish(ctx, p, ws) },
		Kill:          kill,
	})
	sink.Close()
	if err := errors.Join(display.Close(), conversations.Close(), a.account(p, record, fold.state())); err != nil {
		return infra(err)
	}
	if code := exitCode(out); code != exitOK {
		return shown(code)
	}
	return nil
}

// minFree reads --min-free, in bytes; 0: nothing is said, negative: boxes may fill
// the disk.
func minFree(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	n, err := units.RAMInBytes(s)
	switch {
	case err != nil || n < 0:
		return 0, fmt.Errorf("%q: expected a size such as 1g or 500m, or 0", s)
	case n == 0:
		return -1, nil
	}
	return n, nil
}

// apart says whether the engine of the run's boxes has other files than this
// machine.
func (p *prepared) apart(ctx context.Context) (bool, error) {
	if !p.boxes {
		return false, nil
	}
	if _, err := p.backends.get(ctx, false); err != nil {
		return false, err
	}
	sees, err := p.backends.docker.Sees(ctx, p.dir)
	return !sees, err
}

// autoAhead is --prewarm auto: the step that comes next, and one more where two
// are at work. A box that lies unused holds some 20 MB.
const autoAhead = 2

// boxesAhead reads --prewarm.
func boxesAhead(s string) (int, error) {
	if s == "auto" || s == "" {
		return autoAhead, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxAhead {
		return 0, fmt.Errorf("%q is no number of boxes; write auto, or a number from 0 to %d", s, maxAhead)
	}
	return n, nil
}

// maxAhead bounds --prewarm.
const maxAhead = 64

// begin makes the project ready for the steps: nobody whom the run had to wait for
// works in it any more.
func (a *App) begin(p *prepared, ws *workspace.Workspace, sink event.Sink) error {
	if err := p.earlier.recover(a, p, sink); err != nil {
		return err
	}
	a.sweep(p, sink)
	return ws.Prepare()
}

// sweep clears what killed runs of the project have left.
func (a *App) sweep(p *prepared, sink event.Sink) {
	notices, err := workspace.Sweep(journal.RunsDir(p.dir), func(id string) bool {
		r, err := journal.Open(p.dir, id)
		if err != nil {
			return false
		}
		alive, err := r.Alive()
		return err == nil && !alive
	})
	if err != nil {
		notices = append(notices, "clear what killed runs have left: "+err.Error())
	}
	for _, n := range notices {
		sink.Emit(event.Event{Type: event.Notice, Time: a.Now(), Note: &event.Note{Level: "warning", Message: n}})
	}
}

// finish lets go of everything the run held, bounded, also after a Ctrl-C.
func finish(ctx context.Context, p *prepared, ws *workspace.Workspace) []event.Note {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	var notes []event.Note
	warn := func(what string, err error) {
		if err != nil {
			notes = append(notes, event.Note{Level: "warning", Message: what + ": " + err.Error()})
		}
	}
	warn("remove boxes", p.backends.close(ctx))
	if p.gateway != nil {
		warn("close the model gateway", p.gateway.Close())
	}
	rep, err := ws.Finish()
	warn("workspace", err)
	for _, n := range rep.Notices {
		notes = append(notes, event.Note{Level: "warning", Message: n})
	}
	return notes
}

// interruptible makes the first Ctrl-C (or TERM, or the terminal's end) cancel
// the run in order, and the second kill it. Output that nobody reads any more
// cancels as well.
func (a *App) interruptible(ctx context.Context, sink event.Sink, lost <-chan struct{}) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancel(ctx)
	kill := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup goes on
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Add(1)
	go func() {
		defer wait.Done()
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-lost:
				lost = nil
			case <-signals:
			}
			switch n {
			case 0:
				sink.Emit(event.Event{Type: event.Notice, Time: a.Now(), Note: &event.Note{Level: "warning", Message: "cancelling: running steps are being stopped; press Ctrl-C again to kill them"}})
				cancel()
			case 1:
				close(kill)
			}
		}
	}()
	return ctx, kill, func() {
		signal.Stop(signals)
		close(done)
		wait.Wait()
		cancel()
	}
}

// display is a sink that shows the run.
type display interface {
	event.Sink
	Close() error
}

func (a *App) display(p *prepared, out io.Writer) display {
	switch {
	case p.flags.json:
		return report.NewJSON(out)
	case a.Getenv("GITHUB_ACTIONS") == "true":
		return report.NewGitHub(out, report.GitHubOptions{Color: a.Getenv("NO_COLOR") == "", Project: a.inRepository(p.dir)})
	default:
		return report.NewTerminal(out, report.TerminalOptions{Color: a.color(a.Stdout), Verbose: p.flags.verbose, Labels: p.labels()})
	}
}

// foldSink keeps the run's state for the summary.
type foldSink struct {
	mu   sync.Mutex
	fold journal.Fold
}

func (s *foldSink) Emit(e event.Event) {
	if e.Type == event.Output || e.Type == event.Agent {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fold.Add(e)
}

func (s *foldSink) state() journal.RunState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold.State()
}

// account writes the summary and the result where they were asked for.
func (a *App) account(p *prepared, record *journal.Writer, state journal.RunState) error {
	summary := report.Markdown(state)
	errs := []error{record.WriteSummary(summary)}
	if p.flags.summaryFile != "" {
		errs = append(errs, appendFile(under(p.dir, p.flags.summaryFile), summary))
	}
	if p.flags.resultFile != "" {
		errs = append(errs, writeResult(under(p.dir, p.flags.resultFile), state))
	}
	return errors.Join(errs...)
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// incomplete is how a verb ends whose output, or record of a run, is not complete:
// that is an error of the machine, also where a step failed.
func (a *App) incomplete(ended, why error) error {
	var exit *exitError
	switch {
	case !errors.As(ended, &exit):
		return infra(errors.Join(ended, why))
	case exit.err == nil && exit.code != exitCancelled:
		return infra(why)
	case exit.err != nil:
		return &exitError{exit.code, errors.Join(exit.err, why)}
	}
	report.Error(a.Stderr, why, a.color(a.Stderr))
	return ended
}

// dryRun shows what a run would do.
func (a *App) dryRun(p *prepared) error {
	if err := workflow.Graph(a.Stdout, p.plan, "text"); err != nil {
		return infra(err)
	}
	for _, line := range append(p.describe, p.earlier.describe()...) {
		fmt.Fprintln(a.Stdout, line)
	}
	fmt.Fprintf(a.Stdout, "%s is fine; nothing was started\n", filepath.Base(p.workflow.File))
	return nil
}
