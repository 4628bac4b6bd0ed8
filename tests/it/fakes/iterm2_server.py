#!/usr/bin/env python3
"""A fake iTerm2: speaks iTerm2's real API (a websocket on its Unix socket, the messages of the `iterm2` package), so that
the real, unmodified `it2` can be run against it. Each session is a real shell on a real pseudo-terminal.

    iterm2_server.py SOCKET LOG OPTIONS

LOG gets one JSON object a line for whatever happens. OPTIONS is a JSON file, read anew at each use:
    shell     argv of a session's shell                             (default: ["bash", "-i"])
    on_end    "close" or "hold": what becomes of a session that ended  (default: "close")
    asks      whether an unforced close of a session with a living process asks the user, who never answers
"""

import asyncio
import errno
import fcntl
import json
import os
import pty
import struct
import sys
import termios
import time
import uuid

from iterm2 import api_pb2 as api
from websockets.asyncio.server import unix_serve
from websockets.exceptions import ConnectionClosed

COLS, ROWS = 200, 50
COOKIE = "cookie"


class Session:
    """A shell on a pseudo-terminal."""

    def __init__(self, app, cols, rows):
        self.app, self.cols, self.rows = app, cols, rows
        self.id = str(uuid.uuid4()).upper()
        self.output = b""
        self.is_alive = True
        shell = app.option("shell", ["bash", "-i"])
        env = dict(os.environ, TERM="xterm-256color", TERM_PROGRAM="iTerm.app", ITERM_SESSION_ID="w0t0p0:" + self.id)
        # A shell that iTerm2 starts knows no cookie.
        env.pop("ITERM2_COOKIE", None)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(env["HOME"])
                os.execvpe(shell[0], shell, env)
            finally:
                os._exit(127)
        os.set_blocking(self.fd, False)
        self.resize(cols, rows)
        asyncio.get_running_loop().add_reader(self.fd, self.read)
        app.log("start", session=self.id, pid=self.pid)

    def resize(self, cols, rows):
        self.cols, self.rows = cols, rows
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self):
        try:
            data = os.read(self.fd, 65536)
        except OSError as e:
            if e.errno in (errno.EAGAIN, errno.EINTR):
                return
            data = b""
        if data:
            self.output += data
            self.app.log("output", session=self.id, text=data.decode("utf-8", "replace"))
        else:
            self.end("ended")

    def type(self, text):
        if self.is_alive:
            os.write(self.fd, text.encode())

    def end(self, why):
        """Its terminal is closed, which hangs up whatever runs there."""
        if not self.is_alive:
            return
        self.is_alive = False
        asyncio.get_running_loop().remove_reader(self.fd)
        os.close(self.fd)
        try:
            os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pass
        if why == "closed" or self.app.option("on_end", "close") == "close":
            self.app.sessions.remove(self)
        self.app.log(why, session=self.id)


class App:
    """All sessions, in one tab of one window."""

    def __init__(self, log, options):
        self.log_file = open(log, "a", buffering=1)
        self.options = options
        self.sessions = []

    def log(self, what, **about):
        self.log_file.write(json.dumps(dict(what=what, at=time.time(), **about)) + "\n")

    def option(self, name, default):
        try:
            with open(self.options) as file:
                return json.load(file).get(name, default)
        except FileNotFoundError:
            return default

    def find(self, name):
        return next((s for s in self.sessions if s.id == name), None)

    def handle(self, request):
        """Answers one message."""
        answer = api.ServerOriginatedMessage()
        answer.id = request.id
        kind = request.WhichOneof("submessage")
        handler = getattr(self, kind, None)
        if handler is None:
            self.log("unknown", request=kind)
            answer.error = "the fake does not know " + kind
        else:
            handler(getattr(request, kind), answer)
        return answer

    def list_sessions_request(self, _request, answer):
        window = answer.list_sessions_response.windows.add()
        window.window_id = "pty-1"
        window.number = 0
        tab = window.tabs.add()
        tab.tab_id = "1"
        tab.root.vertical = True
        for session in self.sessions:
            summary = tab.root.links.add().session
            summary.unique_identifier = session.id
            summary.title = "shell"
            summary.grid_size.width = session.cols
            summary.grid_size.height = session.rows
            summary.frame.size.width = session.cols
            summary.frame.size.height = session.rows

    def notification_request(self, _request, answer):
        answer.notification_response.status = api.NotificationResponse.Status.Value("OK")

    def focus_request(self, _request, answer):
        answer.focus_response.notifications.add().application_active = True
        window = answer.focus_response.notifications.add().window
        window.window_status = api.FocusChangedNotification.Window.WindowStatus.Value("TERMINAL_WINDOW_BECAME_KEY")
        window.window_id = "pty-1"

    def get_broadcast_domains_request(self, _request, answer):
        answer.get_broadcast_domains_response.SetInParent()

    def split_pane_request(self, request, answer):
        status = api.SplitPaneResponse.Status
        old = self.find(request.session)
        if old is None:
            answer.split_pane_response.status = status.Value("SESSION_NOT_FOUND")
            return
        vertical = request.split_direction == api.SplitPaneRequest.VERTICAL
        cols, rows = (old.cols // 2, old.rows) if vertical else (old.cols, old.rows // 2)
        if cols < 5 or rows < 2:
            answer.split_pane_response.status = status.Value("CANNOT_SPLIT")
            return
        if old.is_alive:
            old.resize(cols, rows)
        new = Session(self, cols, rows)
        self.sessions.append(new)
        self.log("split", session=old.id, vertical=vertical, new=new.id)
        answer.split_pane_response.status = status.Value("OK")
        answer.split_pane_response.session_id.append(new.id)

    def send_text_request(self, request, answer):
        status = api.SendTextResponse.Status
        session = self.find(request.session)
        self.log("send", session=request.session, text=request.text)
        if session is None:
            answer.send_text_response.status = status.Value("SESSION_NOT_FOUND")
            return
        session.type(request.text)
        answer.send_text_response.status = status.Value("OK")

    def close_request(self, request, answer):
        for name in request.sessions.session_ids:
            session = self.find(name)
            if session is None:
                status = "NOT_FOUND"
            elif session.is_alive and not request.force and self.option("asks", False):
                # The dialog stands there until somebody answers; this one says no.
                status = "USER_DECLINED"
            else:
                status = "OK"
            self.log("close", session=name, force=request.force, answer=status)
            if status == "OK":
                if session.is_alive:
                    session.end("closed")
                else:
                    self.sessions.remove(session)
            answer.close_response.statuses.append(api.CloseResponse.Status.Value(status))

    def variable_request(self, request, answer):
        session = self.find(request.session_id)
        values = {}
        if session is not None:
            values = {"session.name": "shell", "session.title": "shell"}
        answer.variable_response.status = api.VariableResponse.Status.Value("OK")
        for name in request.get:
            answer.variable_response.values.append(json.dumps(values.get(name)))


async def main():
    socket, log, options = sys.argv[1:4]
    app = App(log, options)

    def check(connection, request):
        if request.headers.get("x-iterm2-cookie") != COOKIE:
            return connection.respond(401, "no cookie\n")
        return None

    def sign(_connection, _request, response):
        response.headers["X-iTerm2-Protocol-Version"] = "1.18"

    async def serve(connection):
        try:
            async for data in connection:
                request = api.ClientOriginatedMessage()
                request.ParseFromString(data)
                await connection.send(app.handle(request).SerializeToString())
        except ConnectionClosed:
            # it2 leaves without a word.
            pass

    os.makedirs(os.path.dirname(socket), exist_ok=True)
    app.sessions.append(Session(app, COLS, ROWS))
    server = unix_serve(serve, socket, subprotocols=["api.iterm2.com"], process_request=check, process_response=sign)
    async with server:
        app.log("ready")
        await asyncio.get_running_loop().create_future()


asyncio.run(main())
