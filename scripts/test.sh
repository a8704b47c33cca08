#!/usr/bin/env bash
# Runs the linters, then pytest with the arguments given here (paths are relative to the clone).
# Sets up .venv, a browser and the pages of MiniWoB++ first. Without a browser or the pages the tests
# that need them are skipped; with CI=true nothing runs then. Fails if anything failed; the tests also
# run when a linter failed. Named files and folders run in one process, all tests in three. No
# process that the linters or tests started survives this script.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"
trap 'exit 130' INT

# Fetches the pages of MiniWoB++ if they are missing.
setup_miniwob() {
    "$venv/bin/python" -m webgym.miniwob --fetch >/dev/null && return
    [ "${CI:-}" != true ] || exit 1
    return 1
}

# Whether one of the arguments is a file or a folder, or a test in one.
names_tests() {
    local argument
    for argument in "$@"; do
        [ ! -e "${argument%%::*}" ] || return 0
    done
    return 1
}

setup_environment dev
setup_browser || say "Going on without a browser: the tests that need one are skipped."
cd -- "$root"
setup_miniwob || say "Going on without MiniWoB++: the tests that need it are skipped."
linters=(scripts/lint.sh)
if ! names_tests "$@"; then
    set -- -n 3 --dist loadgroup "$@"
    # In a new clone one process compiles the tests while the linters run; otherwise three would.
    if ! [ -d tests/__pycache__ ] && ! [ -d "$venv/bytecode" ]; then
        linters=(bash -c '"$@" >/dev/null 2>&1 & scripts/lint.sh; status=$?; wait; exit $status'
            - "$venv/bin/python" -m pytest --collect-only -q)
    fi
fi
exec "$venv/bin/python" scripts/supervise.py "${linters[@]}" -- "$venv/bin/python" -m pytest "$@"
