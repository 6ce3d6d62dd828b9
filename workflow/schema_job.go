package workflow

// jobBlocks are a job and what stands in it beside steps.
func jobBlocks() []block {
	const (
		at     = "jobs.<job_id>."
		sample = "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], %s}}\n"
		call   = "uses: ./.github/workflows/b.yml"
		own    = "runs-on: x, steps: [{run: a}], "
	)
	under := func(key string) string {
		return "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], " + key + ": {%s}}}\n"
	}
	job := block{name: "job", title: "a job", sample: sample, keys: []key{
		{name: "name", shape: text(), place: at + "name", example: `"Test ${{ github.ref }}"`, doc: "Shown in place of the id; matrix values are put behind it."},
		{name: "needs", shape: oneOrMore(filled()), example: "[]", doc: "Ids of the jobs that must have ended first."},
		{name: "if", shape: text(), place: at + "if", example: "github.ref == 'refs/heads/main'", doc: "Whether it runs; `success()` where nothing is said."},
		{name: "runs-on", shape: either(filled(), listOf(filled()), in("runs-on")), place: at + "runs-on", inert: true, example: "ubuntu-latest", without: "runs-on: x, ", doc: "GitHub's runner. Here a job runs in boxes of this machine, or on it."},
		{name: "env", shape: mapOf(text()), place: at + "env", example: "{A: b}", doc: "Variables of its steps."},
		{name: "defaults", shape: in("job defaults"), example: "{run: {shell: bash}}", doc: "What its steps have that do not say otherwise."},
		{name: "strategy", shape: in("strategy"), example: "{matrix: {os: [a, b]}}", doc: "Several runs of the job with other values."},
		{name: "continue-on-error", shape: boolean(), place: at + "continue-on-error", example: "true", doc: "Whether the run goes on well when it fails."},
		{name: "timeout-minutes", shape: number(), place: at + "timeout-minutes", example: "30", doc: "After that it is cancelled; fractions work."},
		{name: "cancel-timeout-minutes", shape: number(), place: at + "timeout-minutes", inert: true, example: "5", doc: "How long GitHub waits for a cancelled job."},
		{name: "concurrency", shape: either(filled(), in("concurrency")), place: at + "concurrency", example: "deploy", doc: "Jobs of one group wait for each other, on one machine."},
		{name: "budget", shape: in("budget"), ours: true, place: at + "budget", example: "{max-tokens: 500000}", doc: "What the agents of a job, or of one leg of its matrix, together may spend."},
		{name: "outputs", shape: mapOf(text()), place: at + "outputs", example: `{x: "${{ github.ref }}"}`, doc: "What jobs that need it can read, at most 1 MiB each."},
		{name: "environment", shape: either(filled(), in("environment")), place: at + "environment", inert: true, example: "production", doc: "GitHub's deployment environment."},
		{name: "permissions", shape: either(oneOf("read-all", "write-all"), in("permissions")), inert: true, example: "{contents: read}", doc: "What GitHub's token may do."},
		{name: "container", shape: either(filled(), in("container")), place: at + "container", example: "node:22", doc: "GitHub's container of a job; write `docker: {image: …}`."},
		{name: "services", shape: mapOf(either(filled(), in("service"))), place: at + "services", example: "{db: postgres}", doc: "Containers beside a job."},
		{name: "snapshot", shape: either(filled(), in("snapshot")), inert: true, example: "image", doc: "GitHub makes a runner image of the job's machine."},
		{name: "steps", shape: shape{kind: listShape, of: &shape{kind: blockShape, block: "step"}, least: 1}, example: "[{run: a}]", without: "steps: [{run: a}], ", doc: "What it does, see [steps](#a-step)."},
		{name: "uses", shape: filled(), example: "./.github/workflows/b.yml", without: own, doc: "A reusable workflow in place of `steps`."},
		{name: "with", shape: mapOf(text()), place: at + "with", example: "{a: b}", beside: call, without: own, doc: "Its inputs."},
		{name: "secrets", shape: either(oneOf("inherit"), mapOf(text())), place: at + "secrets", example: "inherit", beside: call, without: own, doc: "Its secrets."},
	}}
	job.keys = append(job.keys, boxKeys("job")...)
	return []block{
		job,
		{name: "runs-on", title: "`runs-on`", sample: "on: push\njobs: {a: {steps: [{run: a}], runs-on: {%s}}}\n", keys: []key{
			{name: "group", shape: filled(), place: at + "runs-on", inert: true, example: "large", doc: "A runner group; `organization/` or `enterprise/` may stand before it."},
			{name: "labels", shape: oneOrMore(filled()), place: at + "runs-on", inert: true, example: "[self-hosted, linux]", doc: "Labels of runners."},
		}},
		{name: "strategy", title: "`strategy`", sample: under("strategy"), keys: []key{
			{name: "matrix", shape: in("matrix"), place: at + "strategy", example: "{os: [a, b]}", doc: "One run of the job for each combination, at most 256; the first key varies slowest."},
			{name: "fail-fast", shape: boolean(), place: at + "strategy", example: "false", doc: "Whether a failure cancels the others; true where nothing is said."},
			{name: "max-parallel", shape: number(), place: at + "strategy", example: "2", doc: "How many run at once."},
		}},
		{name: "matrix", title: "`matrix`", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], strategy: {matrix: {b: [c], %s}}}}\n", free: &shape{kind: listShape, of: &shape{kind: anyShape}, least: 1}, keys: []key{
			{name: "include", shape: listOf(mapOf(free())), place: at + "strategy", example: "[{b: c, d: e}]", doc: "Values added to combinations, or further combinations."},
			{name: "exclude", shape: listOf(mapOf(free())), place: at + "strategy", example: "[]", doc: "Combinations to leave out; parts of one match."},
		}},
		{name: "environment", title: "`environment`", sample: under("environment"), keys: []key{
			{name: "name", shape: text(), required: true, place: at + "environment", inert: true, example: "production", doc: "Its name."},
			{name: "url", shape: text(), place: at + "environment.url", inert: true, example: "https://example.com", beside: "name: p", doc: "Shown at GitHub."},
			{name: "deployment", shape: boolean(), place: at + "environment", inert: true, example: "false", beside: "name: p", doc: "Whether GitHub makes a deployment of it."},
		}},
		{name: "snapshot", title: "`snapshot`", sample: under("snapshot"), keys: []key{
			{name: "image-name", shape: filled(), required: true, inert: true, example: "image", doc: "Its name."},
			{name: "version", shape: filled(), inert: true, example: "1.*", beside: "image-name: i", doc: "Its version."},
			{name: "if", shape: text(), place: at + "snapshot.if", inert: true, example: "github.ref == 'x'", beside: "image-name: i", doc: "Whether it is made."},
		}},
		{name: "container", title: "`container`", sample: under("container"), keys: containerKeys()},
		{name: "service", title: "a service", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], services: {s: {%s}}}}\n", keys: append(containerKeys(),
			key{name: "entrypoint", shape: text(), place: at + "services", example: "/bin/db", beside: "image: x", doc: "In place of the image's own."},
			key{name: "command", shape: text(), place: at + "services", example: "serve", beside: "image: x", doc: "In place of the image's own."})},
		{name: "credentials", title: "`credentials`", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a}], container: {image: x, credentials: {%s}}}}\n", keys: []key{
			{name: "username", shape: filled(), place: at + "container.credentials", example: "me", doc: "Of the registry."},
			{name: "password", shape: filled(), place: at + "container.credentials", example: `"${{ secrets.P }}"`, doc: "Of the registry."},
		}},
	}
}

func containerKeys() []key {
	const at = "jobs.<job_id>.container"
	return []key{
		{name: "image", shape: filled(), required: true, place: at, example: "node:22", doc: "The image."},
		{name: "credentials", shape: in("credentials"), place: at + ".credentials", example: "{username: a, password: b}", beside: "image: x", doc: "For a registry that asks."},
		{name: "env", shape: mapOf(text()), place: at + ".env", example: "{A: b}", beside: "image: x", doc: "Its variables."},
		{name: "ports", shape: listOf(filled()), place: at, example: "[80]", beside: "image: x", doc: "Ports to publish."},
		{name: "volumes", shape: listOf(filled()), place: at, example: "[/a:/b]", beside: "image: x", doc: "Volumes to mount."},
		{name: "options", shape: text(), place: at, example: "--cpus 1", beside: "image: x", doc: "Options of `docker create`."},
	}
}
