#!/usr/bin/env bash
# Runs the main job end to end, without a language model: a tool agent in a bundled environment,
# collected and scored (with the overrides given here, such as +num_repeats=2), then web tasks in a
# real browser. Both leave their files in results/ of the working directory, and continue there when
# they were interrupted. Sets .venv up first, and a browser; without one, the web
# tasks are skipped.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

setup_environment base
export PATH=$venv/bin:$PATH

# Shows a command as a person would type it, one override a line, then runs it.
show() {
    local shown='' argument
    for argument in "$@"; do
        case $argument in
            +*[[]*) shown="$shown \\
    \"$argument\"" ;;
            +*) shown="$shown \\
    $argument" ;;
            *) shown="${shown:+$shown }$argument" ;;
        esac
    done
    printf '\n$ %s\n' "$shown" >&2
    "$@"
}

case "$*" in *-h*) exec rollgym demo --help ;; esac

say "This demo needs no language model: small programs play the models."
status=0
# Ctrl-C reaches the running command, which finishes what it does; the demo ends with it.
trap 'interrupted=yes' INT
end_if_interrupted() {
    if [ "$status" -eq 5 ] || [ -n "${interrupted-}" ]; then
        say "The demo was interrupted. make demo continues it."
        exit 5
    fi
}

show ng_collect_rollouts \
    "+config_paths=[responses_api_models/scripted_model/configs/scripted_model.yaml,resources_servers/example_multi_step/configs/example_multi_step.yaml]" \
    +agent_name=example_multi_step_simple_agent \
    +input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl \
    +output_jsonl_fpath=results/demo_multi_step_rollouts.jsonl \
    +num_repeats=8 \
    +num_samples_in_parallel=4 \
    +policy_model.responses_api_models.scripted_model.latency=0.05 \
    "$@" || status=$?
end_if_interrupted

if setup_browser; then
    end_if_interrupted
    show python "$(dirname -- "${BASH_SOURCE[0]}")/rollout.py" --config-name demo || status=$?
    end_if_interrupted
else
    end_if_interrupted
    say "The web tasks of the demo need a browser, so they are skipped."
fi
say ""
say "To view the rollouts in a browser: $venv/bin/rollgym view results"
exit "$status"
