#!/usr/bin/env bash
# Runs the linters, then pytest with the arguments given here (paths are relative to the clone).
# Sets .venv, a browser and the pages of MiniWoB++ up first; where one cannot be had the tests that
# need it are skipped, and with CI=true nothing is run. Torch, with which the tests open our files
# as others will, is skipped everywhere where it cannot be had. Fails if anything failed; the tests
# also run when a linter failed. All tests run in three processes side by side, named ones in one.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"
trap 'exit 130' INT

# Fetches the pages of MiniWoB++, where they are missing.
setup_miniwob() {
    "$venv/bin/python" -m webgym.miniwob --fetch >/dev/null && return
    [ "${CI:-}" != true ] || exit 1
    return 1
}

setup_environment dev
setup_browser || say "Going on without a browser: the tests that need one are skipped."
cd -- "$root"
setup_miniwob || say "Going on without MiniWoB++: the tests that need it are skipped."
# Beside the linters, because it downloads.
scripts/torch_env.sh >/dev/null &
torch=$!
status=0
scripts/lint.sh || status=$?
wait "$torch" || say "Going on without torch: the test that needs it is skipped."
[ $# -gt 0 ] || set -- -n 3 --dist loadgroup
"$venv/bin/python" -m pytest "$@" || status=$?
exit "$status"
