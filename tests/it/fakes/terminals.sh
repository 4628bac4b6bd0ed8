#!/bin/sh
# Says to the file $1 which of its descriptors 0, 1 and 2 are terminals.
answer=''
for fd in 0 1 2; do
    if [ -t "$fd" ]; then answer="$answer$fd:yes "; else answer="$answer$fd:no "; fi
done
printf '%s\n' "$answer" >"$1"
