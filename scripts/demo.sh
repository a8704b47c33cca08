#!/usr/bin/env bash
# Runs the main job end to end: `rollgym demo`, with the arguments given here. Sets .venv up first.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

setup_environment base
exec "$venv/bin/rollgym" demo "$@"
