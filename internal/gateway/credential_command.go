package gateway

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/herd-runner/herd-runner/runtimes"
)

// Bounds of a command that prints a credential.
const (
	commandTime   = 30 * time.Second
	commandOutput = 64 << 10 // bytes
	// commandRest is how long after a failure it is not asked again: all agents
	// wait for its answer.
	commandRest = 5 * time.Second
)

// CredentialCommand is a program of the operator's that prints a credential: a
// password manager, a broker of short-lived tokens.
type CredentialCommand struct {
	Argv []string      // no shell
	Kind string        // APIKey or OAuth
	Keep time.Duration // how long what it printed is used before it is asked again
}

// FromCommands asks the command of an API where there is one, else source. What
// a command printed is kept in memory only. It runs in this process's
// environment, for 30 seconds at most; what it prints to stderr is shown where
// it fails.
func FromCommands(commands map[string]CredentialCommand, clock func() time.Time, source CredentialSource) CredentialSource {
	kept := map[string]*printed{}
	for api, c := range commands {
		kept[api] = &printed{command: c, api: api, clock: clock}
	}
	return func(ctx context.Context, api string) (Credential, error) {
		if p := kept[api]; p != nil {
			return p.credential(ctx)
		}
		return source(ctx, api)
	}
}

// printed is what a command said, and when.
type printed struct {
	command CredentialCommand
	api     string
	clock   func() time.Time

	mu   sync.Mutex
	last Credential
	err  error
	at   time.Time
}

func (p *printed) credential(ctx context.Context) (Credential, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := p.clock().Sub(p.at)
	if p.err != nil && age < commandRest || p.last.Value != "" && age < p.command.Keep {
		return p.last, p.err
	}
	p.last, p.err = p.ask(context.WithoutCancel(ctx)) // it is asked for all agents
	p.at = p.clock()
	return p.last, p.err
}

func (p *printed) ask(ctx context.Context) (Credential, error) {
	value, err := p.command.run(ctx)
	if err != nil {
		return Credential{}, err
	}
	c := Credential{Kind: p.command.Kind, Value: value, Origin: p.command.name()}
	if c.Kind == OAuth && p.api == runtimes.APIAnthropic {
		c.Beta = oauthBeta
	}
	if err := c.check(); err != nil {
		return Credential{}, err
	}
	return c, nil
}

func (c CredentialCommand) name() string { return fmt.Sprintf("the command %q", c.Argv[0]) }

// run gives what the command prints, without the space around it.
func (c CredentialCommand) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	out, words := &bounded{max: commandOutput}, &bounded{max: commandOutput}
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, words
	cmd.WaitDelay = time.Second // what it left behind may hold its output open
	fail := func(problem string) (string, error) {
		return "", &CredentialError{Problem: c.name() + " gives no credential: " + problem, Hint: "run it by hand; policy.yml names it under credentials:"}
	}
	err := cmd.Run()
	value := strings.TrimSpace(string(out.kept))
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fail(fmt.Sprintf("it did not end within %s", commandTime))
	case err != nil:
		return fail(strings.TrimSuffix(fmt.Sprintf("%v: %s", err, lastLine(string(words.kept))), ": "))
	case value == "":
		return fail("it printed nothing")
	case out.over || strings.ContainsAny(value, "\r\n"):
		return fail("it printed more than one line")
	}
	return value, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return cutText(text[strings.LastIndexByte(text, '\n')+1:], 300)
}

// bounded keeps the first bytes and takes the rest.
type bounded struct {
	max  int
	kept []byte
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.max - len(b.kept)
	b.over = b.over || len(p) > room
	b.kept = append(b.kept, p[:min(len(p), room)]...)
	return len(p), nil
}
