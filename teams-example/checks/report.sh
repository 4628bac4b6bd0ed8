#!/bin/sh
# The reporter: waits for the checkers, takes one mail from each and writes $THRONG_OUT/report.md.
#
# shellcheck disable=SC1010  # `done` is a verb of throng here
set -eu

report=$THRONG_OUT/report.md
# The report of an earlier run must not pass for ours if we die half-way.
rm -f "$report"

# Ends with 1 if a checker died. What it did not send is found missing below.
throng wait fmt lint tests || true

failing='' table='' sections=''
for check in fmt lint tests; do
    if mail=$(throng inbox take --from "$check"); then
        verdict=$(printf '%s\n' "$mail" | sed -n 1p)
        output=$(printf '%s\n' "$mail" | sed 1d)
    else
        verdict=MISSING
        output="No mail from $check: it ended before it could report."
    fi
    case $verdict in
        PASS) ;;
        FAIL | MISSING) failing="$failing $check" ;;
        *) verdict=UNCLEAR output=$mail failing="$failing $check" ;;
    esac

    # A fence longer than every run of backticks in the output cannot be closed by it.
    fence='```'
    while printf '%s\n' "$output" | grep -qF "$fence"; do
        fence="$fence\`"
    done

    table="$table$(printf '\n| %s | %s |' "$check" "$verdict")"
    sections="$sections$(printf '\n\n## %s\n\n%stext\n%s\n%s' "$check" "$fence" "$output" "$fence")"
done

# A checker that died left its task open and so ours blocked: no claim, but a failure to report.
throng task claim report || failing="$failing (a task is still open)"

if [ -z "$failing" ]; then
    summary='All checks passed.'
else
    summary="Failed:$failing."
fi

cat >"$report" <<END
# Report of the team $THRONG_TEAM

Crate: \`$PWD\`

$summary

| check | verdict |
|---|---|$table$sections
END
cat "$report"

throng send lead "$summary The report is $report"
if [ -z "$failing" ]; then
    throng task done report
else
    throng task done report --failed "$summary"
fi
