#!/bin/sh
# Fails when a file system is fuller than a limit, so that the failed run tells somebody.
#
#   tickwise run examples/disk_usage.sh --every 10m --param limit=90 --param path=/
#
# A shell script finds its parameters as JSON in TICKWISE_PAYLOAD. `sed` takes out a number or a word without quotes;
# where jq is installed: limit=$(printf '%s' "$TICKWISE_PAYLOAD" | jq -r '.limit // 90').
set -eu

parameter() {
    printf '%s' "${TICKWISE_PAYLOAD:-}" | sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p"
}

limit=$(parameter limit)
path=$(parameter path)
used=$(df -P "${path:-/}" | awk 'NR == 2 { sub("%", "", $5); print $5 }')

echo "${path:-/} is ${used} % full, the limit is ${limit:-90} %."
printf '{"used_percent": %s}' "$used" >"${TICKWISE_RESULT_FILE:-/dev/null}"
[ "$used" -le "${limit:-90}" ]
