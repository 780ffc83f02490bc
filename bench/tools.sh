#!/bin/sh
# Brings wrk, the client of case T3, if it is not installed: Debian's or Ubuntu's package, unpacked into bench/.tools,
# which needs no rights and changes nothing else. Without it a client in Python takes its place, and the result says so.
set -u
cd "$(dirname "$0")" || exit 1
if command -v wrk >/dev/null || [ -x .tools/usr/bin/wrk ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    echo 'wrk is not installed, and this is no Debian: T3 uses a client in Python (https://github.com/wg/wrk has wrk).' >&2
    exit 0
fi
mkdir -p .tools && cd .tools || exit 1
for attempt in first second; do
    if apt-get download -q wrk libluajit-5.1-2 >/dev/null 2>&1; then
        for package in *.deb; do
            dpkg -x "$package" . && rm "$package"
        done
        exit 0
    fi
    # Only root may fetch the lists of packages, if there are none yet.
    [ "$attempt" = first ] && [ "$(id -u)" = 0 ] && apt-get update -q >/dev/null 2>&1
done
echo 'The package wrk cannot be downloaded: T3 uses a client in Python.' >&2
