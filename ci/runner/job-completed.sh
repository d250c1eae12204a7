#!/usr/bin/env bash
# The runner's hook after a job (ACTIONS_RUNNER_HOOK_JOB_COMPLETED). The results of the job stay valid, so this hook only
# prints that the machine is no longer clean. Directly afterwards root runs "hygiene after", which takes it out of service.
set -uo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
if ! "$here/hygiene" look; then
    echo "::warning::this machine takes no further job unless it recovers within a moment"
fi
