# Runs the script of an attempt in a pod, as enter.py does, for images with a POSIX shell: MOST PROGRAM ARGUMENT...
most=$1
shift
if [ -f /tickwise/in/work.tar ]; then
  tar -xf /tickwise/in/work.tar -C /tickwise/work || exit 126
fi
"$@" </dev/null &
child=$!
trap 'kill -TERM "$child" 2>/dev/null' TERM
wait "$child" 2>/dev/null
status=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child" 2>/dev/null
  status=$?
done
if [ "$status" = 0 ] && [ -s /tickwise/out/result.json ] && [ ! -L /tickwise/out/result.json ]; then
  mark=$(printf '\036tickwise-result')
  printf '\n'
  head -c "$((most + 1))" /tickwise/out/result.json | base64 | while read -r line; do
    printf '%s:%s\n' "$mark" "$line"
  done
fi
exit "$status"
