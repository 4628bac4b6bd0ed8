#!/bin/sh
# An agent at a terminal: answers each line, says its size when asked and each interrupt.
trap 'echo interrupted' INT
echo ready
while :; do
    if read -r line; then
        case $line in
            size) echo "size $(stty size)" ;;
            quit) exit 0 ;;
            *) echo "got $line" ;;
        esac
    fi
done
