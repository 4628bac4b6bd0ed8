#!/bin/sh
# An agent that leaves a process behind in a session of its own, as a daemon does. The file $1 gets its pid.
setsid sh -c 'sleep 600 & echo $! >"$1.part"; mv "$1.part" "$1"; wait' daemon "$1" </dev/null >/dev/null 2>&1 &
while [ ! -s "$1" ]; do sleep 0.01; done
echo "left $(cat "$1") behind"
[ "${2:-stay}" = go ] || sleep 600
