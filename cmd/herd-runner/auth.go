package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/herd-runner/herd-runner/internal/event"
	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/runtimes"
	"github.com/herd-runner/herd-runner/steps"
	"github.com/herd-runner/herd-runner/workflow"
)

// unwatched stands for the gateway's session of an agent that calls its model's
// vendor itself: it has the real credential, answers nobody and has seen nothing.
type unwatched struct{ credential runtimes.Credential }

func (u unwatched) Credential() runtimes.Credential { return u.credential }
func (unwatched) Serve(conn net.Conn)               { _ = conn.Close() }
func (unwatched) View() runtimes.GatewayView        { return runtimes.GatewayView{} }

// ownCredential is the real one of docker.auth "env" or "mount", a secret of the
// run from now on.
func (p *prepared) ownCredential(auth string, apis []string) (runtimes.Credential, error) {
	if p.flags.replay != "" || p.flags.replayOrRecord != "" || p.flags.record != "" {
		return runtimes.Credential{}, fmt.Errorf("docker.auth: %s has the agent call its model's vendor itself, past the gateway that records and replays: use auth: gateway, or run without --record and --replay", auth)
	}
	getenv := p.app.Getenv
	if auth == "mount" {
		home, _ := os.UserHomeDir()
		cred, token, err := gateway.LoginForAgent(getenv, home)
		mask(p.masker, token)
		return cred, err
	}
	return gateway.ForAgent(context.Background(), p.credentials, getenv, apis[0])
}

// auth checks how an agent gets its credential, where that is not by the gateway.
func (c *stepCheck) auth(d workflow.Docker, rt runtimes.Runtime, cfg runtimes.Config) {
	if !steps.Direct(d.Auth) {
		return
	}
	if _, ok := c.policy.Allows("auth:" + d.Auth); !ok {
		return // told with the block
	}
	at := c.step.Docker.Get("auth")
	if err := steps.CheckAuth(d, rt.Describe(), cfg); err != nil {
		c.add(at, err, "")
		return
	}
	if _, err := c.ownCredential(d.Auth, rt.Describe().APIsFor(cfg)); err != nil {
		c.add(at, err, event.HintOf(err))
	}
}
