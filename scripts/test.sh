#!/usr/bin/env bash
# Runs the linters, then pytest with the arguments given here (paths are relative to the clone).
# Sets .venv up first. Fails if anything failed; the tests also run when a linter failed.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"
trap 'exit 130' INT

setup_environment dev
cd -- "$root"
status=0
scripts/lint.sh || status=$?
"$venv/bin/python" -m pytest "$@" || status=$?
exit "$status"
