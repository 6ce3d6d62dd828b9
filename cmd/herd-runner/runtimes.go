package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/herd-runner/herd-runner/internal/gateway"
	"github.com/herd-runner/herd-runner/runtimes"
)

func (a *App) runtimesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "runtimes",
		Short: "Show the runtimes, what each can do, and which credentials there are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			factory, err := newFactory()
			if err != nil {
				return infra(err)
			}
			credentials, err := a.ownCredentials()
			if err != nil {
				return err
			}
			list := describeRuntimes(cmd.Context(), factory, credentials)
			if asJSON {
				enc := json.NewEncoder(a.Stdout)
				enc.SetIndent("", "  ")
				err = enc.Encode(list)
			} else {
				err = printRuntimes(a.Stdout, list)
			}
			if err != nil {
				return infra(err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

// runtimeList is `runtimes --json`.
type runtimeList struct {
	Runtimes    []runtimeEntry             `json:"runtimes"`
	Credentials map[string]credentialEntry `json:"credentials"` // by API
}

type runtimeEntry struct {
	Type     string                    `json:"type"`
	Engine   string                    `json:"engine"`
	APIs     []string                  `json:"apis"` // its own first
	Features map[runtimes.Feature]bool `json:"features"`
}

// credentialEntry is empty but for Problem where there is none.
type credentialEntry struct {
	Kind    string `json:"kind,omitempty"`
	Origin  string `json:"origin,omitempty"`
	Basis   string `json:"basis,omitempty"` // what the work is paid by
	Problem string `json:"problem,omitempty"`
}

func describeRuntimes(ctx context.Context, factory *runtimes.Factory, credentials gateway.CredentialSource) runtimeList {
	list := runtimeList{Credentials: map[string]credentialEntry{}}
	for _, d := range factory.All() {
		entry := runtimeEntry{Type: d.Type, Engine: d.Engine, APIs: d.APIs(), Features: map[runtimes.Feature]bool{}}
		for _, f := range runtimes.Features() {
			entry.Features[f] = d.Has(f)
		}
		list.Runtimes = append(list.Runtimes, entry)
		for _, api := range entry.APIs {
			if _, asked := list.Credentials[api]; !asked {
				list.Credentials[api] = credentialOf(ctx, credentials, api)
			}
		}
	}
	return list
}

func credentialOf(ctx context.Context, credentials gateway.CredentialSource, api string) credentialEntry {
	c, err := credentials(ctx, api)
	if err != nil {
		return credentialEntry{Problem: err.Error()}
	}
	basis := "API rates"
	if c.Kind == gateway.OAuth {
		basis = "subscription"
	}
	return credentialEntry{Kind: c.Kind, Origin: c.Origin, Basis: basis}
}

// printRuntimes has a column for each runtime and a row for each feature.
func printRuntimes(out io.Writer, list runtimeList) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(first string, cell func(runtimeEntry) string) {
		cells := []string{first}
		for _, r := range list.Runtimes {
			cells = append(cells, cell(r))
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	row("", func(r runtimeEntry) string { return r.Type + "/" + r.Engine })
	row("api", func(r runtimeEntry) string {
		if len(r.APIs) > 2 {
			return "any"
		}
		return strings.Join(r.APIs, ",")
	})
	for _, f := range runtimes.Features() {
		row(string(f), func(r runtimeEntry) string {
			if r.Features[f] {
				return "yes"
			}
			return "-"
		})
	}
	fmt.Fprintln(w)
	for _, api := range sortedKeys(list.Credentials) {
		c := list.Credentials[api]
		if c.Problem != "" {
			fmt.Fprintf(w, "credential\t%s\tnone: %s\n", api, c.Problem)
			continue
		}
		fmt.Fprintf(w, "credential\t%s\t%s from %s, %s\n", api, c.Kind, c.Origin, c.Basis)
	}
	return w.Flush()
}
