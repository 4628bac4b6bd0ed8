#!/usr/bin/env python3
"""A small agent program that is typed to, for tests of what throng types.

typed_agent.py screen|line [OPTION...]: full-screen with bracketed paste, or line by line on a cooked terminal.
Each message it gets goes into --log as one line of JSON. A line `run: COMMAND` in a message is run by a shell.

  --boot S         starts so slowly
  --dialog TEXT    asks this first and waits for the key y
  --late-dialog T  asks this in each turn
  --drop N         loses the first N pastes
  --deaf N         ignores the first N Returns
  --draft TEXT     has this in its input at first
  --marker N       shows pastes longer than N characters as [Pasted text #1]
  --turn S         works so long on each message
  --slow-echo S    shows a paste only after so long
  --blind          never shows what is typed
  --mute           its prompt and its work look like nothing
  --fail TEXT      each turn fails with this
  --stay           ignores /exit and TERM
"""
import argparse, json, os, re, select, signal, subprocess, sys, termios, time, tty

p = argparse.ArgumentParser()
p.add_argument("kind", choices=["screen", "line"])
p.add_argument("--log", required=True)
for name in ["--boot", "--turn", "--slow-echo"]:
    p.add_argument(name, type=float, default=0)
for name in ["--drop", "--deaf"]:
    p.add_argument(name, type=int, default=0)
p.add_argument("--marker", type=int, default=10**9)
for name in ["--dialog", "--late-dialog", "--draft", "--fail"]:
    p.add_argument(name, default="")
for name in ["--blind", "--mute", "--stay"]:
    p.add_argument(name, action="store_true")
a = p.parse_args()


def note(body):
    with open(a.log, "a") as log:
        log.write(json.dumps({"body": body, "pid": os.getpid()}) + "\n")


def obey(body):
    """Runs what the message says, and answers it."""
    said = []
    for command in re.findall(r"^ *run: (.*)$", body, re.M):
        said.append(subprocess.run(command, shell=True, capture_output=True, text=True).stdout.strip())
    return a.fail or " ".join(["I have read", body.split("\n")[-2][:40] if "\n" in body else body[-40:]] + said)


def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()


if a.stay:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(a.boot)

if a.kind == "line":
    prompt = "" if a.mute else "> "
    say("A line-wise agent.\n" + prompt)
    for line in sys.stdin:
        body = line.rstrip("\n")
        if body == "/exit" and not a.stay:
            sys.exit(0)
        if body:
            note(body)
            if not a.mute:
                say("thinking ...\n")
            time.sleep(a.turn)
            # What it thought is gone when it answers.
            say(("" if a.mute else "\x1b[A\x1b[2K") + obey(body) + "\n")
        say(prompt)
    sys.exit(0)

out = sys.stdin.fileno()
saved = termios.tcgetattr(out)
tty.setraw(out)
say("\x1b[?2004h")
transcript, composer, pasted, busy_until, working_on, dialog = ["A full-screen agent."], a.draft, [], 0, None, a.dialog
shown_at = 0


def draw():
    rows, cols = os.get_terminal_size(out).lines, os.get_terminal_size(out).columns
    shown = composer
    for i, text in enumerate(pasted):
        if len(text) > a.marker:
            shown = shown.replace(text, f"[Pasted text #{i + 1}]")
    if a.blind or time.time() < shown_at:
        shown = ""
    wrap = lambda text: [text[i : i + cols - 4] for i in range(0, len(text), cols - 4)] or [""]
    inside = [piece for line in shown.split("\n") for piece in wrap(line)][-(rows - 12) :]
    lines = [piece for line in transcript for part in line.split("\n") for piece in wrap(part)]
    if dialog:
        box = ["─" * 40, dialog, "  y) yes   n) no", "Enter to confirm"]
        at = None
    else:
        status = "  ? for help" if a.mute or not working_on else "  esc to interrupt"
        box = ["─" * 40] + [("> " if i == 0 else "  ") + line for i, line in enumerate(inside)] + ["─" * 40, status]
        at = (len(inside) - 1, len(box[len(inside)]))
    room = rows - len(box) - 1
    lines = lines[-room:]
    say("\x1b[2J\x1b[H" + "\r\n".join(lines + [""] * (room - len(lines)) + box))
    if at:
        say(f"\x1b[{room + 2 + at[0]};{at[1] + 1}H")


resized = []
signal.signal(signal.SIGWINCH, lambda *_: resized.append(1))
draw()
buffer = b""
while True:
    ready, _, _ = select.select([out], [], [], 0.05)
    if ready:
        piece = os.read(out, 65536)
        if not piece:
            break
        buffer += piece
    changed = bool(ready) or bool(resized)
    resized.clear()
    if shown_at and time.time() >= shown_at:
        shown_at, changed = 0, True
    while buffer:
        if buffer.startswith(b"\x1b[200~"):
            end = buffer.find(b"\x1b[201~")
            if end < 0:
                break
            text = buffer[6:end].decode().replace("\r", "\n")
            buffer = buffer[end + 6 :]
            if a.drop > 0 or dialog:
                a.drop -= 1
            else:
                composer += text
                with open(a.log, "a") as log:
                    log.write(json.dumps({"pasted": len(text)}) + "\n")
                pasted.append(text)
                shown_at = time.time() + a.slow_echo if a.slow_echo else 0
        elif b"\x1b[200~".startswith(buffer):
            break
        else:
            # Whole characters only.
            n = 1
            while n < len(buffer) and (buffer[n] & 0xC0) == 0x80:
                n += 1
            c, buffer = buffer[:n].decode(errors="replace"), buffer[n:]
            if dialog:
                if c == "y":
                    dialog = ""
            elif c == "\x15":
                composer, pasted = "", []
            elif c == "\r":
                if a.deaf > 0:
                    a.deaf -= 1
                elif composer.strip() == "/exit" and not a.stay:
                    say("\x1b[?2004l\x1b[2J\x1b[Hbye\r\n")
                    termios.tcsetattr(out, termios.TCSANOW, saved)
                    sys.exit(0)
                elif composer.strip():
                    note(composer)
                    transcript += [composer]
                    working_on, composer, pasted = composer, "", []
                    busy_until = time.time() + a.turn
                    dialog = a.late_dialog
            elif c == "\x03":
                sys.exit(130)
            elif c.isprintable():
                composer += c
    if working_on and not dialog and time.time() >= busy_until:
        transcript += [obey(working_on)]
        working_on, changed = None, True
    if changed:
        draw()
