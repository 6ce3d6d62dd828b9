package workflow

// stepBlocks are a step and what stands in it.
func stepBlocks() []block {
	const at = "jobs.<job_id>.steps."
	const alone = "run: a, "
	step := block{name: "step", title: "a step", doc: "A step runs a script (`run`), asks an agent (`prompt`, `prompt-file`), or orders other steps (`wait`, `wait-all`, `cancel`, `parallel`).",
		sample: "on: push\njobs: {a: {runs-on: x, steps: [{id: before, background: true, run: b}, {run: a, %s}]}}\n", keys: []key{
			{name: "id", shape: filled(), example: "find", doc: "What expressions call it: letters, digits, `-` and `_`, a letter or `_` first, at most 99 characters."},
			{name: "name", shape: text(), place: at + "name", example: `"Test ${{ github.ref }}"`, doc: "Shown in place of its first line."},
			{name: "if", shape: text(), place: at + "if", example: "always()", doc: "Whether it runs; `success()` where nothing is said."},
			{name: "run", shape: text(), place: at + "run", example: `echo "$HOME"`, without: alone, doc: "A script."},
			{name: "prompt", shape: filled(), ours: true, place: at + "prompt", example: "List the flaky tests.", without: alone, doc: "What the agent shall do."},
			{name: "prompt-file", shape: filled(), ours: true, place: at + "prompt-file", example: "prompts/review.md", without: alone, doc: "A file of the project with the prompt; expressions in the file stay as they are."},
			{name: "uses", shape: filled(), example: "./action", without: alone, doc: "An action in place of a script."},
			{name: "with", shape: mapOf(text()), place: at + "with", example: "{a: b}", beside: "uses: ./action", without: alone, doc: "Its inputs."},
			{name: "env", shape: mapOf(text()), place: at + "env", example: "{A: b}", doc: "Variables of this step."},
			{name: "shell", shape: filled(), place: at + "shell", example: "bash", doc: "What runs the script: `bash`, `sh`, `python`, `node`, `pwsh`, or a command line with `{0}` for its file."},
			{name: "working-directory", shape: text(), place: at + "working-directory", example: "src", doc: "Where the script starts, from the project's top."},
			{name: "timeout-minutes", shape: number(), place: at + "timeout-minutes", example: "0.5", doc: "After that it has failed; fractions work."},
			{name: "continue-on-error", shape: boolean(), place: at + "continue-on-error", example: "true", doc: "Whether the job goes on well when it fails."},
			{name: "retry", shape: either(number(), in("retry")), ours: true, place: at + "retry", example: "{max: 2, on: [rate_limited]}", doc: "How often, and after which causes, it is tried again."},
			{name: "budget", shape: in("budget"), ours: true, place: at + "budget", example: "{max-turns: 30}", beside: "prompt: a", without: alone, doc: "What the agent, or those of the action, may spend in all attempts."},
			{name: "needs", shape: oneOrMore(filled()), ours: true, example: "[]", doc: "Steps of this job to start after, in place of the step before; `[]` starts with the job."},
			{name: "background", shape: boolean(), example: "true", doc: "Whether the next step starts without waiting for it."},
			{name: "wait", shape: oneOrMore(filled()), example: "before", without: alone, doc: "Waits for background steps; nothing else may stand beside it but `id`, `name`, `if`."},
			{name: "wait-all", shape: either(null(), boolean()), example: "~", without: alone, doc: "Waits for all background steps so far."},
			{name: "cancel", shape: filled(), example: "before", without: alone, doc: "Ends a background step; that is no failure."},
			{name: "parallel", shape: shape{kind: listShape, of: &shape{kind: blockShape, block: "step"}, least: 1}, example: "[{run: a}, {run: b}]", without: alone, doc: "Steps that start together; the next step waits for all of them."},
		}}
	step.keys = append(step.keys, boxKeys("step")...)
	return []block{step,
		{name: "budget", title: "`budget`", doc: "Of a workflow, a job or a step; the gateway keeps it, see [budgets.md](budgets.md). In a workflow and a job expressions see less, as their own `budget` says.", sample: "on: push\njobs: {a: {runs-on: x, steps: [{prompt: a, budget: {%s}}]}}\n", keys: []key{
			{name: "max-cost-usd", shape: number(), ours: true, place: at + "budget", example: "1.5", doc: "US dollars at API rates; models without a known price are refused."},
			{name: "max-tokens", shape: number(), ours: true, place: at + "budget", example: "200000", doc: "Tokens of all kinds, cached ones too."},
			{name: "max-requests", shape: number(), ours: true, place: at + "budget", example: "100", doc: "Requests to the model, failed ones too."},
			{name: "max-turns", shape: number(), ours: true, place: at + "budget", example: "30", doc: "Answers of the model."},
		}},
		{name: "retry", title: "`retry`", doc: "Short form: `retry: 2`.", sample: "on: push\njobs: {a: {runs-on: x, steps: [{run: a, retry: {%s}}]}}\n", keys: []key{
			{name: "max", shape: number(), required: true, ours: true, place: at + "retry", example: "2", doc: "How many attempts may follow the first."},
			{name: "on", shape: oneOrMore(oneOf(retryCauses()...)), ours: true, place: at + "retry", example: "[rate_limited, stalled]", beside: "max: 1", doc: "After which causes; `rate_limited`, `stalled` and `infrastructure` where nothing is said."},
		}},
	}
}
