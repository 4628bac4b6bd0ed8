"""The ledger of scripts/chaos, and the judge of it.

Every party writes down what it is about to do, and after it what became of it, each line fsynced before the next step. The
judge reads these lines and the files as they lie in the end, and nothing that throng wrote about itself.
"""

import collections
import glob
import hashlib
import json
import os
import threading

DONE = 0


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


class Ledger:
    """One party's lines. A party has one step at a time."""

    def __init__(self, folder, name):
        self.file = open(os.path.join(folder, name + ".jsonl"), "a", encoding="utf-8")
        self.lock = threading.Lock()

    def note(self, op, **fields):
        with self.lock:
            self.file.write(json.dumps({"op": op, **fields}) + "\n")
            self.file.flush()
            os.fsync(self.file.fileno())


def lines(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


class Verdict:
    """Faults by kind, and figures."""

    def __init__(self):
        self.faults = collections.defaultdict(list)
        self.figures = collections.Counter()

    def fault(self, kind, what):
        self.faults[kind].append(what)


def judge(folder, tasks, verdict):
    """Judges all lines. `tasks`: what lies in the task folders in the end, {team: {id: task}}."""
    all_lines = list(lines(folder))
    mail(all_lines, verdict)
    task_list(all_lines, tasks, verdict)
    return verdict


def mail(all_lines, verdict):
    """Nothing acknowledged is lost, nothing is given twice but by a taker that was cut off, order is kept."""
    sent, fate, order = {}, {}, collections.defaultdict(list)
    given = collections.defaultdict(list)
    for line in all_lines:
        if line["op"] == "intent":
            sent[line["id"], line["box"]] = line["digest"]
        elif line["op"] == "sent":
            fate[line["id"], line["box"]] = line["code"]
            if line["code"] == DONE:
                order[line["by"], line["box"]].append(line["id"])
        elif line["op"] == "take":
            for place, one in enumerate(line["got"]):
                given[one["id"], line["box"]].append(((line["turn"], place), line["code"], one["digest"]))
    figures = verdict.figures
    figures["intended"] = len(sent)
    figures["acknowledged"] = sum(code == DONE for code in fate.values())
    first = {}
    for message, digest_sent in sent.items():
        takes = sorted(given.pop(message, []))
        name = " to ".join(message)
        if any(other != digest_sent for _, _, other in takes):
            verdict.fault("altered", name)
        if not takes:
            if fate.get(message) == DONE:
                verdict.fault("lost", f"{name}: acknowledged, never given")
            continue
        figures["given"] += 1
        first[message] = takes[0][0]
        if fate.get(message) is None:
            figures["given though their sender was killed"] += 1
        elif fate[message] != DONE:
            figures["given though their sender was told that it failed"] += 1
        figures["given again after a taker that was cut off"] += len(takes) - 1
        for (turn, _), code, _ in takes[:-1]:
            # Whoever ended with 0 has marked it: it may not come again.
            if code == DONE:
                verdict.fault("doubled", f"{name}: taken with success in turn {turn}, then again")
        turns = [turn for (turn, _), _, _ in takes]
        if len(set(turns)) < len(turns):
            verdict.fault("doubled", f"{name}: twice in one take")
    for message in given:
        verdict.fault("foreign", f"{' to '.join(message)}: given, but never sent")
    for (by, box), ids in order.items():
        turns = [first[id, box] for id in ids if (id, box) in first]
        if turns != sorted(turns):
            verdict.fault("order", f"messages of {by} to {box} overtook each other")


def task_list(all_lines, tasks, verdict):
    """Ids once, one winner each, what was acknowledged stays."""
    added, winners, done = {}, collections.defaultdict(set), set()
    may_be_gone, gone = set(), set()
    for line in all_lines:
        task = (line.get("team"), line.get("task"))
        if line["op"] == "added":
            if task in added:
                verdict.fault("task id twice", f"{task}: {added[task]} and {line['subject']}")
            added[task] = line["subject"]
        elif line["op"] == "claimed":
            winners[task].add(line["by"])
        elif line["op"] == "completed":
            done.add(task)
        elif line["op"] == "deleting":
            may_be_gone.add(task)
        elif line["op"] == "deleted":
            gone.add(task)
    figures = verdict.figures
    figures["tasks added"], figures["tasks claimed"] = len(added), len(winners)
    figures["tasks completed"], figures["tasks deleted"] = len(done), len(gone)
    for task, by in winners.items():
        if len(by) > 1:
            verdict.fault("two winners", f"{task}: {sorted(by)}")
    for task, subject in added.items():
        team, number = task
        now = tasks.get(team, {}).get(number)
        if task in gone:
            if now is not None:
                verdict.fault("task", f"{task}: deleted, and there")
        elif now is None:
            if task not in may_be_gone:
                verdict.fault("task", f"{task}: added, and not there")
        else:
            if now.get("subject") != subject:
                verdict.fault("task", f"{task}: not the one that was added")
            if task in winners and now.get("owner") not in winners[task]:
                verdict.fault("task", f"{task}: claimed by {winners[task]}, owned by {now.get('owner')}")
            if task in done and now.get("status") != "completed":
                verdict.fault("task", f"{task}: completed, and {now.get('status')}")
