"""Agents of our own as teammates, and the start of the command line (goals P1, P4, P5, P10).

Usage: teammates.py THRONG. A stub answers as the model; times are wall-clock milliseconds of one run.
"""
import ctypes
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

THRONG = os.path.abspath(sys.argv[1])
MESSAGES = 200
TEAM = 200
IDLE_S = 30
IN_MOVED_TO = 0x80


class Model:
    """Answers each request with one word, and notes when its first byte came and what was asked last."""

    def __init__(self):
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        threading.Thread(target=self.serve, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self):
        while True:
            stream, _ = self.listener.accept()
            threading.Thread(target=self.answer, args=(stream,), daemon=True).start()

    def answer(self, stream):
        with stream, stream.makefile("rb") as reader:
            while line := reader.readline():
                at = time.perf_counter()
                length = 0
                while (line := reader.readline().strip()):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = json.loads(reader.read(length))
                self.asked.append((at, body["messages"][-1]["content"][-1].get("text", "")))
                events = [
                    {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {"input_tokens": 9}}},
                    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
                    {"type": "content_block_stop", "index": 0},
                    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
                    {"type": "message_stop"},
                ]
                text = "".join(f"data: {json.dumps(e)}\n\n" for e in events).encode()
                head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(text)}\r\n\r\n"
                stream.sendall(head.encode() + text)


class Renames:
    """When a file of a folder was last replaced, by its name."""

    def __init__(self, folder):
        libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = libc.inotify_init1(0)
        libc.inotify_add_watch(self.descriptor, folder.encode(), IN_MOVED_TO)
        self.at = []
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            data, at = os.read(self.descriptor, 65536), time.perf_counter()
            while data:
                _, _, _, length = struct.unpack_from("iIII", data)
                self.at.append((at, data[16 : 16 + length].rstrip(b"\0").decode()))
                data = data[16 + length :]


def until(what, is_so, within=120):
    end = time.perf_counter() + within
    while not is_so():
        assert time.perf_counter() < end, f"in vain: {what}"
        time.sleep(0.005)


class World:
    def __init__(self, root, model):
        self.root = root
        self.env = {
            "HOME": root,
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "CLAUDE_CONFIG_DIR": f"{root}/claude",
            "THRONG_STATE_DIR": f"{root}/state",
            "XDG_RUNTIME_DIR": f"{root}/run",
            "ANTHROPIC_BASE_URL": model.url(),
            "ANTHROPIC_API_KEY": "none",
        }
        os.makedirs(f"{root}/run", mode=0o700)

    def throng(self, *words, **more):
        return subprocess.run([THRONG, *words], env=self.env, check=True, stdout=subprocess.PIPE, cwd=self.root, **more).stdout

    def up(self, count):
        with open(f"{self.root}/team.toml", "w") as out:
            print(f'[team]\nname = "bench"\nbackend = "process"\n[limits]\nagents = {count}', file=out)
            for i in range(count):
                print(f'[[member]]\nname = "m{i}"\ndriver = "throng"\nmodel = "m"', file=out)
        begun = time.perf_counter()
        self.throng("up", "team.toml")
        return 1000 * (time.perf_counter() - begun)

    def members(self):
        return json.loads(self.throng("status", "--team", "bench", "--json"))["members"]

    def down(self):
        self.throng("down", "bench")
        self.throng("gc")


def kb(pid):
    """Resident and private memory."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    figure = lambda key: int(lines[key].split()[0])
    return figure("Rss"), figure("Private_Clean") + figure("Private_Dirty"), figure("Pss")


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def mail(world, model):
    """P1: from the rename of the inbox until the request has reached the service."""
    renames = Renames(f"{world.root}/claude/teams/bench/inboxes")
    took = []
    for i in range(MESSAGES):
        before, seen = len(model.asked), len(renames.at)
        world.throng("send", "m0", "--team", "bench", f"message {i}.")
        until("it asks", lambda: len(model.asked) > before)
        at = next(at for at, text in model.asked[before:] if f"message {i}." in text)
        # The second one marks it as read.
        sent = next(when for when, name in renames.at[seen:] if name == "m0.json")
        took.append(1000 * (at - sent))
        until("it rests", lambda: world_rests(world))
    took.sort()
    print(f"P1  inbox renamed until the request is at the service, {MESSAGES} messages: "
          f"median {statistics.median(took):.2f} ms, 99 % {took[int(0.99 * len(took)) - 1]:.2f} ms, most {took[-1]:.2f} ms")


def world_rests(world):
    with open(f"{world.root}/claude/teams/bench/inboxes/m0.json") as file:
        is_read = all(entry["read"] for entry in json.load(file))
    with open(f"{world.root}/state/teams/bench/members/m0.json") as file:
        return is_read and json.load(file).get("sight", {}).get("doing") == "idle"


def idle(world):
    """P4: memory and processor time of one that waits."""
    member = world.members()[0]
    pids = [member["pid"], member["tend"]]
    before = [ticks(pid) for pid in pids]
    time.sleep(IDLE_S)
    used = [ticks(pid) - b for pid, b in zip(pids, before)]
    hz = os.sysconf("SC_CLK_TCK")
    for name, pid, n in zip(["agent", "tend"], pids, used):
        rss, private, pss = kb(pid)
        print(f"P4  {name}: resident {rss / 1024:.1f} MB (private {private / 1024:.1f}, shared in proportion {pss / 1024:.1f}), "
              f"{1000 * n / hz:.0f} ms of processor time in {IDLE_S} s")


def start(world):
    """P5: the command line."""
    for words, count in [(["--version"], 200), (["status", "--team", "bench"], 50)]:
        took = []
        for _ in range(count):
            begun = time.perf_counter()
            world.throng(*words)
            took.append(1000 * (time.perf_counter() - begun))
        print(f"P5  throng {' '.join(words)}: median {statistics.median(took):.1f} ms")


def many(world, model):
    """P10: many at once, all of which hear."""
    ready = world.up(TEAM)
    members = world.members()
    assert len(members) == TEAM and all(m["pid"] for m in members)
    total = sum(kb(pid)[2] for m in members for pid in (m["pid"], m["tend"]))
    print(f"P10 {TEAM} agents ready in {ready / 1000:.1f} s, {total / 1024 / 1024:.2f} GB in all (shared in proportion)")
    before = len(model.asked)
    begun = time.perf_counter()
    world.throng("send", "*", "--team", "bench", "to everybody.")
    until("all ask", lambda: len(model.asked) - before >= TEAM)
    print(f"P10 a message to all {TEAM}: the last one asked after {time.perf_counter() - begun:.1f} s; none is deaf")
    start(world)
    world.down()


def main():
    root = tempfile.mkdtemp(prefix="throng-bench.", dir="/tmp")
    print(f"Processors: {os.cpu_count()}, load: {os.getloadavg()[0]:.1f}")
    try:
        model = Model()
        world = World(root, model)
        world.up(1)
        idle(world)
        mail(world, model)
        world.down()
        many(world, model)
    finally:
        shutil.rmtree(root)


main()
