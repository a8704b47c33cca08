#!/usr/bin/env bash
# Runs the main job end to end with a real language model that runs on this machine: a tool agent in a
# bundled environment, collected and scored (with the overrides given here, such as +num_repeats=4),
# then web tasks in a real browser. Both leave their files in results/ of the working directory, and
# continue there when they were interrupted. Sets .venv up first, the model, and a browser; without a
# browser, the web tasks are skipped.
#
# With --scripted, or ROLLGYM_DEMO=scripted, small programs play the models; so they do where the model
# cannot be installed. That way is the same on every machine and takes seconds.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<'USAGE'
usage: scripts/demo.sh [--scripted] [+OPTION=VALUE …]

Collect small sets of rollouts with a small language model on this machine: a
tool agent (with the options given here), then web tasks in a real browser.

  --scripted    small programs play the models; also ROLLGYM_DEMO=scripted

The options are those of ng_collect_rollouts. The same command again continues
the runs in results/.
USAGE
}

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

status=0
end_if_interrupted() {
    if [ "$status" -eq 5 ] || [ -n "${interrupted-}" ]; then
        say "The demo was interrupted. make demo continues it."
        exit 5
    fi
}

collect_with_model() {
    show ng_collect_rollouts \
        "+config_paths=[responses_api_models/embedded_model/configs/embedded_model.yaml,resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml]" \
        +agent_name=example_single_tool_call_simple_agent \
        +input_jsonl_fpath=resources_servers/example_single_tool_call/data/example.jsonl \
        +output_jsonl_fpath=results/demo_single_tool_call_rollouts.jsonl \
        +num_repeats=2 \
        +num_repeats_add_seed=true \
        +num_samples_in_parallel=4 \
        "$@"
}

collect_with_script() {
    show ng_collect_rollouts \
        "+config_paths=[responses_api_models/scripted_model/configs/scripted_model.yaml,resources_servers/example_multi_step/configs/example_multi_step.yaml]" \
        +agent_name=example_multi_step_simple_agent \
        +input_jsonl_fpath=resources_servers/example_multi_step/data/example.jsonl \
        +output_jsonl_fpath=results/demo_multi_step_rollouts.jsonl \
        +num_repeats=8 \
        +num_samples_in_parallel=4 \
        +policy_model.responses_api_models.scripted_model.latency=0.05 \
        "$@"
}

# Whether the web tasks can run: their browser is there, and with the model the pages of MiniWoB++.
setup_web() {
    setup_browser || return
    [ "$kind" = scripted ] || python -m webgym.miniwob --fetch >>"$log" 2>&1
}

kind=${ROLLGYM_DEMO:-model}
if [ "${1-}" = --scripted ]; then
    kind=scripted
    shift
fi
case " $* " in *' -h '* | *' --help '*)
    usage
    exit 0
    ;;
esac

setup_environment base
export PATH=$venv/bin:$PATH
# Ctrl-C reaches the running command, which finishes what it does; the demo ends with it.
trap 'interrupted=yes' INT
if [ "$kind" != scripted ] && ! setup_model; then
    kind=scripted
fi
end_if_interrupted

if [ "$kind" = scripted ]; then
    say "This demo needs no language model: small programs play the models."
    collect_with_script "$@" || status=$?
    set -- demo
else
    say "The model is SmolLM2-135M-Instruct, on this machine's processor. It is real and very small (135"
    say "million parameters): expect it to look up the weather every time, to report it correctly in less"
    say "than half of the rollouts, and to click the right one of a few buttons most of the time."
    collect_with_model "$@" || status=$?
    set -- small_model iteration=0
fi
end_if_interrupted

if setup_web; then
    end_if_interrupted
    show python "$(dirname -- "${BASH_SOURCE[0]}")/rollout.py" --config-name "$@" || status=$?
    end_if_interrupted
else
    end_if_interrupted
    say "The web tasks of the demo need a browser and their pages, so they are skipped."
fi
say ""
say "To view the rollouts in a browser: $venv/bin/rollgym view results"
exit "$status"
