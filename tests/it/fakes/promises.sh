#!/bin/sh
# An agent that agrees to its end, tells the leader so, and goes on.
trap 'throng send lead "shutdown approved"' TERM
echo listening
while :; do sleep 0.1; done
