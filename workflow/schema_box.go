package workflow

// boxBlocks are our `runtime` and `docker`.
func boxBlocks() []block {
	const at = "jobs.<job_id>.steps."
	rt := func(name string, s shape, example, doc string) key {
		return key{name: name, shape: s, ours: true, place: at + "runtime", example: example, doc: doc}
	}
	// The sample of a key of engine `command` is one of that engine.
	ofCommand := func(name string, s shape, example, doc string) key {
		k := rt(name, s, example, "Of `engine: command`. "+doc)
		k.beside = "engine: command, command: [my-agent], api: openai"
		switch name {
		case "command":
			k.beside = "engine: command, api: openai"
		case "prompt":
			k.beside = "engine: command, command: [my-agent, '{0}'], api: openai"
			k.example = "file"
		case "api":
			k.beside = "engine: command, command: [my-agent]"
		}
		return k
	}
	dk := func(name string, s shape, example, doc string) key {
		return key{name: name, shape: s, ours: true, place: at + "docker", example: example, doc: doc}
	}
	size, either1 := either(filled(), number()), oneOrMore(text())
	return []block{
		{name: "runtime", title: "`runtime`", doc: "Short form: `runtime: sdk`.", sample: "on: push\njobs: {a: {runs-on: x, steps: [{id: review, prompt: a, workspace: ro}, {prompt: a, workspace: ro, runtime: {%s}}]}}\n", keys: []key{
			rt("type", oneOf("auto", "cli", "sdk"), "cli", "An agent's command-line program, herd-runner's own loop over a vendor's SDK, or what fits, see [runtimes.md](runtimes.md#auto)."),
			rt("engine", filled(), "claude", "Which agent. `cli`: `claude`, `codex`, `gemini`, `opencode`, or `command` for any program; `sdk`: `anthropic`, `openai`, `gemini`."),
			rt("model", filled(), "sonnet", "The model's name."),
			rt("fallback-model", filled(), "haiku", "Asked where the first is overloaded."),
			rt("max-turns", number(), "20", "Answers of the model, at most."),
			rt("max-cost-usd", number(), "1.5", "Budget of one attempt in US dollars, kept by the gateway."),
			rt("max-tokens", number(), "200000", "Budget of one attempt in tokens, kept by the gateway."),
			rt("max-unanswered", number(), "100", "Requests to the model in a row that bring no answer, after which the gateway ends the agent; 50 where it is not said."),
			rt("stall-minutes", number(), "30", "Minutes without output, model traffic and a file written in HOME after which it is ended as `stalled`; 10 where it is not said. Fractions work."),
			rt("system-prompt", text(), "You review.", "In place of the runtime's own."),
			rt("append-system-prompt", text(), "Be brief.", "Behind the runtime's own."),
			rt("allowed-tools", either1, "[read, grep]", "Tools it may use without asking."),
			rt("denied-tools", either1, "[bash]", "Tools it may not use."),
			rt("permission-mode", filled(), "acceptEdits", "As the agent's own program names it."),
			rt("mcp-servers", either(mapOf(free()), filled()), "{git: {command: mcp-git}}", "Servers by name, as in `.mcp.json`."),
			{name: "session", shape: either(filled(), in("session")), ours: true, example: "review", doc: "The step whose conversation it goes on with, see [runtimes.md](runtimes.md#sessions)."},
			rt("output-schema", either(mapOf(free()), filled()), "{type: object, properties: {tests: {type: array}}}", "A JSON Schema of an object: the answer is data, and each property an output."),
			rt("env", mapOf(text()), "{A: b}", "Variables of the agent's process."),
			rt("args", either1, "[--verbose]", "Further flags of the agent's program."),
			ofCommand("command", either1, "[my-agent, --fast]", "The program and its arguments; never a shell. {0} in one is the prompt's file."),
			ofCommand("prompt", oneOf("stdin", "file"), "stdin", "How it gets the prompt; `stdin` where nothing is said."),
			ofCommand("output", oneOf("text", "json-lines"), "text", "What it prints: its answer (where nothing is said), or records."),
			ofCommand("api", oneOrMore(oneOf("anthropic", "openai", "gemini")), "openai", "What it speaks to the model gateway."),
			rt("base-url", filled(), "https://example.com/v1", "Where the API is instead of its vendor's place, for endpoints that speak the same one. Your credential goes there: needs `--allow base-url:URL`."),
		}},
		{name: "session", title: "`session`", doc: "Short form: `session: STEP` for `resume`. A step is named by its id, in a job of `needs` as `JOB/STEP`. At steps only.", sample: "on: push\njobs: {a: {runs-on: x, steps: [{id: review, prompt: a, workspace: ro}, {prompt: a, workspace: ro, runtime: {session: {%s}}}]}}\n", keys: []key{
			{name: "resume", shape: filled(), ours: true, example: "review", doc: "Goes on with the conversation itself, under its id. One step at most does so."},
			{name: "fork", shape: filled(), ours: true, example: "review", doc: "Goes on with a copy of it under an id of its own, as often as you like."},
		}},
		{name: "docker", title: "`docker`", doc: "Short forms: `docker: IMAGE`, and `docker: false` for the host, which the operator must allow.", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a, docker: {%s}}]}}\n", keys: []key{
			dk("image", filled(), "node:22", "The image."),
			dk("pull", oneOf("always", "missing", "never"), "missing", "When it is pulled."),
			dk("memory", size, "2g", "Memory, at least 6m; a number without a unit is bytes."),
			dk("cpus", number(), "1.5", "Processors, fractions allowed."),
			dk("cpu-shares", number(), "512", "Weight against other boxes, 2 to 262144."),
			dk("cpu-period", number(), "100000", "Microseconds, 1000 to 1000000."),
			dk("cpu-quota", number(), "50000", "Microseconds of each period, from 1000."),
			dk("pids-limit", number(), "200", "Processes and threads, at most."),
			dk("network", either(oneOf("none", "bridge", "host"), in("network")), "none", "`bridge`, `none` (no network but the model gateway), `host`, or the hosts that may be reached, see [network.md](network.md)."),
			dk("user", filled(), `"1000:1000"`, "uid:gid, or `root`."),
			dk("volumes", either1, "[./cache:/cache:ro]", "`host:container[:ro|rw]`."),
			dk("tmpfs", either(oneOrMore(filled()), mapOf(size)), "[/scratch:size=64m]", "Directories in memory."),
			dk("env", mapOf(text()), "{A: b}", "Variables of every process in the box."),
			dk("labels", mapOf(text()), "{team: a}", "Labels of the container."),
			dk("ports", oneOrMore(either(filled(), number())), "[8080:80]", "Ports to publish, `[ip:][host:]container[/tcp|udp]`."),
			dk("ulimits", either(mapOf(either(number(), in("ulimit"))), oneOrMore(filled())), "{nofile: 1024}", "Limits by name, as of `ulimit`."),
			dk("shm-size", size, "64m", "Of /dev/shm."),
			dk("read-only", boolean(), "true", "Whether the image's files can not be changed."),
			dk("ephemeral", boolean(), "true", "Whether the box is removed when it is done; `false` keeps it, stopped, to look at."),
			dk("reuse", boolean(), "false", "`true` keeps the box and starts it again in the next run: what is in HOME and in the image's files stays."),
			dk("max-containers", number(), "4", "How many boxes of a step are kept, the newest; 5 where it is not said."),
			dk("oci-runtime", filled(), "runsc", "Such as gVisor's `runsc`."),
			dk("auth", oneOf("gateway", "env", "mount"), "gateway", "How an agent gets its credential: `gateway` keeps it out of the box; `env` and `mount` (the login of its own program) bring it in and need the operator's word, see [gateway.md](gateway.md#the-credential-in-the-box)."),
			dk("host-config", mapOf(free()), "{OomScoreAdj: 100}", "Docker's own HostConfig; needs the operator's word."),
			dk("privileged", boolean(), "false", "Needs the operator's word."),
		}},
		{name: "workspace", title: "`workspace`", doc: "Short form: `workspace: isolated`. The nearest is taken as a whole.", sample: "on: push\njobs: {b: {steps: [{run: a, workspace: isolated}]}, a: {needs: b, steps: [{run: a}], workspace: {%s}}}\n", keys: []key{
			{name: "mode", shape: oneOf("shared", "ro", "isolated", "copy"), required: true, ours: true, place: at + "workspace", example: "isolated", doc: "As the short form."},
			{name: "merge", shape: oneOrMore(filled()), ours: true, example: "[b]", beside: "mode: isolated", doc: "Jobs of `needs` whose work the clone begins with; what does not go together fails the first step, with the files and both jobs."},
			{name: "push", shape: filled(), ours: true, example: "origin", beside: "mode: isolated", doc: "A remote of the repository that the branch is pushed to once the job or step has succeeded; needs the operator's word."},
		}},
		{name: "network", title: "`network`", doc: "Short form: `network: none`.", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a, docker: {network: {%s}}}]}}\n", keys: []key{
			dk("mode", oneOf("none", "bridge", "host"), "bridge", "As the short form."),
			dk("allow", oneOrMore(filled()), "[github.com, '*.npmjs.org']", "Hosts, with their port where it is not 443 or 80."),
			dk("gateway", boolean(), "false", "`false`: not even the model gateway."),
		}},
		{name: "ulimit", title: "a ulimit", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a, docker: {ulimits: {nofile: {%s}}}}]}}\n", keys: []key{
			{name: "soft", shape: number(), required: true, ours: true, place: at + "docker", example: "1024", beside: "hard: 2048", doc: "Until a process raises it."},
			{name: "hard", shape: number(), required: true, ours: true, place: at + "docker", example: "2048", beside: "soft: 1024", doc: "At most."},
		}},
	}
}
