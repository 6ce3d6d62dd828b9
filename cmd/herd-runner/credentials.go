package main

import (
	"cmp"
	"os"
	"time"

	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/internal/policy"
)

// credentials are the operator's: what the policy's commands print, else the
// environment's and the logins of the vendors' own programs.
func (a *App) credentials(rules *policy.Policy) gateway.CredentialSource {
	home, _ := os.UserHomeDir()
	commands := map[string]gateway.CredentialCommand{}
	for api, c := range rules.Credentials() {
		command := gateway.CredentialCommand{Argv: c.Command, Kind: cmp.Or(c.Kind, gateway.APIKey), Keep: 5 * time.Minute}
		if c.Minutes != nil {
			command.Keep = time.Duration(*c.Minutes * float64(time.Minute))
		}
		commands[api] = command
	}
	return gateway.FromCommands(commands, a.Now, gateway.FromEnvironment(a.Getenv, home))
}

// ownCredentials are those of the user's own policy file, where no run is.
func (a *App) ownCredentials() (gateway.CredentialSource, error) {
	rules, err := policy.Load(userConfigFile("policy.yml"), nil)
	if err != nil {
		return nil, problem("%w", err)
	}
	return a.credentials(rules), nil
}
