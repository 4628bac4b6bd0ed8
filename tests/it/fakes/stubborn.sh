#!/bin/sh
# An agent that takes no hint: only KILL ends it. It says when it is deaf.
trap '' HUP INT QUIT TERM
echo deaf
while :; do sleep 1; done
