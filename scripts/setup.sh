#!/usr/bin/env bash
# Makes .venv, the virtual environment of this clone, and keeps it up to date.
#
# Other scripts source this file and call `setup_environment base` (what running needs) or
# `setup_environment dev` (that, and the tools for tests and linting); then `setup_browser`, where
# web pages are to be opened (see browser.sh), or `setup_model`, where the bundled language model is
# to run (see model.sh). It can also be run: `scripts/setup.sh dev`, `scripts/setup.sh browser` or
# `scripts/setup.sh model`.
#
# The stamp .venv/setup.stamp says what the environment was made for, in one line: base or dev,
# a hash of pyproject.toml, the Python version, the clone's path. It is written last, so an
# interrupted set-up has no stamp and the next run makes the environment again. When it matches
# nothing is done or printed. Installers write to .venv/setup.log.
#
# Needs bash 3.2 or newer, which is what macOS ships.

set -euo pipefail

root=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
stamp=$venv/setup.stamp
log=$venv/setup.log
python= # set by find_python

say() { printf '%s\n' "$*" >&2; }

# Prints the version of the Python $1 and its real path (outside any virtual environment).
# Fails if it does not run, printing nothing, or is too old, printing the version all the same.
probe_python() {
    "$1" -I -c 'import sys
print("%d.%d.%d %s" % (sys.version_info[:3] + (getattr(sys, "_base_executable", ""),)))
sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Sets python to the first Python that will do: $PYTHON if that is set, else from PATH.
find_python() {
    local name candidates candidate probed found=''
    if [ -n "${PYTHON:-}" ]; then
        set -- "$PYTHON"
    else
        set -- python3 python3.14 python3.13 python3.12 python3.11
    fi
    for name in "$@"; do
        candidates=$(type -aP -- "$name") || continue
        while IFS= read -r candidate; do
            if probed=$(probe_python "$candidate"); then
                python=${probed#* }
                return
            fi
            probed=${probed%% *}
            found="$found, $candidate (${probed:-does not run})"
        done <<<"$candidates"
    done
    found=${found#, }
    say "rollgym needs Python 3.11 or newer. Looked for: $*. Found: ${found:-none}."
    say "Install one (Debian, Ubuntu: apt-get install python3 python3-venv; macOS: brew install"
    say "python), or name one: PYTHON=/path/to/python3.12 $0"
    return 1
}

# Prints the stamp that .venv must have now, without its first word. Fails if .venv's Python does not
# run, is too old, or is not really inside .venv (packages would land elsewhere).
fingerprint() {
    "$venv/bin/python" -I -c 'import hashlib, os, sys
root, venv = sys.argv[1:]
if sys.version_info < (3, 11) or not os.path.samefile(sys.prefix, venv):
    sys.exit(1)
with open(os.path.join(root, "pyproject.toml"), "rb") as file:
    digest = hashlib.sha256(file.read()).hexdigest()
print(digest, "%d.%d.%d" % sys.version_info[:3], root)' "$root" "$venv" 2>/dev/null
}

# Whether .venv, of fingerprint $1, runs the Python version that $PYTHON asks for, if it does.
is_wanted_version() {
    local probed version=${1#* }
    [ -n "${PYTHON:-}" ] || return 0
    probed=$(probe_python "$PYTHON") && [ "${probed%% *}" = "${version%% *}" ]
}

# Whether .venv has what $1 (base or dev) needs. Dev includes base.
is_current() {
    local now
    [ -f "$stamp" ] && now=$(fingerprint) && is_wanted_version "$now" || return 1
    case $(cat "$stamp") in
        "dev $now") return 0 ;;
        "base $now") [ "$1" = base ] ;;
        *) return 1 ;;
    esac
}

# Whether packages can be installed into .venv as it is: one that was finished for this Python
# and this path, or one that was made by hand (it has no setup.log).
is_reusable() {
    local now made_for
    now=$(fingerprint) && is_wanted_version "$now" || return 1
    if [ -f "$stamp" ]; then
        made_for=$(cat "$stamp")
        [ "${made_for#* * }" = "${now#* }" ]
    else
        [ ! -e "$log" ]
    fi
}

# Takes the lock for set-ups of this clone, which lives as long as file descriptor 9 is open
# here or in an installer: nothing is left behind by a process that died.
lock_environment() {
    mkdir -p "$venv"
    exec 9>"$venv/setup.lock"
    "$python" -I -c 'import fcntl, sys, time
deadline = time.monotonic() + 900
waiting = False
while True:
    try:
        fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
        break
    except BlockingIOError:
        if not waiting:
            print("Waiting for another set-up of .venv to finish ...", file=sys.stderr)
            waiting = True
        if time.monotonic() > deadline:
            sys.exit("Another set-up of .venv is still running after 15 minutes. Stop it, then "
                     "run this again.")
        time.sleep(0.1)'
}

unlock_environment() { exec 9>&-; }

# Makes sure that what $1 checks is there: $2 provides it, under the lock, unless another set-up did
# so while this one waited.
provide_once() {
    local status=0
    "$1" && return
    python=${python:-$venv/bin/python}
    lock_environment || exit 1
    "$1" || "$2" || status=$?
    unlock_environment
    return "$status"
}

# Runs an installer, quietly: no terminal, no questions, all output to the log.
logged() {
    printf '\n$ %s\n' "$*" >>"$log"
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0 "$@" </dev/null >>"$log" 2>&1
}

# Shows what went wrong: the log's last errors, or its last lines if none is called that.
show_log() {
    local lines
    lines=$(grep -iE 'error:|could not' "$log" | tail -n 5) || lines=$(tail -n 5 "$log")
    printf '%s\n' "$lines" | cut -c 1-300 | sed 's/^ */  | /' >&2
}

has_uv() { command -v uv >/dev/null 2>&1; }

create_environment() {
    find "$venv/" -mindepth 1 -maxdepth 1 ! -name setup.lock ! -name browser -exec rm -rf {} +
    : >"$log"
    if has_uv && logged uv venv --allow-existing --python "$python" "$venv"; then
        return
    fi
    # Without pip, because on Debian a Python without python3-venv can do that much.
    logged "$python" -m venv --without-pip "$venv"
}

# Runs pip for .venv: its own, or the one of the Python that made it.
run_pip() {
    if logged "$venv/bin/python" -m pip --version; then
        logged "$venv/bin/python" -m pip "$@"
    else
        logged "$python" -m pip --python "$venv/bin/python" "$@"
    fi
}

# Makes run_pip work. Fails with a message that names what is missing.
provide_pip() {
    local package
    run_pip --version && return
    logged "$venv/bin/python" -m ensurepip && return
    package=python$("$python" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
    case $python in
        /usr/bin/*)
            if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
                say "This Python has no pip: installing the package $package with apt-get ..."
                logged apt-get update || true
                logged env DEBIAN_FRONTEND=noninteractive apt-get install -y "$package" &&
                    logged "$venv/bin/python" -m ensurepip && return
            fi
            say "$python has neither pip nor ensurepip. Install the package $package"
            say "(Debian, Ubuntu: sudo apt-get install $package), then run this again."
            ;;
        *)
            say "$python has neither pip nor ensurepip. Install uv or pip for it, or name another"
            say "Python: PYTHON=/path/to/python3 $0"
            ;;
    esac
    return 1
}

# Installs what $1 (base or dev) needs into .venv. Fails with a message.
install_packages() (
    project=.
    [ "$1" = base ] || project=".[$1]"
    cd -- "$root" || return
    if has_uv; then
        logged uv pip install --python "$venv/bin/python" -e "$project" && return
        say "uv could not install the packages; trying pip ..."
    fi
    provide_pip || return
    run_pip install -e "$project" && return
    say "Could not install the packages of .venv:"
    show_log
    say "If it could not reach a package index, check the network, or set PIP_INDEX_URL to an"
    say "index that this machine can reach; then run this again. Full log: $log"
    return 1
)

# Writes the stamp that says .venv has what $1 (base or dev) needs.
write_stamp() {
    local now
    now=$(fingerprint) || return
    printf '%s %s\n' "$1" "$now" >"$stamp.new" && mv -f "$stamp.new" "$stamp"
}

# Brings an environment that is_reusable up to date. The installers change nothing before they
# have all they need, so after a failure it is what it was.
update_environment() {
    local extras=$1
    case $(cat "$stamp" 2>/dev/null) in
        dev*) extras=dev ;; # what has the dev packages keeps them
    esac
    say "Updating .venv ($extras packages) ..."
    [ ! -f "$stamp" ] || mv -f "$stamp" "$stamp.old"
    if install_packages "$extras"; then
        write_stamp "$extras" && rm -f "$stamp.old"
    else
        [ ! -f "$stamp.old" ] || mv -f "$stamp.old" "$stamp"
        return 1
    fi
}

make_environment() {
    local probed
    probed=$(probe_python "$python")
    say "Setting up .venv (Python ${probed%% *}, $1 packages) ..."
    if ! create_environment; then
        say "Could not make .venv with $python:"
        show_log
        return 1
    fi
    install_packages "$1" && write_stamp "$1"
}

# Makes sure that .venv has what $1 (base or dev) needs. If it cannot, says why and exits with 1.
setup_environment() {
    is_current "$1" && return
    find_python || exit 1
    lock_environment || exit 1
    if is_current "$1"; then
        : # another set-up made it while this one waited
    elif is_reusable; then
        update_environment "$1" || exit 1
    else
        make_environment "$1" || exit 1
    fi
    unlock_environment
}

. "$root/scripts/browser.sh"
. "$root/scripts/model.sh"

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    case ${1:-dev} in
        base | dev) setup_environment "${1:-dev}" ;;
        browser)
            setup_environment base
            rm -f "$browser_stamp" # look again, and fetch again
            setup_browser
            ;;
        model)
            setup_environment base
            rm -f "$model_stamp" # try again
            setup_model
            ;;
        *)
            say "usage: scripts/setup.sh [base|dev|browser|model]"
            exit 2
            ;;
    esac
fi
