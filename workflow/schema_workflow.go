package workflow

// workflowBlocks are the file itself and what stands both there and in jobs.
func workflowBlocks() []block {
	const (
		file    = "on: push\n%s\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n"
		inJob   = "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], %s}}\n"
		topEnv  = "env"
		topRuns = "defaults.run"
	)
	return []block{
		{name: "workflow", title: "a workflow", sample: file, keys: []key{
			{name: "name", shape: text(), place: "name", example: "Flaky tests", doc: "Shown in place of the file's name."},
			{name: "description", shape: text(), inert: true, example: "What it does", doc: "For people who read the file."},
			{name: "run-name", shape: text(), place: "run-name", example: `"Deploy ${{ github.ref }}"`, doc: "The name of a run, in its summary and in `show`."},
			{name: "on", shape: either(oneOf(eventNames()...), listOf(oneOf(eventNames()...)), in("on")), required: true, example: "push", without: "on: push\n", doc: "What starts it, see [`on`](#on)."},
			{name: "permissions", shape: either(oneOf("read-all", "write-all"), in("permissions")), inert: true, example: "{contents: read}", doc: "What GitHub's token may do."},
			{name: "env", shape: mapOf(text()), place: topEnv, example: "{A: b}", doc: "Variables of all steps."},
			{name: "defaults", shape: in("defaults"), example: "{run: {shell: bash}}", doc: "What steps have that do not say otherwise."},
			{name: "concurrency", shape: either(filled(), in("concurrency")), place: "concurrency", example: `"deploy-${{ github.ref }}"`, doc: "Runs of one group wait for each other, on one machine."},
			{name: "budget", shape: in("budget"), ours: true, place: "budget", example: "{max-cost-usd: 5}", doc: "What all its agents together may spend."},
			{name: "jobs", shape: shape{kind: mapShape, of: &shape{kind: blockShape, block: "job"}, least: 1}, required: true, example: "{a: {runs-on: x, steps: [{run: a}]}}", without: "jobs: {a: {runs-on: x, steps: [{run: a}]}}", doc: "The jobs, by id: letters, digits, `-` and `_`, a letter or `_` first, at most 99 characters."},
		}},
		permissionBlock(),
		{name: "defaults", title: "`defaults`", sample: "on: push\ndefaults: {%s}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: append([]key{
			{name: "run", shape: in("defaults.run"), example: "{shell: bash}", doc: "Of `run:` steps."},
		}, boxKeys("steps")...)},
		{name: "defaults.run", title: "`defaults.run`", sample: "on: push\ndefaults: {run: {%s}}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: runDefaultKeys(topRuns)},
		{name: "concurrency", title: "`concurrency`", doc: "In a job expressions see `needs`, `strategy` and `matrix` too.", sample: "on: push\nconcurrency: {%s}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n", keys: []key{
			{name: "group", shape: filled(), required: true, place: "concurrency", example: `"${{ github.ref }}"`, doc: "Who waits for whom; case does not count."},
			{name: "cancel-in-progress", shape: boolean(), place: "concurrency", example: "true", beside: "group: g", doc: "Whether what runs is cancelled in favour of what comes."},
			{name: "queue", shape: oneOf("single", "max"), place: "concurrency", example: "max", beside: "group: g", doc: "`single`: one waits, a newer one takes its place; `max`: all wait in turn. Not `max` together with `cancel-in-progress: true`."},
		}},
		{name: "job defaults", title: "`defaults`", doc: "As of the workflow, for one job.", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], defaults: {%s}}}\n", keys: append([]key{
			{name: "run", shape: in("job defaults.run"), example: "{shell: bash}", doc: "Of `run:` steps."},
		}, boxKeys("steps")...)},
		{name: "job defaults.run", title: "`defaults.run`", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], defaults: {run: {%s}}}}\n", keys: runDefaultKeys("jobs.<job_id>.defaults.run")},
	}
}

func runDefaultKeys(place string) []key {
	return []key{
		{name: "shell", shape: filled(), place: place, example: "bash", doc: "`bash`, `sh`, `python`, `node`, `pwsh`, or a command line with `{0}` for the script's file."},
		{name: "working-directory", shape: filled(), place: place, example: "src", doc: "Where scripts start, from the project's top."},
	}
}

// boxKeys are our three blocks, which merge key by key, the nearest winning.
func boxKeys(of string) []key {
	const place = "jobs.<job_id>.steps."
	return []key{
		{name: "runtime", shape: either(oneOf("cli", "sdk"), in("runtime")), ours: true, place: place + "runtime", example: "{type: cli, engine: claude}", doc: "How agents of the " + of + " are driven."},
		{name: "docker", shape: either(filled(), boolean(), in("docker")), ours: true, place: place + "docker", example: "{memory: 2g, network: none}", doc: "The box of the " + of + "; an image alone; `false` is the host."},
		{name: "workspace", shape: either(oneOf("shared", "ro", "isolated", "copy"), in("workspace")), ours: true, place: place + "workspace", example: "ro", doc: "`shared` (the project itself), `ro` (it, read-only), `isolated` (a clone, its work comes back as a branch), or `copy` (thrown away)."},
	}
}

// permissionLevels gives, for each scope, the levels it knows.
func permissionLevels() map[string][]string {
	levels := map[string][]string{}
	for _, k := range permissionBlock().keys {
		levels[k.name] = k.shape.names
	}
	return levels
}

func permissionBlock() block {
	b := block{name: "permissions", title: "`permissions`", doc: "Or `read-all`, `write-all`, `{}`.",
		sample: "on: push\npermissions: {%s}\njobs: {a: {runs-on: x, steps: [{run: a}]}}\n"}
	for _, scope := range []string{"actions", "artifact-metadata", "attestations", "checks", "code-quality", "contents", "copilot-requests", "deployments",
		"discussions", "drives", "id-token", "issues", "models", "packages", "pages", "pull-requests", "repository-projects",
		"security-events", "statuses", "vulnerability-alerts"} {
		levels := []string{"read", "write", "none"}
		switch scope {
		case "copilot-requests", "id-token":
			levels = []string{"write", "none"}
		case "models", "vulnerability-alerts":
			levels = []string{"read", "none"}
		}
		b.keys = append(b.keys, key{name: scope, shape: oneOf(levels...), inert: true, example: levels[0], doc: "Of GitHub's token."})
	}
	return b
}
