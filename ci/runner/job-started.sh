#!/usr/bin/env bash
# The runner's hook before a job (ACTIONS_RUNNER_HOOK_JOB_STARTED). It checks where the job comes from, and whether the
# machine is clean. It runs as the account of the jobs, so it decides about this job and changes nothing on the machine.
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
"$here/admit"
"$here/hygiene" look
