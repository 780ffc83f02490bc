#!/bin/sh
# Makes the virtual environment and installs the locked requirements and this project into it.
# usage: sh requirements/install.sh VENV STAMP
#
# The stamp holds a checksum of all that decides the outcome (lock files, project file, this script, the folder:
# an environment does not survive being moved). While it matches, there is nothing to do.
set -eu
venv=$1
stamp=$2

fingerprint=$({ pwd; cat requirements/uv.txt requirements/dev.txt pyproject.toml sdk/pyproject.toml requirements/install.sh; } | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$fingerprint" ] && "$venv/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    found=
    # A name may exist and still not run (version managers leave shims), so each is asked.
    for candidate in ${PYTHON:-} python3.13 python3.12 python3.11 python3 python; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            found=$candidate
            break
        fi
    done
    if [ -z "$found" ]; then
        echo 'Tickwise needs Python 3.11 or newer with its venv module (on Debian: apt install python3-venv).' >&2
        echo 'Name one with `make setup PYTHON=/path/to/python3`.' >&2
        exit 1
    fi
    echo "Making $venv with $("$found" --version) …"
    rm -rf "$venv"
    "$found" -m venv "$venv"
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
echo 'Installing the locked requirements …'
"$venv/bin/python" -m pip install --quiet --require-hashes -r requirements/uv.txt
# Compiled now, so that no command pays for it later, also where programs may not write beside their sources.
# uv is several times faster, but does not read pip's configuration (mirrors, certificates): pip is the second try.
UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS-true} "$venv/bin/uv" pip install --quiet --compile-bytecode \
    --python "$venv/bin/python" --require-hashes -r requirements/dev.txt 2>"$venv/uv.log" || {
    echo "uv could not (see $venv/uv.log); pip takes longer …"
    "$venv/bin/python" -m pip install --quiet --require-hashes -r requirements/dev.txt
}
# hatchling is among the locked requirements, so the build needs nothing from outside.
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable ./sdk --editable .
"$venv/bin/python" -m compileall -q src sdk/src
printf '%s\n' "$fingerprint" >"$stamp"
