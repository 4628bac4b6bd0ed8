"""scripts/chaos: mail and tasks under fire, counted against a ledger that the parties keep themselves.

Two teams. In `ours` everybody is throng, and everything is killed, suspended and cut off at fault points. In `mixed` (with
npm proper-lockfile only) a foreign writer and a foreign owner take part; there no process is killed outside of the steps
at which its lock is written down, and none is suspended for long: beside npm's unchecked take-over of stale locks nobody
can promise more (protocol I.4), and a run that finds only what is known to be impossible finds nothing.

Exit code 0: all is well; 1: faults, each told; 2: usage. The seed repeats every choice, though not the machine's timing.
"""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ledger as book  # noqa: E402

MARK = "THRONG_CHAOS"
BOXES = ["b0", "b1", "b2", "b3"]
# Steps at which a lock is written down, so that its dead holder is replaced at once.
SIGNED = ["signed", "prepared", "intended", "renamed", "acknowledged"]
LEAD = "team-lead"


class Place:
    """A sealed place: folders, environment, processes."""

    def __init__(self, options):
        self.options = options
        # Directly below /tmp: a socket's path may have 108 bytes only.
        self.root = options.root or tempfile.mkdtemp(prefix="throng-chaos.", dir="/tmp")
        self.id = str(uuid.uuid4())
        for folder in ["home", "claude", "state", "run", "tmp", "ledger", "evidence"]:
            os.makedirs(self.path(folder), mode=0o700)
        self.env = {
            "PATH": os.environ["PATH"], "HOME": self.path("home"), "CLAUDE_CONFIG_DIR": self.path("claude"),
            "THRONG_STATE_DIR": self.path("state"), "XDG_RUNTIME_DIR": self.path("run"), "TMPDIR": self.path("tmp"),
            "LANG": "C.UTF-8", MARK: self.id,
        }

    def path(self, *below):
        return os.path.join(self.root, *below)

    def inbox(self, team, name):
        return self.path("claude", "teams", team, "inboxes", name + ".json")

    def tasks(self, team):
        return self.path("claude", "tasks", team)

    def make_team(self, team, members):
        rows = [{"agentId": f"{name}@{team}", "name": name} for name in [LEAD, *members]]
        config = {"name": team, "createdAt": 1, "leadAgentId": f"{LEAD}@{team}", "leadSessionId": "x", "members": rows}
        os.makedirs(os.path.dirname(self.inbox(team, "x")))
        os.makedirs(self.path("state", "teams", team))
        with open(self.path("claude", "teams", team, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file, indent=2)
        for name in [LEAD, *members]:
            with open(self.inbox(team, name), "w", encoding="utf-8") as file:
                file.write("[]")

    def processes(self):
        """Processes of this place that run, this one's threads not among them."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    is_ours = f"{MARK}={self.id}".encode() in file.read().split(b"\0")
                with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                    state = file.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if is_ours and state not in "ZX":
                found.append(int(pid))
        return found


class Chaos:
    """The parties, and what is common to them."""

    def __init__(self, options):
        self.options = options
        self.place = Place(options)
        self.verdict = book.Verdict()
        self.figures = self.verdict.figures
        self.kills = collections.Counter()
        self.ends = threading.Event()
        self.fire = threading.Event()
        self.lock = threading.Lock()
        self.victims = {}  # pid: (pidfd, role, team)
        self.open_tasks = []
        self.senders_left = 0
        self.over = threading.Event()
        self.fire.set()

    def rng(self, role):
        return random.Random(f"{self.options.seed}/{role}")

    def fault(self, kind, what):
        with self.lock:
            self.verdict.fault(kind, what)

    def count(self, what, by=1):
        with self.lock:
            self.figures[what] += by

    def failed(self, role, what, code, errors):
        """What no party may ever see, whatever is killed around it."""
        if code not in (0, 4, -signal.SIGKILL):
            self.fault("exit code", f"{role}: {' '.join(what)[:200]}: {code}: {errors[-500:]}")
        elif code == 4:
            self.count("gave up on a lock (exit code 4)")
        if "panicked" in errors:
            self.fault("panic", errors[-1000:])

    def throng(self, role, team, args, stdin=None, fault=None, me=None):
        """Runs it, as prey of the killers. Answers exit code, output, errors."""
        env = dict(self.place.env)
        if me:
            env["THRONG_AGENT"] = me
        if fault:
            env["THRONG_FAULT"] = fault
        call = subprocess.Popen(
            [self.options.program, *args, "--team", team], env=env, cwd=self.place.root, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL)
        with self.lock:
            self.victims[call.pid] = (os.pidfd_open(call.pid), role, team)
        try:
            out, errors = call.communicate(stdin)
        finally:
            with self.lock:
                os.close(self.victims.pop(call.pid)[0])
        self.count(f"calls of {role}")
        if call.returncode == -signal.SIGKILL and fault and not fault.startswith("stop@"):
            with self.lock:
                self.kills[f"at {fault}"] += 1
        return call.returncode, out.decode(errors="replace"), errors.decode(errors="replace")

    def fault_point(self, rng, team, steps):
        """A step at which the next call kills or suspends itself, mostly none."""
        if not self.fire.is_set() or rng.random() > 0.06:
            return None
        if team == "ours" and rng.random() < 0.02:
            # Nobody knows whose lock this is: it has to grow stale for 10 s.
            return "locked"
        return rng.choice(["", "", "stop@"]) + rng.choice(steps)

    # Senders.

    def text(self, rng, message):
        size = rng.choice([0, 10, 100, 100, 1000, 1000, 20_000, 70_000 if rng.random() < 0.1 else 10])
        odd = rng.choice(["", "\n", "\"\\", "ü€😀", "{\"type\":\"idle_notification\"}", "]", "\t\x07", "- * @x"])
        return f"{message} {odd}{'x' * size}{odd.strip()}."

    def sender(self, number, team, boxes):
        rng, ledger = self.rng(f"sender{team}{number}"), book.Ledger(self.place.path("ledger"), f"sender-{team}-{number}")
        me, count = f"s{number}", 0
        while not self.ends.is_set():
            count += 1
            to_all = team == "ours" and rng.random() < 0.08
            message = f"{team}-{me}-{count}"
            text = self.text(rng, message)
            boxes_now = [f"{team}/{box}" for box in ([LEAD, *BOXES] if to_all else [rng.choice(boxes)])]
            for box in boxes_now:
                ledger.note("intent", id=message, box=box, digest=book.digest(text))
            to = "*" if to_all else boxes_now[0].split("/")[1]
            fault = self.fault_point(rng, team, SIGNED + (["spooled", "recovering"] if team == "ours" else []))
            by_pipe = len(text) > 10_000 or rng.random() < 0.3
            args = ["send", to, "-" if by_pipe else text, "--from", me, "--json"]
            stdin = (text + "\n").encode() if by_pipe else None
            code, out, errors = self.throng("broadcast" if to_all else "send", team, args, stdin, fault)
            self.failed("send", args[:2], code, errors)
            if code == -signal.SIGKILL:
                ledger.note("killed", id=message)
                continue
            codes = {box: code for box in boxes_now}
            if to_all and out:
                # Told one by one.
                told = {one["to"]: one["sent"] for one in json.loads(out)["messages"]}
                codes = {box: 0 if told[box.split("/")[1]] else 4 for box in boxes_now}
            for box, code in codes.items():
                ledger.note("sent", id=message, box=box, code=code, by=me)
            if rng.random() < 0.3:
                self.ends.wait(rng.random() * 0.05)

    def long_writer(self, name, team, boxes, command):
        """A long-lived writer: a line in, a line out. One of ours is killed now and then, and begun anew."""
        rng, ledger = self.rng(name), book.Ledger(self.place.path("ledger"), name)
        count, call = 0, None
        while not self.ends.is_set():
            box = rng.choice(boxes)
            if call is None:
                call = subprocess.Popen(command(box), env=self.place.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                if team == "ours":
                    with self.lock:
                        self.victims[call.pid] = (os.pidfd_open(call.pid), "long-lived writer", team)
            count += 1
            message = f"{name}-{count}"
            text = self.text(rng, message)
            ledger.note("intent", id=message, box=f"{team}/{box}", digest=book.digest(text))
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
            entry = {"from": name, "text": text, "timestamp": stamp, "msg_id": str(uuid.uuid4()), "read": False}
            line = json.dumps(entry if team == "mixed" else {"to": box, "from": name, "text": text})
            try:
                call.stdin.write(line + "\n")
                call.stdin.flush()
                answer = call.stdout.readline()
            except OSError:
                answer = ""
            self.count(f"lines of {name}")
            if answer == "ok\n":
                ledger.note("sent", id=message, box=f"{team}/{box}", code=0, by=name)
            elif answer:
                self.count(f"refusals of {name}: {answer.strip()}")
                ledger.note("sent", id=message, box=f"{team}/{box}", code=4, by=name)
            else:
                ledger.note("killed", id=message)
                self.end_writer(name, call)
                call = None
            self.ends.wait(rng.random() * 0.05)
        if call:
            self.end_writer(name, call)

    def end_writer(self, name, call):
        try:
            call.stdin.close()
        except OSError:
            pass  # It is dead, and its last line is still in our buffer.
        code = call.wait()
        with self.lock:
            victim = self.victims.pop(call.pid, None)
            if victim:
                os.close(victim[0])
        self.failed(name, ["long-lived writer"], code, "")

    # Receivers, who mark and prune.

    def taker(self, team, box):
        rng, ledger = self.rng(f"taker{team}{box}"), book.Ledger(self.place.path("ledger"), f"taker-{team}-{box}")
        turn = 0
        while True:
            is_last = self.senders_left == 0
            turn += 1
            args = ["inbox", "take", "--json", "--as", box]
            if is_last or rng.random() < 0.5:
                args.append("--all")
            if not is_last:
                args += ["--wait", "--timeout", "1s"]
            fault = None if is_last else self.fault_point(rng, team, [*SIGNED, "printed", "printed", "printed"])
            code, out, errors = self.throng("take", team, args, None, fault)
            if code not in (3, 124):
                self.failed("take", args, code, errors)
            got = []
            for line in out.splitlines(keepends=True):
                # A line without its end was cut off: its reader does not have it.
                if line.endswith("\n"):
                    text = json.loads(line)["text"]
                    # Not the senders' but throng's own: a task can begin whose blocker has ended.
                    if text.startswith('{"type":"task_assignment"'):
                        self.count("mails of the task list")
                        continue
                    got.append({"id": text.split(" ")[0], "digest": book.digest(text)})
            ledger.note("take", box=f"{team}/{box}", turn=turn, code=code, got=got)
            if is_last and code == 3:
                return

    def owner(self, team, box):
        """The foreign owner, who removes what it has."""
        ledger = book.Ledger(self.place.path("ledger"), f"owner-{box}")
        call = subprocess.Popen(self.party(box, "own"), env=self.place.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.close_at_end, args=[call.stdin], daemon=True).start()
        for turn, line in enumerate(call.stdout):
            text = json.loads(line)["text"]
            got = [{"id": text.split(" ")[0], "digest": book.digest(text)}]
            ledger.note("take", box=f"{team}/{box}", turn=turn, code=0, got=got)
        if call.wait() != 0:
            self.fault("exit code", f"foreign owner: {call.returncode}")

    def close_at_end(self, pipe):
        while self.senders_left:
            time.sleep(0.05)
        pipe.close()

    def party(self, box, verb):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "party.cjs")
        return ["node", script, self.options.npm, self.place.inbox("mixed", box), verb]

    # Tasks.

    def worker(self, me):
        """Adds, claims, completes and deletes."""
        rng, ledger = self.rng("worker" + me), book.Ledger(self.place.path("ledger"), "worker-" + me)
        count = 0
        while not self.ends.is_set():
            with self.lock:
                task = rng.choice(self.open_tasks[:4]) if self.open_tasks else None
                needs = len(self.open_tasks) < 6
            fault = self.fault_point(rng, "ours", SIGNED)
            if task is None or (needs and rng.random() < 0.5):
                count += 1
                subject = f"{me} {count}"
                args = ["task", "add", subject, "--json"]
                if task and rng.random() < 0.2:
                    args += ["--blocked-by", task]
                code, out, errors = self.throng("task", "ours", args, None, fault, me)
                if code == 0:
                    task = json.loads(out)["id"]
                    ledger.note("added", team="ours", task=task, subject=subject)
                    with self.lock:
                        self.open_tasks.append(task)
                elif code != 3:  # Its blocker was deleted meanwhile.
                    self.failed("task add", args, code, errors)
                continue
            if not self.step(ledger, "claimed", me, task, ["claim", task, "--as", me], fault):
                continue
            if self.step(ledger, "completed", me, task, ["done", task], None):
                self.closed(task)
                if rng.random() < 0.9:
                    ledger.note("deleting", team="ours", task=task)
                    self.step(ledger, "deleted", me, task, ["delete", task], self.fault_point(rng, "ours", SIGNED))

    def closed(self, task):
        with self.lock:
            if task in self.open_tasks:
                self.open_tasks.remove(task)

    def step(self, ledger, op, me, task, args, fault):
        code, _, errors = self.throng("task", "ours", ["task", *args], None, fault, me)
        if code == 0:
            ledger.note(op, team="ours", task=task, by=me)
        elif code == 3 or "completed already" in errors:
            # By a change that was killed after it had worked.
            self.closed(task)
        # 1: another's, or blocked.
        elif code != 1:
            self.failed("task", args, code, errors)
        return code == 0

    # Readers without a lock.

    def reader(self, number):
        """Reads every shared file again and again: each is whole JSON at any moment, and no inbox ever goes away."""
        rng = self.rng(f"reader{number}")
        while self.senders_left:
            paths = [self.place.path("claude", "teams", team, "config.json") for team in self.teams]
            paths += [self.place.inbox(team, box) for team, boxes in self.teams.items() for box in boxes]
            fixed = set(paths)
            for team in self.teams:
                folder = self.place.tasks(team)
                names = os.listdir(folder) if os.path.isdir(folder) else []
                paths += [os.path.join(folder, name) for name in names if name.endswith(".json")]
            rng.shuffle(paths)
            for path in paths:
                try:
                    with open(path, "rb") as file:
                        text = file.read()
                    json.loads(text)
                except FileNotFoundError:
                    if path in fixed:
                        self.fault("gone", path)
                except ValueError as error:
                    copy = self.place.path("evidence", f"{uuid.uuid4()}-{os.path.basename(path)}")
                    with open(copy, "wb") as file:
                        file.write(text)
                    self.fault("torn", f"{path}: {error}; kept at {copy}")
                self.count("reads without a lock")
                time.sleep(0.0005)

    def looker(self):
        """throng's own lock-free verbs say nothing of damage."""
        rng = self.rng("looker")
        while not self.ends.is_set():
            team = rng.choice(list(self.teams))
            args = rng.choice([["inbox", "list", rng.choice(self.teams[team]), "--all"], ["status"], ["task", "list"], ["inbox", "status"]])
            code, out, errors = self.throng("look", team, [*args, "--json"])
            self.failed("look", args, code, errors)
            if "damaged" in errors or "malformed" in errors or "removed by another program" in errors:
                self.fault("damage told", errors)
            if code == 0 and args == ["task", "list"]:
                found = json.loads(out)
                if found["lost"] or found["damaged"]:
                    self.fault("damage told", out[-500:])
            self.ends.wait(0.2)

    # Killers.

    def killer(self, number):
        rng = self.rng(f"killer{number}")
        stopped = []
        while not self.ends.is_set():
            self.ends.wait(rng.uniform(0.01, 0.15))
            now = time.monotonic()
            for item in [item for item in stopped if item[0] <= now]:
                stopped.remove(item)
                self.signal(item[1], signal.SIGCONT, None)
            way = rng.random()
            with self.lock:
                prey = list(self.victims.items())
            prey.sort(key=lambda item: item[0])
            if way < 0.35:
                holders = self.holders()
                prey = [item for item in prey if item[0] in holders and item[1][2] == "ours"]
                if prey:
                    self.signal(rng.choice(prey)[0], signal.SIGKILL, "kill -9 of who has the turn")
            elif way < 0.6:
                prey = [item for item in prey if item[1][2] == "ours"]
                if prey:
                    pid, (_, role, _) = rng.choice(prey)
                    self.signal(pid, signal.SIGKILL, f"kill -9 of {role}")
            elif prey:
                pid, (_, _, team) = rng.choice(prey)
                length = rng.uniform(0.01, 0.5)
                if team == "ours" and rng.random() < 0.02:
                    # Longer than a lock needs to grow stale, and still within everybody's patience.
                    length = rng.uniform(10.5, 12)
                if self.signal(pid, signal.SIGSTOP, "SIGSTOP" if length < 10 else "SIGSTOP for over 10 s"):
                    stopped.append((now + length, pid))
        for _, pid in stopped:
            self.signal(pid, signal.SIGCONT, None)

    def signal(self, pid, number, what):
        with self.lock:
            victim = self.victims.get(pid)
            if victim is None:
                return False
            try:
                signal.pidfd_send_signal(victim[0], number)
            except ProcessLookupError:
                return False
            if what:
                self.kills[what] += 1
            return True

    def holders(self):
        """Pids of those that have a turn now, by the records of the queues."""
        folder, pids = self.place.path("state", "teams", "ours", "queues"), set()
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            if name.endswith(".json"):
                try:
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        pids.add(json.load(file)["pid"])
                except (OSError, ValueError):
                    pass
        return pids

    def waker(self):
        """Whoever stopped at a fault point, or was forgotten, goes on after a moment."""
        since = {}
        while not self.over.wait(0.05):
            with self.lock:
                pids = list(self.victims)
            now = time.monotonic()
            stopped = {pid for pid in pids if state(pid) == "T"}
            since = {pid: since.get(pid, now) for pid in stopped}
            for pid in [pid for pid, at in since.items() if now - at > (0.5 if self.ends.is_set() else 12.5)]:
                self.signal(pid, signal.SIGCONT, None)
            # Those at fault points say so by their environment.
            for pid in stopped:
                if now - since[pid] > 0.3 and at_fault_point(pid):
                    if self.signal(pid, signal.SIGCONT, None):
                        with self.lock:
                            self.kills["stopped at a fault point"] += 1

    # The run.

    def guard(self, work, *args):
        try:
            work(*args)
        except Exception as error:  # noqa: BLE001: a party that fails is a fault of the run, not its silent end.
            self.fault("party", f"{work.__name__}{args}: {type(error).__name__}: {error}")

    def start(self, threads, work, *args):
        thread = threading.Thread(target=self.guard, args=[work, *args], daemon=True)
        thread.start()
        threads.append(thread)

    def run(self):
        self.teams = {"ours": [LEAD, *BOXES]}
        self.place.make_team("ours", BOXES)
        if self.options.npm:
            self.teams["mixed"] = ["both", "claude"]
            self.place.make_team("mixed", self.teams["mixed"])
        senders, others = [], []
        self.senders_left = 1
        for box in self.teams["ours"]:
            self.start(others, self.taker, "ours", box)
        for number in range(5):
            self.start(senders, self.sender, number, "ours", [LEAD, *BOXES])
        for me in BOXES[:3]:
            self.start(senders, self.worker, me)
        if self.options.writer:
            for number in range(2):
                command = lambda _: [self.options.writer, "lines", self.place.root, "ours"]  # noqa: E731
                self.start(senders, self.long_writer, f"w{number}", "ours", BOXES, command)
        if self.options.npm:
            self.start(others, self.taker, "mixed", "both")
            self.start(others, self.owner, "mixed", "claude")
            for number in range(2):
                self.start(senders, self.sender, number, "mixed", self.teams["mixed"])
            for number, box in enumerate(self.teams["mixed"]):
                self.start(senders, self.long_writer, f"npm{number}", "mixed", [box], lambda box: self.party(box, "write"))
        for number in range(2):
            self.start(others, self.reader, number)
            self.start(senders, self.killer, number)
        self.start(senders, self.looker)
        threading.Thread(target=self.waker, daemon=True).start()
        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end and not self.verdict.faults.get("party"):
            time.sleep(0.1)
        self.fire.clear()
        self.ends.set()
        self.join(senders)
        if self.options.plant == "torn":
            self.plant_torn()
        self.senders_left = 0
        self.join(others)
        self.over.set()

    def join(self, threads):
        limit = time.monotonic() + 60
        for thread in threads:
            thread.join(max(0, limit - time.monotonic()))
            if thread.is_alive():
                self.fault("party", "a party does not end")

    # The end: all at rest.

    def settle(self):
        """One ordinary deed each, as the next user would do it: it finds what the dead left, and gets past it."""
        for path in self.litter():
            # A writer killed before it wrote anything: such a file counts as left after a minute.
            if ".spool/" in path and os.path.getsize(path) == 0:
                os.utime(path, (time.time() - 120,) * 2)
        for team, boxes in self.teams.items():
            for box in boxes:
                if (team, box) == ("mixed", "claude"):
                    continue
                for args in (["send", box, "the end", "--from", "s0"], ["inbox", "take", "--as", box]):
                    code, out, errors = self.throng("end", team, args)
                    if code != 0 or errors or (args[0] == "inbox" and out != "the end\n"):
                        self.fault("end", f"{team} {args}: {code} {out[:200]} {errors}")
        self.settle_tasks()
        # A lock that its holder could not write down any more grows stale: then it goes with the next change of its task, or,
        # if that was deleted, of any.
        left = [path for path in self.litter() if path.startswith(self.place.tasks("ours"))]
        for path in left:
            self.count("tasks whose lock had to grow stale")
            number = os.path.basename(path).split(".")[0]
            code, _, errors = self.throng("end", "ours", ["task", "update", number, "--description", "the end"])
            if code not in (0, 3) or errors and code == 0:
                self.fault("end", f"task update {number}: {code} {errors}")
        if left:
            while any(os.path.exists(path) and time.time() - os.stat(path).st_mtime < 10.5 for path in left):
                time.sleep(0.1)
            self.settle_tasks()

    def settle_tasks(self):
        code, out, errors = self.throng("end", "ours", ["task", "add", "the end", "--json"])
        if code != 0 or errors:
            self.fault("end", f"task add: {code} {errors}")
        else:
            self.throng("end", "ours", ["task", "delete", json.loads(out)["id"]])

    def litter(self):
        found = []
        for folder, folders, files in os.walk(self.place.path("claude")):
            found += [os.path.join(folder, name) for name in folders if name.endswith(".lock") or name.startswith(".throng-")]
            found += [os.path.join(folder, name) for name in files if ".tmp." in name]
        for team in self.teams:
            for folder, _, files in os.walk(self.place.path("state", "teams", team, "queues")):
                found += [os.path.join(folder, name) for name in files if folder.endswith(".spool")]
        for folder, _, files in os.walk(self.place.path("run")):
            found += [os.path.join(folder, name) for name in files]
        return found

    def judge(self):
        self.settle()
        self.plant()
        for path in self.litter():
            self.fault("left", path)
        for pid in self.place.processes():
            self.fault("left", f"process {pid}")
            os.kill(pid, signal.SIGKILL)
        tasks = {}
        for team in self.teams:
            folder, tasks[team] = self.place.tasks(team), {}
            for name in os.listdir(folder) if os.path.isdir(folder) else []:
                if name.endswith(".json"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        tasks[team][name.removesuffix(".json")] = json.load(file)
        book.judge(self.place.path("ledger"), tasks, self.verdict)

    # Planted faults: the run must find them.

    def edit(self, change):
        """As a program that knows no locks."""
        path = self.place.inbox("ours", "plant")
        with open(path, encoding="utf-8") as file:
            entries = change(json.load(file))
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(entries, file)
        os.replace(path + ".new", path)

    def planted(self, ledger, text):
        """A message that is acknowledged, in an inbox that nobody else knows."""
        ledger.note("intent", id="planted", box="ours/plant", digest=book.digest("planted one"))
        code, _, errors = self.throng("plant", "ours", ["send", "plant", text, "--force", "--from", "s0"])
        assert code == 0, errors
        ledger.note("sent", id="planted", box="ours/plant", code=code, by="s0")

    def take_planted(self, ledger, turn):
        code, out, _ = self.throng("plant", "ours", ["inbox", "take", "--json", "--as", "plant"])
        got = [{"id": "planted", "digest": book.digest(json.loads(line)["text"])} for line in out.splitlines()]
        ledger.note("take", box="ours/plant", turn=turn, code=code, got=got)

    def plant(self):
        plant, ledger = self.options.plant, book.Ledger(self.place.path("ledger"), "plant")
        if plant in ("loss", "double", "altered"):
            self.planted(ledger, "planted two" if plant == "altered" else "planted one")
            if plant == "loss":
                self.edit(lambda entries: entries[:-1])
            self.take_planted(ledger, 0)
            if plant == "double":
                again = {"from": "s0", "text": "planted one", "timestamp": "2030-01-01T00:00:00.000Z"}
                self.edit(lambda entries: [*entries, again])
                self.take_planted(ledger, 1)
        if plant == "litter":
            with open(self.place.inbox("ours", "b0") + ".tmp.deadbeef", "w", encoding="utf-8"):
                pass
        if plant == "process":
            subprocess.Popen(["sleep", "600"], env=self.place.env)
        if plant == "winner":
            code, out, _ = self.throng("plant", "ours", ["task", "add", "planted", "--json"])
            for me in ("b0", "b1") if code == 0 else ():
                ledger.note("claimed", team="ours", task=json.loads(out)["id"], by=me)

    def plant_torn(self):
        """While readers read."""
        path = self.place.inbox("ours", "b3")
        with open(path, encoding="utf-8") as file:
            whole = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write("[{")
        limit = time.monotonic() + 20
        while not self.verdict.faults.get("torn") and time.monotonic() < limit:
            time.sleep(0.01)
        with open(path, "w", encoding="utf-8") as file:
            file.write(whole)


def state(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def at_fault_point(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"THRONG_FAULT=stop@" in file.read()
    except OSError:
        return False


def main():
    parser = argparse.ArgumentParser(prog="scripts/chaos")
    parser.add_argument("--program", required=True, help="throng, built with debug assertions: the fault points are in it")
    parser.add_argument("--writer", help="the long-lived writer: the bench 'mail'")
    parser.add_argument("--npm", help="folder with node_modules/proper-lockfile")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--root", help="the folder of it all, which must not be there yet")
    parser.add_argument("--plant", help="a fault that must be found", choices=["loss", "double", "altered", "torn", "litter", "process", "winner"])
    options = parser.parse_args()
    chaos = Chaos(options)
    print(f"seed {options.seed}, {options.seconds:.0f} s, at {chaos.place.root}", flush=True)
    start = time.monotonic()
    chaos.run()
    chaos.judge()
    verdict = chaos.verdict
    for name, number in sorted(verdict.figures.items()):
        print(f"{number:9}  {name}")
    print("Under fire:")
    for name, number in sorted(chaos.kills.items()):
        print(f"{number:9}  {name}")
    for kind, faults in sorted(verdict.faults.items()):
        print(f"FAULT {kind}: {len(faults)}")
        for what in faults[:10]:
            print(f"    {what}")
    number = sum(map(len, verdict.faults.values()))
    print(f"{number} faults in {time.monotonic() - start:.0f} s" if number else f"no fault in {time.monotonic() - start:.0f} s")
    if number:
        print(f"All is kept at {chaos.place.root}")
        return 1
    shutil.rmtree(chaos.place.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
