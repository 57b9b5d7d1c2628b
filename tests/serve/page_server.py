"""Stands in for `easydel serve` behind its two pages: the same paths, with answers that a test chooses."""

import http.server
import json
import pathlib
import threading
import time

PAGES = pathlib.Path(__file__).resolve().parents[2] / "easydel/serve/page"
KEY = "right"


def chunk(**delta):
    return {"id": "c", "object": "chat.completion.chunk", "model": "tiny", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def end(reason="stop"):
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def usage(tokens):
    return {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens, "total_tokens": 7 + tokens}}


def pieces(text, size=4):
    return [chunk(content=text[i:i + size]) for i in range(0, len(text), size)]


class Script:
    """What the next answer is: chunks to send; GATE waits until the test opens it, LEAVE until the client has left."""

    GATE, LEAVE = object(), object()

    def __init__(self, *steps, status=200, headers=(), done=True, pace=0):
        self.steps, self.status, self.headers, self.done = steps, status, headers, done
        self.pace = pace  # seconds before each chunk, for images

    @staticmethod
    def text(text):
        parts = pieces(text)
        return Script(*parts, end(), usage(len(parts)))


class PageServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = Script.text("Hello.")
        self.bodies = []  # of the requests for answers
        self.keys = []
        self.gate, self.left = threading.Event(), threading.Event()
        self.models = [{"id": "tiny", "object": "model", "max_model_len": 4096}, {"id": "poet", "object": "model", "parent": "tiny"}]
        self.api_key = None
        self.dashboard = {}
        self.polls = 0
        self.dashboard_status = 200
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, status, body, kind="application/json", headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def refused(self):
        key = self.headers.get("Authorization")
        self.server.keys.append(key)
        if self.server.api_key is None or key == "Bearer " + self.server.api_key:
            return False
        self.answer(401, {"error": {"message": "Invalid API key.", "type": "authentication_error", "code": "invalid_api_key"}})
        return True

    def do_GET(self):
        pages = {"/": "chat", "/dashboard": "dashboard"}
        if self.path.split("?")[0] in pages:
            self.answer(200, (PAGES / f"{pages[self.path.split('?')[0]]}.html").read_bytes(), "text/html; charset=utf-8",
                        [("Content-Security-Policy", "default-src 'self' 'unsafe-inline' data: blob:")])  # as the service says
        elif self.path == "/v1/models":
            self.refused() or self.answer(200, {"object": "list", "data": self.server.models})
        elif self.path == "/dashboard/data":
            self.server.polls += 1
            data = self.server.dashboard
            self.refused() or self.answer(self.server.dashboard_status, data(self.server.polls) if callable(data) else data)
        else:
            self.answer(404, {"error": {"message": f"No {self.path}.", "type": "not_found_error"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.refused():
            return
        self.server.bodies.append(body)
        script = self.server.script
        if script.status != 200:
            self.answer(script.status, script.steps[0], headers=script.headers)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for step in script.steps:
            time.sleep(script.pace)
            if step is Script.GATE:
                self.server.gate.wait(60)
            elif step is Script.LEAVE:
                if self.connection.recv(1) == b"":
                    self.server.left.set()
                return
            else:
                self.wfile.write(b"data: " + json.dumps(step).encode() + b"\n\n")
                self.wfile.flush()
        if script.done:
            self.wfile.write(b"data: [DONE]\n\n")
