#!/bin/sh
# Writes its arguments, each ended by NUL, to the file $ARGV_OUT.
printf '%s\0' "$@" >"$ARGV_OUT.part"
mv "$ARGV_OUT.part" "$ARGV_OUT"
