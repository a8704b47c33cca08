#!/usr/bin/env bash
# Runs the training loop: for each iteration a training rollout, then every K iterations a test
# rollout, with commands that start and stop the model's server around them. Sets up .venv first.
#
# <save path>/loop/ has one file for each finished rollout with its exit status, so an interrupted
# loop continues where it stopped. Failed (3) or omitted (4) rollouts do not stop the loop; any other
# exit status does.
#
# Needs bash 3.2 or newer, which is what macOS ships.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<'USAGE'
usage: scripts/run.sh --iterations N --save-path FOLDER [OPTION …] [-- KEY=VALUE …]

Run N iterations, each with a training rollout, and test rollouts. The same
command continues an interrupted loop.

  --iterations N        number of iterations
  --save-path FOLDER    folder for all output files
  --data-path FOLDER    folder with the task files
  --first N             number of the first iteration (default: 0)
  --test-every K        test rollout after every K-th iteration; 0: none (default: 1)
  --start-model CMD     bash command before the rollouts of an iteration, with
                        ITERATION and SAVE_PATH in its environment; it may
                        return while the server is still starting
  --stop-model CMD      bash command after the rollouts, and when the loop stops
  -- KEY=VALUE …        settings of every rollout (python scripts/rollout.py --help)

exit status: 0 every rollout is completed, 3 some failed, 4 some were omitted,
otherwise that of the rollout that stopped the loop (5 interrupted, 6 refused,
7 the disk failed), 2 wrong use
USAGE
}

wrong_use() {
    say "run.sh: $*; see --help"
    exit 2
}

is_number() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }

# Prints KEY='VALUE' as an override, with any characters in the value.
override() {
    local quote="'" value=$2
    value=${value//$quote/\\$quote}
    printf '%s=%s%s%s\n' "$1" "$quote" "$value" "$quote"
}

# Runs one of the user's commands; $1 describes it.
run_command() {
    local what=$1 command=$2 status=0
    [ -n "$command" ] || return 0
    say "run.sh: iteration $iteration: $what"
    ITERATION=$iteration SAVE_PATH=$save_path bash -c "$command" </dev/null || status=$?
    [ "$status" = 0 ] || say "run.sh: $what ended with status $status: $command"
    return "$status"
}

start_model_server() {
    [ -z "$model_is_up" ] || return 0
    model_is_up=yes
    run_command 'starting the model' "$start_model"
}

stop_model_server() {
    [ -n "$model_is_up" ] || return 0
    model_is_up=
    run_command 'stopping the model' "$stop_model"
}

# Rolls out the split $1 of this iteration, unless it is done. Exits where the loop must stop.
roll_out() {
    local split=$1 status=0
    local done_file=$save_path/loop/$split.iteration$iteration.rank${RANK:-${SLURM_PROCID:-0}}
    if [ -s "$done_file" ]; then
        status=$(cat "$done_file")
        say "run.sh: iteration $iteration: $split is done already (exit status $status)"
    else
        start_model_server || exit 1
        "$venv/bin/python" "$root/scripts/rollout.py" --config-name "rollout_$split" \
            "$(override save_path "$save_path")" "iteration=$iteration" \
            ${overrides[@]+"${overrides[@]}"} || status=$?
        case $status in
            0 | 3 | 4) ;;
            *)
                say "run.sh: iteration $iteration: $split ended with status $status. The loop stops;" \
                    "the same command continues it."
                exit "$status"
                ;;
        esac
        mkdir -p "$save_path/loop"
        printf '%s\n' "$status" >"$done_file.new" && mv -f "$done_file.new" "$done_file"
    fi
    # Failed rollouts count more than omitted ones.
    [ "$status" = 3 ] || [ "$worst" = 3 ] || [ "$status" = 0 ] || worst=$status
    [ "$status" != 3 ] || worst=3
}

iterations='' save_path='' data_path='' start_model='' stop_model=''
first=0 test_every=1 iteration=0 model_is_up='' worst=0
overrides=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --)
            shift
            overrides=("$@")
            break
            ;;
        --iterations | --save-path | --data-path | --first | --test-every | --start-model | --stop-model)
            [ $# -gt 1 ] || wrong_use "$1 needs a value"
            name=${1#--}
            printf -v "${name//-/_}" '%s' "$2"
            shift 2
            ;;
        *) wrong_use "unknown option $1" ;;
    esac
done
[ -n "$save_path" ] || wrong_use '--save-path is missing'
is_number "$iterations" || wrong_use '--iterations needs a number'
is_number "$first" || wrong_use '--first needs a number'
is_number "$test_every" || wrong_use '--test-every needs a number'

# A model's server takes minutes to load; the user's overrides come later and win.
[ -z "$start_model" ] || overrides=(env_config.startup_timeout=1800 ${overrides[@]+"${overrides[@]}"})
[ -z "$data_path" ] || overrides=("$(override data_path "$data_path")" ${overrides[@]+"${overrides[@]}"})

setup_environment base
trap 'stop_model_server || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
last=$((first + iterations - 1))
for ((iteration = first; iteration <= last; iteration++)); do
    roll_out train
    if [ "$test_every" -gt 0 ] && [ $(((iteration + 1) % test_every)) = 0 ]; then
        roll_out test
    fi
    stop_model_server || exit 1
done
say "run.sh: iterations $first to $last are done (exit status $worst)"
exit "$worst"
