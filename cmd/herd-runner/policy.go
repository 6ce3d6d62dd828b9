package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/policy"
	"github.com/herd-runner/herd-runner/internal/report"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
)

// policyView is what is in force, and what a workflow asks of it.
type policyView struct {
	File   string          `json:"file,omitempty"`
	Exists bool            `json:"exists"` // the file
	Rules  []policy.Ruling `json:"rules"`
	// What the file says beside them. Of Credentials, the programs by API, without
	// their arguments.
	Models      policy.Models     `json:"models"`
	Day         policy.DayBudget  `json:"day_budget"`
	Credentials map[string]string `json:"credentials,omitempty"`
	// Of a workflow: what its steps ask for. Later are those that ask for what
	// only the run can tell.
	Workflow string      `json:"workflow,omitempty"`
	Asks     []policyAsk `json:"asks,omitempty"`
	Later    []string    `json:"later,omitempty"` // file:line:column
}

// policyAsk is one thing that needs the operator's word.
type policyAsk struct {
	At      string `json:"at"` // file:line:column
	What    string `json:"what"`
	Rule    string `json:"rule"`
	Allowed bool   `json:"allowed"`
	From    string `json:"from,omitempty"`  // who allows it
	Words   string `json:"words,omitempty"` // that would allow it
}

func (a *App) policyCommand() *cobra.Command {
	var f runFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "policy [flags] [WORKFLOW.yml]",
		Short: "Show what you allow workflows, where that is said, and what a workflow asks for",
		Long: "Show the rules in force and where each is said. With a workflow, also what it asks for and whether that is allowed;\n" +
			"exit 2 where something is not.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			v, w, err := a.policyView(f, args)
			if err != nil {
				return err
			}
			if asJSON {
				enc := json.NewEncoder(a.Stdout)
				enc.SetIndent("", "  ")
				err = enc.Encode(v)
			} else {
				err = a.showPolicy(v, w != nil)
			}
			if err != nil {
				return infra(err)
			}
			for _, ask := range v.Asks {
				if !ask.Allowed {
					return shown(exitProblem)
				}
			}
			return nil
		},
	}
	dirFlag(cmd, &f.dir)
	cmd.Flags().StringArrayVar(&f.allow, "allow", nil, "as of run")
	cmd.Flags().StringVar(&f.policyFile, "policy", "", "policy file (default: policy.yml in the user's configuration directory)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

func (a *App) policyView(f runFlags, args []string) (policyView, *workflow.Workflow, error) {
	var v policyView
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return v, nil, problem("-C: %w", err)
	}
	file, err := a.policyFile(f)
	if err != nil {
		return v, nil, problem("--policy: %w", err)
	}
	rules, err := policy.Load(file, f.allow)
	if err != nil {
		return v, nil, problem("%w", err)
	}
	_, err = os.Stat(file)
	v.File, v.Exists, v.Rules = file, !errors.Is(err, fs.ErrNotExist) && file != "", rules.Rulings()
	v.Models, v.Day = rules.Models(), rules.DayBudget()
	for api, c := range rules.Credentials() {
		if v.Credentials == nil {
			v.Credentials = map[string]string{}
		}
		v.Credentials[api] = c.Command[0]
	}
	if len(args) == 0 {
		return v, nil, nil
	}
	p := &prepared{flags: f, dir: dir, app: a, policy: rules}
	w, problems, err := readWorkflow(dir, args[0])
	if err != nil {
		return v, nil, err
	}
	p.workflow, v.Workflow = w, w.File
	var broken []workflow.Problem
	for _, pr := range problems {
		if rule, ok := strings.CutPrefix(pr.Rule, "policy:"); ok {
			v.ask(rules, fmt.Sprintf("%s:%d:%d", pr.File, pr.Line, pr.Column), policy.Demand{Rule: rule, What: pr.Message})
		} else if pr.Severity == workflow.SeverityError {
			broken = append(broken, pr)
		}
	}
	if err := a.show(w, broken); err != nil {
		return v, nil, err
	}
	if p.plan, broken = workflow.NewPlan(w, ""); workflow.HasErrors(broken) {
		return v, nil, a.show(w, broken)
	}
	return v, w, p.asks(&v)
}

// ask adds one demand.
func (v *policyView) ask(rules *policy.Policy, at string, d policy.Demand) {
	ask := policyAsk{At: at, What: strings.TrimSuffix(d.What, ","), Rule: d.Rule}
	if ask.From, ask.Allowed = rules.Allows(d.Rule); !ask.Allowed {
		ask.Words = rules.Words(d.Rule)
	}
	v.Asks = append(v.Asks, ask)
}

// asks collects what the steps of the plan ask of the policy.
func (p *prepared) asks(v *policyView) (err error) {
	told := map[policyAsk]bool{}
	p.walk(func(c *stepCheck) {
		if c.step.IsControl() || err != nil {
			return
		}
		at := placeOf(c.step)
		d, unknown := workflow.DecodeDocker(c.step.Docker, c.eval)
		if unknown != nil {
			if !slices.Contains(v.Later, at) {
				v.Later = append(v.Later, at)
			}
			return
		}
		demands, wrong := policy.Asked(d, p.dir)
		if wrong != nil {
			err = problem("%s: %w", at, wrong)
			return
		}
		if c.step.IsAgent() {
			demands = append(demands, c.runtimeDemands(v, at)...)
		}
		if w, unknown := workflow.DecodeWorkspace(c.step.Workspace, c.eval); unknown == nil {
			demands = append(demands, policy.WorkspaceDemands(w)...)
		}
		for _, demand := range demands {
			// A block of the workflow or a job is asked for once.
			if key := (policyAsk{At: at, Rule: demand.Rule}); !told[key] {
				told[key] = true
				v.ask(p.policy, at, demand)
			}
		}
	})
	return err
}

// runtimeDemands are those of an agent's runtime; models that are not allowed are
// added to v.
func (c *stepCheck) runtimeDemands(v *policyView, at string) []policy.Demand {
	r, err := workflow.DecodeRuntime(c.step.Runtime, c.eval)
	if err != nil {
		return nil // depends on the run, or is told by validate
	}
	cfg := steps.RuntimeConfig(r)
	cfg.Model, cfg.FallbackModel = c.policy.Model(cfg.Model), c.policy.Model(cfg.FallbackModel)
	var refused *policy.Refusal
	if _, err := c.modelProblem(cfg); errors.As(err, &refused) {
		v.Asks = append(v.Asks, policyAsk{At: at, What: refused.What, Rule: refused.Rule, Words: refused.Allow})
	}
	return policy.BaseURLDemands(cfg.BaseURL)
}

// placeOf is file:line:column of a step's docker: block, or of the step.
func placeOf(step *workflow.Step) string {
	pos, file := step.Pos, step.File
	if step.Docker != nil {
		pos = step.Docker.Pos
		if from := step.Docker.File(); from != "" {
			file = from
		}
	}
	return fmt.Sprintf("%s:%d:%d", file, pos.Line, pos.Column)
}

func (a *App) showPolicy(v policyView, workflow bool) error {
	switch {
	case v.File == "":
		fmt.Fprintln(a.Stdout, "policy file: none, there is no configuration directory")
	case v.Exists:
		fmt.Fprintln(a.Stdout, "policy file: "+v.File)
	default:
		fmt.Fprintln(a.Stdout, "policy file: "+v.File+" (not there)")
	}
	fmt.Fprintln(a.Stdout)
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tALLOWED\tFROM")
	for _, r := range v.Rules {
		allowed, from := "yes", r.From
		if from == "" {
			allowed, from = "no", "default"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", report.Clean(r.Rule), allowed, report.Clean(from))
	}
	said := func(name, value, otherwise string) {
		from := v.File
		if value == "" {
			value, from = otherwise, "default"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, report.Clean(value), report.Clean(from))
	}
	said("models", strings.Join(v.Models.Allow, ", "), "any")
	for _, alias := range sortedKeys(v.Models.Aliases) {
		said("models: "+report.Clean(alias), v.Models.Aliases[alias], "")
	}
	said("day-budget", v.Day.String(), "no limit")
	for _, api := range sortedKeys(v.Credentials) {
		said("credentials: "+api, v.Credentials[api], "")
	}
	if err := t.Flush(); err != nil || !workflow {
		return err
	}
	fmt.Fprintln(a.Stdout)
	if len(v.Asks) == 0 {
		fmt.Fprintf(a.Stdout, "%s asks for nothing that needs your word\n", report.Clean(v.Workflow))
	}
	for _, ask := range v.Asks {
		fmt.Fprintf(a.Stdout, "%s: %s: rule %s, ", report.Clean(ask.At), report.Clean(ask.What), report.Clean(ask.Rule))
		if ask.Allowed {
			fmt.Fprintf(a.Stdout, "allowed by %s\n", report.Clean(ask.From))
		} else {
			fmt.Fprintf(a.Stdout, "not allowed\n  to allow it, %s\n", report.Clean(ask.Words))
		}
	}
	for _, at := range v.Later {
		fmt.Fprintf(a.Stdout, "%s: depends on the run, and is judged when the step starts\n", report.Clean(at))
	}
	return nil
}
