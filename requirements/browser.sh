#!/bin/sh
# Copies the browser's libraries from npm to where the pages serve them from. usage: sh requirements/browser.sh
#
# The versions and their hashes are in requirements/browser/package-lock.json, which npm checks. Nothing of a package is
# run. Without npm the pages work and are not live: that is said, and is no failure.
set -eu
vendor=src/tickwise/web/static/vendor
stamp=$vendor/.installed

fingerprint=$(cat requirements/browser/package-lock.json requirements/browser.sh | cksum)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$fingerprint" ]; then
    exit 0
fi
if ! command -v npm >/dev/null 2>&1; then
    echo 'npm is not here, so the pages are not live: they show what is so when they are loaded. With npm (on Debian: apt install npm), call make setup again.' >&2
    exit 0
fi
echo 'Copying the libraries of the pages from npm …'
npm ci --prefix requirements/browser --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
mkdir -p "$vendor"
cp requirements/browser/node_modules/htmx.org/dist/htmx.min.js "$vendor/htmx.min.js"
cp requirements/browser/node_modules/htmx.org/LICENSE "$vendor/htmx.LICENSE"
printf '%s\n' "$fingerprint" >"$stamp"
