"""A stand-in for an OpenAI-compatible server: streams a fixed answer to each request and remembers what it was asked.
usage: completions_server.py    prints {"url": …} and ends when standard input does

Every line of standard input is answered with the requests so far, as one line of JSON; it then forgets them. An answer
has max_tokens tokens and ends after three of them unless ignore_eos is set. A prompt that begins with "refuse" gets an
error, one that begins with "break" a stream that ends too soon."""

import http.server
import json
import sys
import threading

seen, most, running = [], 0, 0
lock = threading.Lock()
EVERY_ENDS_AT = 3


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/v1/models":
            return self.answer({"data": [{"id": "first"}, {"id": "second"}]})
        self.answer({"error": {"message": "not here"}}, 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self.answer({"count": 2, "tokens": [7, 41]})
        if not self.path.endswith("/completions"):
            return self.answer({"error": {"message": "not here"}}, 404)
        global most, running
        with lock:
            seen.append({"path": self.path, "authorization": self.headers.get("Authorization"), **body})
            running += 1
            most = max(most, running)
        self.wfile.write(self.stream(body))

    def ended(self, last: bytes) -> bytes:
        """Counts the request as ended before its last bytes go out: a client may send the next one at once."""
        global running
        with lock:
            running -= 1
        return last

    def event(self, value):
        data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def stream(self, body) -> bytes:
        """Sends the answer but for its last bytes, which it returns."""
        chat = "messages" in body
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        if isinstance(prompt, str) and prompt.startswith("refuse"):
            last = self.ended(b"")
            self.answer({"error": {"message": "refused, as asked"}}, 400)
            return last
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        count = body["max_completion_tokens" if chat else "max_tokens"]
        count = count if body.get("ignore_eos") else min(count, EVERY_ENDS_AT)
        if chat:
            self.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for i in range(count):
            if isinstance(prompt, str) and prompt.startswith("break") and i == 1:
                self.close_connection = True
                return self.ended(b"")
            text = f"t{i} "
            self.event({"choices": [{"index": 0, "delta": {"content": text}} if chat else {"index": 0, "text": text}]})
        if chat:
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        tokens = len(prompt.split()) if isinstance(prompt, str) else len(prompt)
        self.event({"choices": [], "usage": {"prompt_tokens": tokens, "completion_tokens": count,
                                             "prompt_tokens_details": {"cached_tokens": 1}}})
        self.event("[DONE]")
        return self.ended(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


if __name__ == "__main__":
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_address[1]}"}), flush=True)
    for _ in sys.stdin:
        with lock:
            print(json.dumps({"requests": seen, "most": most}), flush=True)
            seen.clear()
            most = 0
