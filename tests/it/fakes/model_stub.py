#!/usr/bin/env python3
"""A stub of three model services on loopback, for real agent programs: OpenAI's responses and chat completions, and
Gemini's generateContent. It answers each request with one sentence that says how many it has had and the last mark
`[mail ...]` it found; on a message with a line `run: COMMAND` it first asks for a shell tool, if the program offers one.

model_stub.py PORT LOG [SECONDS]   it answers after so long; LOG gets one line of JSON for each request.
"""
import http.server, json, re, sys, threading, time

count, lock = 0, threading.Lock()


def texts(value):
    """Every text in a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for v in value:
            yield from texts(v)
    elif isinstance(value, dict):
        for k, v in value.items():
            if k in ("text", "content", "parts", "input", "messages", "contents", "output", "arguments"):
                yield from texts(v)


def answer(body):
    global count
    with lock:
        count += 1
        n = count
    said = "\n".join(texts({k: v for k, v in body.items() if k in ("input", "messages", "contents")}))
    marks = re.findall(r"\[mail [0-9a-f]{8}\]", said)
    return f"Stub answer {n} to {marks[-1].strip('[]') if marks else 'nothing'}.", said, marks


class Stub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, kind, data):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def events(self, events, named=False, done=False):
        out = b""
        for e in events:
            out += (f"event: {e['type']}\n" if named else "").encode() + b"data: " + json.dumps(e).encode() + b"\n\n"
        self.reply("text/event-stream", out + (b"data: [DONE]\n\n" if done else b""))

    def do_GET(self):
        models = [{"id": "stub-model", "object": "model", "owned_by": "stub"}]
        self.reply("application/json", json.dumps({"object": "list", "data": models, "models": []}).encode())

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        try:
            body = json.loads(self.rfile.read(size) or b"{}")
        except ValueError:
            body = {}
        text, said, marks = answer(body)
        time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
        with open(sys.argv[2], "a") as log:
            log.write(json.dumps({"path": self.path, "marks": marks, "said": said[-3000:], "keys": list(body), "text": text,
                                  "tools": [t.get("name") or t.get("type") for t in body.get("tools") or []]}) + "\n")
        if "application/json" in json.dumps(body.get("generationConfig", {})):
            # The Gemini CLI asks first which of its models is to answer.
            text = json.dumps({"reasoning": "stub", "model_choice": "flash", "complexity_reasoning": "stub", "complexity_score": 1})
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        if self.path.endswith("/responses"):
            item = {"id": "m1", "type": "message", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}]}
            whole = {"id": "r1", "object": "response", "status": "completed", "model": "stub-model", "output": [item], "usage": usage}
            self.events([
                {"type": "response.created", "response": dict(whole, status="in_progress", output=[])},
                {"type": "response.output_item.added", "output_index": 0, "item": dict(item, content=[], status="in_progress")},
                {"type": "response.output_text.delta", "item_id": "m1", "output_index": 0, "content_index": 0, "delta": text},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": whole},
            ], named=True)
        elif "chat/completions" in self.path:
            head = {"id": "c1", "created": 1, "model": "stub-model"}
            counted = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            if body.get("stream"):
                chunk = lambda delta, end: dict(head, object="chat.completion.chunk", choices=[{"index": 0, "delta": delta, "finish_reason": end}])
                self.events([chunk({"role": "assistant", "content": text}, None), chunk({}, "stop"), dict(head, object="chat.completion.chunk", choices=[], usage=counted)], done=True)
            else:
                message = {"role": "assistant", "content": text}
                self.reply("application/json", json.dumps(dict(head, object="chat.completion", usage=counted, choices=[{"index": 0, "message": message, "finish_reason": "stop"}])).encode())
        else:
            part = {"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": text}]}}],
                    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}, "modelVersion": "stub-model"}
            if "alt=sse" in self.path:
                self.events([part])
            else:
                self.reply("application/json", json.dumps(part).encode())


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Stub).serve_forever()
