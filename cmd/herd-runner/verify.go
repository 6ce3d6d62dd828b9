package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/internal/policy"
	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/internal/verify"
	"github.com/herd-runner/herd-runner/internal/workspace"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
	"github.com/herd-runner/herd-runner/workflow/expr"
)

func (a *App) verifyCommand() *cobra.Command {
	var f runFlags
	var asJSON, strict bool
	cmd := &cobra.Command{
		Use:   "verify-sandbox [flags] [WORKFLOW.yml]",
		Short: "Attack the boxes that a workflow's steps would get, and tell what came of it",
		Long: "Start boxes as the steps of the workflow would get them (without a file: the default box), on a stand-in of the project,\n" +
			"try in them what an untrusted program could, and print what was expected and what was seen.\n" +
			"exit 0: every box held, or is open because the workflow says so and may; 1: a hole; 3: something could not be checked.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			list, err := a.verify(ctx, f, args)
			if ctx.Err() != nil {
				return shown(exitCancelled)
			}
			if err != nil {
				return err
			}
			return a.tellFindings(list, asJSON, strict)
		},
	}
	dirFlag(cmd, &f.dir)
	a.sandboxFlag(cmd)
	cmd.Flags().StringArrayVar(&f.allow, "allow", nil, "as of run")
	cmd.Flags().StringVar(&f.policyFile, "policy", "", "policy file (default: policy.yml in the user's configuration directory)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	cmd.Flags().BoolVar(&strict, "strict", false, "count what the configuration opens as a hole, too")
	return cmd
}

// tellFindings prints the findings and gives the exit code.
func (a *App) tellFindings(list []verify.Finding, asJSON, strict bool) error {
	err := error(nil)
	if asJSON {
		enc := json.NewEncoder(a.Stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(list)
	} else {
		err = a.showFindings(list)
	}
	if err != nil {
		return infra(err)
	}
	has := func(v verify.Verdict) bool {
		return slices.ContainsFunc(list, func(f verify.Finding) bool { return f.Verdict == v })
	}
	switch {
	case has(verify.Hole), strict && has(verify.Open):
		return shown(exitFailure)
	case has(verify.Unchecked):
		return shown(exitInfra)
	}
	return nil
}

func (a *App) showFindings(list []verify.Finding) error {
	count := map[verify.Verdict]int{}
	box := ""
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range list {
		if f.Box != box {
			box = f.Box
			fmt.Fprintf(t, "\n%s\nVERDICT\tATTACK\tEXPECTED\tSEEN\n", report.Clean(box))
		}
		seen := f.Seen
		if f.By != "" {
			seen += " (open by " + f.By + ")"
		}
		count[f.Verdict]++
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.Verdict, f.Attack, f.Expected, report.Clean(seen))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%d held, %d holes, %d open by configuration, %d unchecked\n",
		count[verify.Held], count[verify.Hole], count[verify.Open], count[verify.Unchecked])
	return err
}

// verify attacks the boxes of a workflow.
func (a *App) verify(ctx context.Context, f runFlags, args []string) ([]verify.Finding, error) {
	p, err := a.toVerify(f, args)
	if err != nil {
		return nil, err
	}
	backend, err := a.openDocker(ctx)
	if err != nil {
		return nil, infra(err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
		defer cancel()
		if err := backend.Close(closing); err != nil {
			fmt.Fprintln(a.Stderr, "remove boxes:", report.Clean(err.Error()))
		}
	}()
	s, err := a.openStage(ctx, p)
	if err != nil {
		return nil, infra(err)
	}
	defer s.close()
	s.backend = backend
	targets, list, err := s.targets(p)
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if err := backend.Preflight(ctx, []sandbox.Spec{t.Spec}); err != nil {
			return nil, infra(err)
		}
	}
	found, err := verify.Run(ctx, verify.Options{
		Backend: backend, Layout: s.layout, Finish: func() error { return s.finish(ctx) }, Project: s.project,
		Clean: report.Clean, Keys: s.keys, Local: backend.Local(), Forwarded: func() int { return int(s.forwarded.Load()) },
	}, targets)
	if err != nil {
		return nil, infra(err)
	}
	return append(list, found...), nil
}

// verified is what a workflow asks for, as far as it is known before a run.
type verified struct {
	*prepared
	boxes []verifiedBox
	later []string // file:line:column of what only the run can tell
	host  []string
}

type verifiedBox struct {
	name   string
	docker workflow.Docker
	agent  bool
	mode   string // of its workspace
}

// toVerify reads the workflow, and refuses what the policy refuses.
func (a *App) toVerify(f runFlags, args []string) (verified, error) {
	var v verified
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return v, problem("-C: %w", err)
	}
	file, err := a.policyFile(f)
	if err != nil {
		return v, problem("--policy: %w", err)
	}
	rules, err := policy.Load(file, f.allow)
	if err != nil {
		return v, problem("%w", err)
	}
	v.prepared = &prepared{flags: f, dir: dir, app: a, policy: rules}
	if err := workspace.Check(dir); err != nil {
		return v, infra(err)
	}
	if len(args) == 0 {
		v.boxes = []verifiedBox{{name: "default box, of an agent", agent: true, mode: workflow.WorkspaceShared}}
		return v, nil
	}
	var problems []workflow.Problem
	if v.workflow, problems, err = readWorkflow(dir, args[0]); err != nil {
		return v, err
	}
	if err := a.show(v.workflow, v.permitted(problems)); err != nil {
		return v, err
	}
	if v.plan, problems = workflow.NewPlan(v.workflow, ""); workflow.HasErrors(problems) {
		return v, a.show(v.workflow, problems)
	}
	return v, a.show(v.workflow, v.collect())
}

// collect lists the boxes of the workflow's steps, equal ones once.
func (v *verified) collect() []workflow.Problem {
	unknown := func(val *workflow.Value) (expr.Value, error) { return workflow.Evaluate(val, expr.Env{}) }
	var problems []workflow.Problem
	seen := map[string]int{}
	for _, part := range v.parts() {
		for _, job := range part.jobs {
			for _, step := range withInner(job.Steps) {
				if step.Uses != nil || step.IsControl() {
					continue
				}
				check := stepCheck{prepared: v.prepared, step: step}
				d, err := workflow.DecodeDocker(step.Docker, unknown)
				w, werr := workflow.DecodeWorkspace(step.Workspace, unknown)
				if err != nil || werr != nil {
					v.later = append(v.later, placeOf(step))
					continue
				}
				if d, err = v.authorize(d); err != nil {
					check.add(step.Docker, err, event.HintOf(err))
					problems = append(problems, check.problems...)
					continue
				}
				b := verifiedBox{docker: d, agent: step.IsAgent(), mode: w.Mode}
				key := fmt.Sprintf("%+v", b)
				if i, ok := seen[key]; ok {
					v.boxes[i].name += ", " + placeOf(step)
					continue
				}
				b.name = placeOf(step)
				if d.Host {
					v.host = append(v.host, b.name)
					continue
				}
				seen[key] = len(v.boxes)
				v.boxes = append(v.boxes, b)
			}
		}
	}
	return problems
}

// stage is what boxes are attacked on: a stand-in of the project, a gateway with
// a made-up credential and a made-up model behind it.
type stage struct {
	app       *App
	project   *verify.Project
	workspace *workspace.Workspace
	gateway   *gateway.Gateway
	session   *gateway.Session
	keys      []string
	forwarded atomic.Int64
	closers   []func()
	backend   sandbox.Backend
	clones    []attackedClone
}

// attackedClone is a workspace apart from the stand-in, with the boxes that work
// in it.
type attackedClone struct {
	*workspace.Clone
	spec sandbox.Spec
}

func (a *App) openStage(ctx context.Context, v verified) (_ *stage, err error) {
	s := &stage{app: a}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	dir, err := os.MkdirTemp("", "herd-verify-")
	if err != nil {
		return s, err
	}
	s.closers = append(s.closers, func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		return s, err
	}
	uid, gid, err := workspace.Owner(v.dir)
	if err != nil {
		return s, err
	}
	if s.project, err = verify.NewProject(dir, uid, gid); err != nil {
		return s, err
	}
	run := filepath.Join(s.project.Dir, ".herd", "runs", "verify")
	if err := os.MkdirAll(run, 0o755); err != nil {
		return s, err
	}
	if s.workspace, err = workspace.Open(workspace.Options{Project: s.project.Dir, RunDir: run, Boxes: true, Now: a.Now}); err != nil {
		return s, err
	}
	return s, s.openGateway(ctx)
}

// openGateway serves a model that counts what reaches it.
func (s *stage) openGateway(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	model := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.forwarded.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`)
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = model.Serve(listener) // until it is closed
	}()
	s.closers = append(s.closers, func() { _ = model.Close(); <-served })
	key := "sk-ant-api03-" + rand.Text() + rand.Text()
	s.keys = []string{key}
	home, _ := os.UserHomeDir()
	own := gateway.FromEnvironment(s.app.Getenv, home)
	upstreams := map[string]string{}
	for _, api := range gateway.APIs() {
		upstreams[api] = "http://" + listener.Addr().String()
		if c, err := own(ctx, api); err == nil {
			s.keys = append(s.keys, c.Value)
		}
	}
	for _, name := range credentialVars {
		if v := s.app.Getenv(name); v != "" {
			s.keys = append(s.keys, v)
		}
	}
	s.gateway, err = gateway.New(gateway.Options{
		Mode: gateway.Live, Upstreams: upstreams, Transport: &http.Transport{}, Clock: s.app.Now,
		Credentials: func(context.Context, string) (gateway.Credential, error) {
			return gateway.Credential{Kind: gateway.APIKey, Value: key, Origin: "verify-sandbox"}, nil
		},
	})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = s.gateway.Close() })
	s.session, err = s.gateway.Open(gateway.SessionOptions{
		Lane: gateway.Lane{Job: "verify", Step: "sandbox", Attempt: 1}, APIs: []string{runtimes.APIAnthropic},
	})
	return err
}

// close takes everything down, the last thing first.
func (s *stage) close() {
	for _, c := range slices.Backward(s.closers) {
		c()
	}
}

func (s *stage) layout(ctx context.Context, t verify.Target) (sandbox.Layout, error) {
	if !(workflow.Workspace{Mode: t.Workspace}).Apart() {
		return s.workspace.Box(t.Workspace, "verify", "")
	}
	c, err := s.workspace.Clone(ctx, workspace.CloneOptions{Mode: t.Workspace, Name: t.Name})
	if err != nil {
		return sandbox.Layout{}, err
	}
	s.clones = append(s.clones, attackedClone{c, t.Spec})
	return c.Box(false, "verify", "")
}

// finish brings back what boxes did, as a run does.
func (s *stage) finish(ctx context.Context) error {
	for _, c := range s.clones {
		if _, err := c.Finish(ctx, func(ctx context.Context, argv []string, stdout io.Writer) error {
			return s.inside(ctx, c, argv, stdout)
		}); err != nil {
			return err
		}
		if err := c.Remove(); err != nil {
			return err
		}
	}
	_, err := s.workspace.Finish()
	return err
}

// inside runs a program in a box that works in the clone.
func (s *stage) inside(ctx context.Context, c attackedClone, argv []string, stdout io.Writer) error {
	layout, err := c.Box(false, "verify", "")
	if err != nil {
		return err
	}
	spec := c.spec
	spec.Network, spec.Gateway, spec.Egress, spec.Ports = sandbox.Network{Mode: "none"}, nil, nil, nil
	box, err := s.backend.Start(ctx, verify.Placed(spec, layout))
	if err != nil {
		return err
	}
	info := box.Info()
	exit, err := box.Exec(ctx, sandbox.Process{Argv: argv, Env: []string{"PATH=" + sandbox.DefaultPath, "HOME=" + info.Home}, Dir: info.Workdir, Stdout: stdout})
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%s: exit code %d", argv[0], exit.Code)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	return errors.Join(err, box.Close(closing))
}

// targets are the boxes to attack, and what is to be told of those that cannot
// be.
func (s *stage) targets(v verified) ([]verify.Target, []verify.Finding, error) {
	var targets []verify.Target
	var list []verify.Finding
	for _, b := range v.boxes {
		spec := steps.BoxSpec(b.docker, sandbox.Layout{}, defaultImage)
		spec.Project, spec.Workflow, spec.Run, spec.Job, spec.Step = s.project.Dir, "verify-sandbox", "verify", "verify", "box"
		t := verify.Target{Name: b.name, Spec: spec, Workspace: b.mode}
		if b.agent && steps.Direct(b.docker.Auth) {
			list = append(list, verify.Finding{Box: b.name, Attack: "credential", Threats: []int{1}, Expected: "no real credential in the box", Verdict: verify.Open,
				Seen: "the agent gets it, and calls its model's vendor itself", By: "policy: auth:" + b.docker.Auth})
		} else if b.agent && (b.docker.Network.Gateway == nil || *b.docker.Network.Gateway) {
			t.Spec.Gateway, t.Token = s.session.Serve, s.session.Credential().Token
			t.Env = map[string]string{"ANTHROPIC_API_KEY": t.Token}
		}
		if spec.Network.Mode == "allow" {
			way, err := v.openEgress()(b.docker.Network.Allow, func() func(event.EgressCall) { return func(event.EgressCall) {} })
			if err != nil {
				return nil, nil, infra(err)
			}
			s.closers = append(s.closers, way.Close)
			t.Spec.Egress = way.Serve
		}
		targets = append(targets, t)
	}
	for _, at := range v.host {
		list = append(list, verify.Finding{Box: at, Attack: "box", Expected: "a box", Verdict: verify.Open, Seen: "docker: false: a step with your rights", By: "policy: host"})
	}
	for _, at := range v.later {
		list = append(list, verify.Finding{Box: at, Attack: "box", Expected: "a box", Verdict: verify.Unchecked, Seen: "its configuration depends on the run"})
	}
	if len(targets)+len(list) == 0 {
		return nil, nil, infra(errors.New("no step of the workflow runs in a box"))
	}
	return targets, list, nil
}
