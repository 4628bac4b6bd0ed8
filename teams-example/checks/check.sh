#!/bin/sh
# One checker: check.sh CARGO-COMMAND [ARGUMENT...]
#
# Runs the command on the crate in the current directory, mails the finding to `reporter` and closes
# the task that has this member's name.
#
# shellcheck disable=SC1010  # `done` is a verb of throng here
set -eu

throng task claim "$THRONG_AGENT"

# A target directory of its own: no checker waits for another, and none writes into the crate's.
export CARGO_TARGET_DIR="$THRONG_OUT/target-$THRONG_AGENT"
# Plain text for the mail: rustfmt colours even a file unless the terminal is dumb.
export CARGO_TERM_COLOR=never TERM=dumb

# --locked keeps cargo from rewriting the crate's lock file. `cargo fmt` reads none and has no such flag.
if [ "$1" != fmt ] && [ -f Cargo.lock ]; then
    command=$1
    shift
    set -- "$command" --locked "$@"
fi

# A tool that is not installed ends with non-zero like one that found a fault: never a PASS.
log=$THRONG_OUT/$THRONG_AGENT.log
verdict=PASS
cargo "$@" >"$log" 2>&1 || verdict=FAIL
cat "$log"

{
    printf '%s\n$ cargo %s\n' "$verdict" "$*"
    tail -n 40 "$log"
} | throng send reporter -

if [ "$verdict" = PASS ]; then
    throng task done "$THRONG_AGENT"
else
    throng task done "$THRONG_AGENT" --failed "cargo $1 found a fault or did not run: see $log"
fi
