"""Spawning and ending, against the floor: the bare tmux split in the same run (goals P3, P7).

Usage: spawn.py THRONG. Prints one table; times are wall-clock milliseconds, medians of several runs.
"""
import contextlib
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

THRONG = os.path.abspath(sys.argv[1])
ROUNDS = 5


def main():
    root = tempfile.mkdtemp(prefix="throng-bench.", dir="/tmp")
    env = {
        "HOME": root,
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "CLAUDE_CONFIG_DIR": f"{root}/claude",
        "THRONG_STATE_DIR": f"{root}/state",
        "XDG_RUNTIME_DIR": f"{root}/run",
    }
    os.makedirs(f"{root}/run", mode=0o700)
    try:
        floor = bare_split(root, env)
        print(f"bare tmux split-window of `sleep`: {floor:.1f} ms each")
        print(f"{'backend':12}{'members':>8}{'all ready, ms':>16}{'ms a member':>14}{'of the split':>14}{'down, ms':>12}")
        # Outside tmux the first member waits for the start of a server, as no bare split does.
        for kind in ["process", "tmux", "inside tmux"]:
            for count in [1, 8, 32, 50]:
                with server(root, env, f"users{count}", kind == "inside tmux") as place:
                    ready, down = team(root, env | place, kind.split()[-1], count)
                each = ready / count
                print(f"{kind:12}{count:8}{ready:16.1f}{each:14.1f}{each / floor:13.2f}x{down:12.1f}")
    finally:
        shutil.rmtree(root)


def bare_split(root, env):
    """Median time of a split, on a server of its own, with room for each."""
    tmux = ["tmux", "-u", "-S", f"{root}/floor", "-f", "/dev/null"]
    subprocess.run([*tmux, "new-session", "-d", "-x", "200", "-y", "50", "sleep", "600"], env=env, check=True)
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        split = [*tmux, "split-window", "-d", "-P", "-F", "#{pane_id}", "--", "sleep", "600"]
        subprocess.run(split, env=env, check=True, stdout=subprocess.DEVNULL)
        times.append(1000 * (time.perf_counter() - begun))
        subprocess.run([*tmux, "select-layout", "tiled"], env=env, check=True)
    subprocess.run([*tmux, "kill-server"], env=env, check=True)
    return statistics.median(times)


@contextlib.contextmanager
def server(root, env, name, is_wanted):
    """A user's server, and what tells a program that it is in its first pane."""
    if not is_wanted:
        yield {}
        return
    tmux = ["tmux", "-u", "-S", f"{root}/{name}", "-f", "/dev/null"]
    subprocess.run([*tmux, "new-session", "-d", "-x", "200", "-y", "50", "sleep", "600"], env=env, check=True)
    yield {"TMUX": f"{root}/{name},1,0", "TMUX_PANE": "%0"}
    subprocess.run([*tmux, "kill-server"], env=env, check=True)


def team(root, env, backend, count):
    """Medians: from the team's birth to its last member's readiness, by the event log; and of `down`."""
    file = f"{root}/team.toml"
    with open(file, "w") as out:
        print(f'[team]\nname = "bench"\nplacement = "pane"\n[limits]\nagents = {count}', file=out)
        for i in range(count):
            print(f'[[member]]\nname = "m{i}"\ncommand = ["sleep", "600"]', file=out)
    ready, down = [], []
    for _ in range(ROUNDS):
        up = [THRONG, "up", file, "--backend", backend, "--json"]
        subprocess.run(up, env=env, check=True, stdout=subprocess.DEVNULL)
        with open(f"{root}/state/teams/bench/events.jsonl") as log:
            events = [json.loads(line) for line in log]
        begun = moment(next(e for e in events if e["event"] == "team_started"))
        ended = [moment(e) for e in events if e["event"] == "member_ready"]
        assert len(ended) == count, f"{len(ended)} of {count} were ready"
        ready.append(1000 * (max(ended) - begun))
        begun = time.perf_counter()
        subprocess.run([THRONG, "down", "bench"], env=env, check=True, stdout=subprocess.DEVNULL)
        down.append(1000 * (time.perf_counter() - begun))
        subprocess.run([THRONG, "gc"], env=env, check=True, stdout=subprocess.DEVNULL)
    return statistics.median(ready), statistics.median(down)


def moment(event):
    return datetime.datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()


main()
