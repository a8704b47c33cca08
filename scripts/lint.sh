#!/usr/bin/env bash
# Runs every linter, also after one has failed. Sets .venv up first.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"
trap 'exit 130' INT

failed=
check() { "$@" || failed="$failed, ${*#"$venv/bin/"}"; }

setup_environment dev
cd -- "$root"
check "$venv/bin/ruff" check
check "$venv/bin/ruff" format --check
check "$venv/bin/python" -m mypy
check "$venv/bin/lint-imports"
if [ -n "$failed" ]; then
    say "Linting failed: ${failed#, }"
    exit 1
fi
