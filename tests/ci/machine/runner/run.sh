#!/usr/bin/env bash
# Stand in for GitHub's runner: wait for the job of the configuration, run it between the two hooks, and end.
# /jobs/NUMBER has what GitHub would send: `script` is the job's code, `variables` and `event.json` are facts about it.
set -euo pipefail
number=$(base64 --decode <<<"$2")
job=/jobs/$number
until [ -e "$job/script" ]; do sleep 0.05; done
mkdir _work
cd _work
export GITHUB_EVENT_PATH=$job/event.json
set -a
# shellcheck source=/dev/null
. "$job/variables"
set +a
echo "job $number begins"
status=0
if "$ACTIONS_RUNNER_HOOK_JOB_STARTED"; then bash "$job/script" || status=$?; else status=refused; fi
"$ACTIONS_RUNNER_HOOK_JOB_COMPLETED"
echo "job $number ends: $status"
