package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/herd-runner/herd-runner/internal/egress"
	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/internal/guests"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/runtimes/claude"
	"github.com/herd-runner/herd-runner/runtimes/codex"
	"github.com/herd-runner/herd-runner/runtimes/command"
	"github.com/herd-runner/herd-runner/runtimes/gemini"
	"github.com/herd-runner/herd-runner/runtimes/opencode"
	"github.com/herd-runner/herd-runner/runtimes/sdk"
	"github.com/herd-runner/herd-runner/sandbox"
	"github.com/herd-runner/herd-runner/sandbox/docker"
	"github.com/herd-runner/herd-runner/sandbox/host"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/steps/redact"
)

// newFactory knows every runtime there is.
func newFactory() (*runtimes.Factory, error) {
	return runtimes.NewFactory(claude.New(), codex.New(), command.New(), gemini.New(), opencode.New(),
		sdk.New(sdk.Anthropic), sdk.New(sdk.OpenAI), sdk.New(sdk.Gemini))
}

// backends opens the sandbox backends at their first use.
type backends struct {
	app      *App
	pin      func(ref string) (docker.Pin, error) // nil: images are taken as they are
	noticeMu sync.Mutex
	notice   func(msg string) // nil: stderr, as long as there is no run

	mu     sync.Mutex
	docker *docker.Backend
	host   *host.Backend
}

func (b *backends) get(ctx context.Context, onHost bool) (sandbox.Backend, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if onHost {
		if b.host == nil {
			b.host = host.New(host.Options{Env: b.app.hostEnv()})
		}
		return b.host, nil
	}
	if b.docker == nil {
		backend, err := b.app.connectDocker(ctx, docker.Options{Pin: b.pin, Notice: b.say})
		if err != nil {
			return nil, err
		}
		b.docker = backend
	}
	return b.docker, nil
}

// say passes on what a backend has to tell.
func (b *backends) say(msg string) {
	b.noticeMu.Lock()
	defer b.noticeMu.Unlock()
	if b.notice != nil {
		b.notice(msg)
		return
	}
	fmt.Fprintln(b.app.Stderr, msg)
}

// tell has what is said from now on go to notice.
func (b *backends) tell(notice func(msg string)) {
	b.noticeMu.Lock()
	defer b.noticeMu.Unlock()
	b.notice = notice
}

func (b *backends) close(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	if b.docker != nil {
		errs = append(errs, b.docker.Close(ctx))
	}
	if b.host != nil {
		errs = append(errs, b.host.Close(ctx))
	}
	b.docker, b.host = nil, nil
	return errors.Join(errs...)
}

// openDocker connects to the engine and removes what dead runners have left.
func (a *App) openDocker(ctx context.Context) (*docker.Backend, error) {
	return a.connectDocker(ctx, docker.Options{})
}

// connectDocker fills in where the engine is, and who we are.
func (a *App) connectDocker(ctx context.Context, o docker.Options) (*docker.Backend, error) {
	guest, err := a.guest()
	if err != nil {
		return nil, err
	}
	state, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	o.Runner, o.StateDir = guest, state
	o.LoginDir, o.BuildAdvice = a.dockerConfigDir(), buildAdvice
	o.Guest = func(arch string) (string, error) {
		name, err := a.carriedGuest(arch)
		if errors.Is(err, guests.ErrNone) {
			return "", nil
		}
		return name, err
	}
	return a.openEngine(ctx, o)
}

// carriedGuest is the path of the program for the boxes of an architecture. The error
// is guests.ErrNone where this build carries none.
func (a *App) carriedGuest(arch string) (string, error) {
	state, err := a.stateDir()
	if err != nil {
		return "", err
	}
	return guests.Write(filepath.Join(state, "guests"), arch)
}

// dockerConfigDir is where the docker command keeps logins.
func (a *App) dockerConfigDir() string {
	if dir := a.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// stateDir is where leases live, the same for all projects of a user. It is there,
// and can be written.
func (a *App) stateDir() (string, error) {
	dir, err := a.stateHome()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil && unix.Access(dir, unix.W_OK) != nil {
		err = fmt.Errorf("you may not write to %s", dir)
	}
	if err != nil {
		return "", &sandbox.Error{
			Kind: sandbox.KindConfig, Op: "open the state directory", Err: err,
			Advice: "set XDG_STATE_HOME to a directory that you may write",
		}
	}
	return dir, nil
}

// stateHome follows the XDG base directory specification, where a variable that is
// not absolute is void.
func (a *App) stateHome() (string, error) {
	if dir := a.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "herd-runner"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "herd-runner"), err
}

// policyFile is the operator's, never one of the project.
func (a *App) policyFile(f runFlags) (string, error) {
	if f.policyFile != "" {
		name := under(f.dir, f.policyFile)
		_, err := os.Stat(name)
		return name, err
	}
	return userConfigFile("policy.yml"), nil // no home, no policy: nothing is allowed
}

// userConfigFile is a file of ours in the user's configuration directory; empty
// where there is no such directory.
func userConfigFile(name string) string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "herd-runner", name)
}

// credentialVars are kept from every step: only the gateway holds them.
var credentialVars = []string{
	"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN",
	"OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY",
}

// hostEnv is what steps on the bare host start from: the environment of this
// process without model credentials.
func (a *App) hostEnv() map[string]string {
	env := map[string]string{}
	for _, kv := range a.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok && k != "" {
			env[k] = v
		}
	}
	for _, name := range credentialVars {
		delete(env, name)
	}
	return env
}

// newGateway opens the model gateway of a run.
func newGateway(a *App, p *prepared) (*gateway.Gateway, error) {
	prices, err := gateway.LoadPrices(userConfigFile("prices.json"))
	if err != nil {
		return nil, err
	}
	day, err := a.dayBudget(p)
	if err != nil {
		return nil, err
	}
	limits := ""
	if state, err := a.stateDir(); err == nil { // no home: nothing is shared with other runs
		limits = filepath.Join(state, "limits")
	}
	o := gateway.Options{
		Mode:        gateway.Live,
		Upstreams:   gateway.UpstreamsFromEnvironment(a.Getenv),
		Credentials: p.credentials,
		Prices:      prices,
		Day:         day,
		LimitsDir:   limits,
		Model:       p.policy.Model,
		Permit:      p.policy.PermitModel,
		ServerTools: p.serverTools(),
		Redact:      p.masker.String,
		Clock:       a.Now,
	}
	switch {
	case p.flags.replay != "":
		o.Mode, o.Dir = gateway.Replay, under(p.dir, p.flags.replay)
	case p.flags.replayOrRecord != "":
		o.Mode, o.Dir = gateway.ReplayOrRecord, under(p.dir, p.flags.replayOrRecord)
	case p.flags.record != "":
		o.Mode, o.Dir = gateway.Record, under(p.dir, p.flags.record)
	}
	return gateway.New(o)
}

// minCredential keeps a made-up credential ("test") from masking ordinary words;
// real ones are far longer.
const minCredential = 16

func mask(masker *redact.Masker, credential string) {
	if len(credential) >= minCredential {
		masker.Add(credential)
	}
}

// masked makes the real credential a secret of the run: a step on the host could
// come by it and print it.
func masked(source gateway.CredentialSource, masker *redact.Masker) gateway.CredentialSource {
	return func(ctx context.Context, api string) (gateway.Credential, error) {
		c, err := source(ctx, api)
		mask(masker, c.Value)
		return c, err
	}
}

// openEgress opens the ways out of boxes with an allow-list.
func (p *prepared) openEgress() func([]string, func() func(event.EgressCall)) (steps.EgressSession, error) {
	proxy := egress.New(egress.Options{Private: p.policy.PrivateHost})
	return func(allow []string, asked func() func(event.EgressCall)) (steps.EgressSession, error) {
		list, err := egress.ParseList(allow)
		if err != nil {
			return nil, err
		}
		return proxy.Open(list, asked), nil
	}
}

// openModel opens the gateway's session for one attempt of an agent step.
func (p *prepared) openModel(run steps.AgentRun) (steps.ModelSession, func() error, error) {
	if steps.Direct(run.Auth) {
		cred, err := p.ownCredential(run.Auth, run.APIs)
		return unwatched{cred}, func() error { return nil }, err
	}
	s, err := p.gateway.Open(gateway.SessionOptions{
		Lane:    gateway.Lane{Job: run.Job, Step: run.Step, Attempt: run.Attempt},
		Limits:  gateway.Limits{CostUSD: run.Config.MaxCostUSD, Tokens: run.Config.MaxTokens, Unanswered: run.Config.MaxUnanswered, Budgets: budgets(run.Budgets)},
		APIs:    run.APIs,
		BaseURL: run.Config.BaseURL,
		Emit:    run.Emit,
		Waiting: run.Waiting, Deadline: run.Deadline,
	})
	if err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}
