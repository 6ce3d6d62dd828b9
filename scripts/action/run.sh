#!/usr/bin/env bash
# Second step of the action: runs the workflow and hands on how it ended.
set -euo pipefail

# What is written here may hold secrets: only for us, and gone afterwards.
umask 077
work=$(mktemp -d "$RUNNER_TEMP/herd-runner-run.XXXXXX")
trap 'rm -rf "$work"' EXIT
result=$work/result.json
printf '%s\n' "$HERD_INPUTS" >"$work/inputs.env"
printf '%s\n' "$HERD_SECRETS" >"$work/secrets.env"

args=(run -C "$GITHUB_WORKSPACE/$HERD_WORKING_DIRECTORY"
  --inputs-file "$work/inputs.env" --secret-file "$work/secrets.env"
  --result-file "$result" --summary-file "$GITHUB_STEP_SUMMARY")
case $HERD_WORKING_DIRECTORY in /*) args[2]=$HERD_WORKING_DIRECTORY ;; esac
if [ -n "$HERD_REPLAY" ]; then args+=(--replay "$HERD_REPLAY"); fi
while IFS= read -r rule; do
  if [ -n "$rule" ]; then args+=(--allow "$rule"); fi
done < <(printf '%s\n' "$HERD_ALLOW" | tr ',' '\n' | tr -d ' ')
while IFS= read -r arg; do
  if [ -n "$arg" ]; then args+=("$arg"); fi
done <<<"$HERD_ARGS"

# The workflow's steps are not to see what the action was given.
unset HERD_INPUTS HERD_SECRETS
code=0
"$HERD_RUNNER" "${args[@]}" -- "$HERD_WORKFLOW" || code=$?

# field EXPRESSION: of the result, as text. Our own evaluator: a runner need not
# have jq.
field() {
  local json
  json=$("$HERD_RUNNER" eval --context "$result" -- "format('{0}', $1)")
  json=${json#\"}
  printf '%s' "${json%\"}"
}

if [ -s "$result" ]; then
  {
    echo "run-id=$(field run_id)"
    echo "conclusion=$(field conclusion)"
    echo "cost-usd=$(field cost_usd)"
  } >>"$GITHUB_OUTPUT"
else
  # Nothing was started: a problem in the file, its inputs or the policy.
  echo "conclusion=failure" >>"$GITHUB_OUTPUT"
fi
exit "$code"
