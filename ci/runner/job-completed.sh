#!/usr/bin/env bash
# The runner's hook after a job (ACTIONS_RUNNER_HOOK_JOB_COMPLETED). What the job found out stays valid, so a machine that
# is no longer clean only says so here; right afterwards root's own look takes it out of service.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if ! "$here/hygiene" look; then
    echo "::warning::this machine takes no further job unless it recovers within a moment"
fi
