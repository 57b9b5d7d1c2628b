"""What users and operators rely on: limits, leaving, stopping, options. usage: server_test.py EASYDEL [TEST…]
EASYDEL_ANSWERS: how many schema-bound answers and tool calls are checked."""

import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import unittest

EASYDEL = sys.argv.pop(1)

import jsonschema

from raw_http import (Answer, Wire, address, ask, ask_all, ask_raw, completion, metric, raise_descriptors, read_all, request, rss,
                      send_all, stream, until)
from tiny_server import CONTEXT, KEY, MESSAGES, MODEL, SECOND_TOOL, TOOL, Server, TinyModel

LONG = CONTEXT - 100  # tokens of an answer that takes a while
MIB = 1 << 20
ANSWERS = int(os.environ.get("EASYDEL_ANSWERS", "1000"))
DESCRIPTORS = raise_descriptors(20000)


def setUpModule():
    global folder, tiny, server
    folder = tempfile.TemporaryDirectory()
    tiny = TinyModel(pathlib.Path(folder.name) / "model")
    server = Server(EASYDEL, tiny.path).__enter__()


def tearDownModule():
    server.__exit__()
    folder.cleanup()


def is_idle(of: Server) -> bool:
    return all(metric(of, name) == 0 for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"))


def submitted(of: Server) -> float:
    """Requests so far. In this order one that goes from waiting to running to its end is missed, never counted twice."""
    return sum(metric(of, name) for name in ("request_success_total", "num_requests_running", "num_requests_waiting"))


def chat(**options) -> dict:
    return {"model": MODEL, "messages": MESSAGES} | options


class Refusals(unittest.TestCase):
    def refused(self, status: int, answer: Answer, *words) -> dict:
        self.assertEqual(answer.status, status, answer.body)
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertTrue(answer.is_whole)
        error = answer.error()
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        for word in words:
            self.assertIn(word, error["message"])
        return error

    def test_keys(self):
        for key in ("", "x", KEY[:-1], KEY + "x", KEY + KEY, KEY[:-1] + "x", "x" * len(KEY), KEY.upper(), "x" * 10000):
            self.refused(401, ask(server, "/v1/models", key=key))
            answer = ask(server, "/v1/completions", completion(max_tokens=1), key=key)
            self.assertIn("Bearer", answer.headers["www-authenticate"])
            self.refused(401, answer)
        self.refused(401, ask(server, "/v1/models", key=None))
        self.refused(401, ask(server, "/v1/models", key=None, Authorization=f"Basic {KEY}"))
        self.assertEqual(ask(server, "/v1/models", key=None, authorization=f"bearer {KEY}").status, 200)
        self.assertEqual(ask(server, "/health", key=None).status, 200)

    def test_a_huge_body(self):
        head = request("/v1/completions", Content_Length=17 * MIB, method="POST")
        self.refused(413, ask_raw(server, head))  # before any of it is sent
        before = rss(server)
        chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
        self.refused(413, ask_raw(server, request("/v1/completions", method="POST", Transfer_Encoding="chunked") + chunk * 20))
        self.assertLess(rss(server) - before, 64 * MIB)

    def test_a_huge_header(self):
        self.refused(431, ask_raw(server, request("/health", X_Long="x" * 20000)))
        self.refused(431, ask_raw(server, request("/health", **{f"X_{i}": "x" for i in range(300)})))

    def test_malformed_json(self):
        for body in (b'{"model": "tiny",\n "prompt": }', b'{"prompt": "a"', b"", b'{"prompt": "a"} x', b"[" * 100000, b'{"a": "\x01"}'):
            for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/tokenize"):
                error = self.refused(400, ask(server, path, body))
                self.assertRegex(error["message"], r"(line|byte|column|offset|position) \d+")
        self.refused(400, ask(server, "/v1/completions", b"[1]"), "object")

    def test_bad_utf_8(self):
        for text in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf"):
            for path in ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/tokenize"):
                self.refused(400, ask(server, path, b'{"prompt": "' + text + b'"}'), "UTF-8", "byte 12")
        self.refused(400, ask_raw(server, b"GET /%ff HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))

    def test_a_prompt_that_is_too_long(self):
        count = CONTEXT + 7
        self.refused(400, ask(server, "/v1/completions", completion([5] * count)), str(CONTEXT), str(count))
        text = "it was " * CONTEXT
        turns = [{"role": "user", "content": text}]
        length = str(len(tiny.chat_ids(turns)))
        self.refused(400, ask(server, "/v1/chat/completions", chat(messages=turns)), str(CONTEXT), length)
        self.refused(400, ask(server, "/v1/responses", {"model": MODEL, "input": turns}), str(CONTEXT), length)
        self.refused(400, ask(server, "/v1/embeddings", {"model": MODEL, "input": text}), str(CONTEXT), str(len(tiny.ids(text))))

    def test_unknown_names(self):
        for path, body in (("/v1/completions", completion(model="other")), ("/v1/chat/completions", chat(model="other")),
                           ("/v1/models/other", None)):
            self.assertEqual(self.refused(404, ask(server, path, body), "other")["code"], "model_not_found")
        self.refused(404, ask(server, "/v1/other"), "/v1/other")
        self.refused(400, ask(server, "/v1/completions", completion(temprature=1)), "temprature")

    def test_methods(self):
        for method, path, allowed in (("GET", "/v1/completions", "POST"), ("DELETE", "/v1/models", "GET"), ("PUT", "/health", "GET")):
            answer = ask(server, path, method=method)
            self.refused(405, answer, method)
            self.assertIn(allowed, answer.headers["allow"])

    def test_grammars_that_cannot_be_compiled(self):
        bad = {"guided_regex": "(", "guided_grammar": "root ::= missing", "guided_choice": [],
               "guided_json": {"type": "nothing"}, "response_format": {"type": "json_schema", "json_schema": {
                   "name": "a", "schema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/missing"}}}}}}
        for field, value in bad.items():
            for streams in (False, True):
                with self.subTest(field=field, stream=streams):
                    self.refused(400, ask(server, "/v1/chat/completions", chat(stream=streams, max_tokens=5, **{field: value})))
        until(lambda: is_idle(server), "a refused request leaves nothing behind")

    def test_an_unsatisfiable_schema(self):
        """Whatever it is answered, it is answered, and in the API's shape."""
        schema = {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"], "additionalProperties": False}
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        answer = ask(server, "/v1/chat/completions", chat(response_format=form, max_tokens=5))
        self.assertIn("error" if answer.status != 200 else "choices", answer.json())
        self.assertIn(answer.status, (200, 400))


class Leaving(unittest.TestCase):
    def leave(self, wires: list[Wire]):
        before = metric(server, "generation_tokens_total")
        for wire in wires:
            wire.close()
        until(lambda: is_idle(server), "no request runs, and all pages are free")
        self.assertLess(metric(server, "generation_tokens_total") - before, LONG)

    def test_in_the_middle_of_streams(self):
        wires = [stream(server, completion(f"It was {i}", max_tokens=LONG, n=2)) for i in range(4)]
        wires += [stream(server, chat(max_tokens=LONG, ignore_eos=True), "/v1/chat/completions")]
        self.assertGreater(metric(server, "kv_cache_usage_perc"), 0)
        self.leave(wires)

    def test_before_an_answer_that_comes_as_a_whole(self):
        wires = [Wire(server).send(request("/v1/completions", completion(max_tokens=LONG))) for _ in range(4)]
        until(lambda: metric(server, "num_requests_running") == 4, "four requests run")
        self.leave(wires)

    def test_while_the_grammar_is_compiled(self):
        wires = [Wire(server).send(request("/v1/completions", completion(
            max_tokens=LONG, ignore_eos=False, guided_regex=f"[a-z ]{{{LONG}}}{i}{LONG}"))) for i in range(8)]
        until(lambda: metric(server, "num_requests_waiting") + metric(server, "num_requests_running") >= 4, "they are there")
        self.leave(wires)

    def test_a_reader_that_never_reads(self):
        before, cancelled = rss(server), metric(server, "request_success_total", "cancelled")
        body = chat(max_tokens=LONG, ignore_eos=True, n=8, logprobs=True, top_logprobs=20, stream=True)
        with Wire(server, receive_buffer=4096).send(request("/v1/chat/completions", body)) as wire:
            until(lambda: metric(server, "request_success_total", "cancelled") == cancelled + 8, "its requests are cancelled")
            self.assertEqual(ask(server, "/v1/completions", completion(max_tokens=4)).status, 200)
            self.assertLess(rss(server) - before, 64 * MIB)
            until(lambda: is_idle(server), "its pages are free")
            data = wire.read_all()
        self.assertNotIn(b"[DONE]", data)
        self.assertFalse(Answer(data).is_whole)


class Stopping(unittest.TestCase):
    def is_refused(self, of: Server) -> bool:
        try:
            Wire(of).close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:  # it was in the queue when that was closed
            pass
        return False

    def kept(self, wire: Wire) -> Wire:
        self.addCleanup(wire.close)
        return wire

    def start(self, *options) -> Server:
        started = Server(EASYDEL, tiny.path, *options).__enter__()
        self.addCleanup(self.end, started)
        return started

    def end(self, started: Server):
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()
        started.reader.join()
        started.process.stdout.close()

    def status(self, of: Server) -> int:
        code = of.process.wait(60)
        of.reader.join()
        return code

    def test_streams_end_and_nothing_new_is_taken(self):
        one = self.start()
        idle = self.kept(Wire(one)).send(request("/health"))
        idle.read_until(b"\r\n\r\n")
        count = 1500
        body = completion(max_tokens=count, stream_options={"include_usage": True})
        wires = [self.kept(stream(one, body | {"prompt": f"It was {i}"})) for i in range(3)]
        whole = self.kept(Wire(one)).send(request("/v1/completions", completion(max_tokens=count)))
        until(lambda: metric(one, "num_requests_running") == 4, "all run")
        one.process.send_signal(signal.SIGTERM)
        until(lambda: self.is_refused(one), "new connections are refused")
        self.assertIsNone(one.process.poll())
        self.assertEqual(idle.read_all(), b"")
        with contextlib.suppress(ConnectionError):  # a second request on a connection that is busy
            wires[0].send(request("/v1/completions", completion(max_tokens=1)))
        for wire in wires:
            answer = Answer(wire.begun + wire.read_all())
            *_, last, usage, done = answer.events()
            self.assertTrue(answer.is_whole)
            self.assertEqual((last["choices"][0]["finish_reason"], usage["usage"]["completion_tokens"], done), ("length", count, "[DONE]"))
        answer = Answer(whole.read_all())
        self.assertEqual((answer.status, answer.json()["usage"]["completion_tokens"]), (200, count))
        self.assertEqual(self.status(one), 0, "".join(one.lines))

    def test_a_second_signal_stops_at_once(self):
        one = self.start()
        wire = self.kept(stream(one, completion(max_tokens=LONG, n=64)))
        one.process.send_signal(signal.SIGINT)
        until(lambda: self.is_refused(one), "new connections are refused")
        self.assertIsNone(one.process.poll())
        one.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.status(one), -signal.SIGTERM)
        self.assertNotIn(b"[DONE]", wire.read_all())

    def test_what_takes_too_long_is_ended(self):
        one = self.start("--shutdown-timeout", "0.2")
        wires = [self.kept(stream(one, completion(max_tokens=LONG, n=64))) for _ in range(4)]
        one.process.send_signal(signal.SIGTERM)
        for wire in wires:
            self.assertNotIn(b"[DONE]", wire.read_all())
        self.assertEqual(self.status(one), 0, "".join(one.lines))

    def test_time_limit_of_answers_and_a_signal_when_idle(self):
        one = self.start("--request-timeout", "1")
        long = completion(max_tokens=LONG, n=64)
        whole, begun = read_all(send_all(one, [request("/v1/completions", long | {"stream": streams}, Connection="close")
                                               for streams in (False, True)]))
        self.assertEqual((whole.status, whole.error()["code"]), (504, "timeout"))
        self.assertEqual(begun.status, 200)
        *_, error, done = begun.events()
        self.assertEqual((error["error"]["code"], done, begun.is_whole), ("timeout", "[DONE]", True))
        until(lambda: is_idle(one), "what took too long has been cancelled")
        self.assertEqual(ask(one, "/v1/completions", completion(max_tokens=2)).status, 200)
        one.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.status(one), 0, "".join(one.lines))


class Crowds(unittest.TestCase):
    def hold(self, one: Server, slots: int) -> Wire:
        """A stream that takes all slots for as long as it is open, many times over."""
        wire = stream(one, completion(max_tokens=LONG, n=32 * slots))
        until(lambda: metric(one, "num_requests_running") == slots, "all slots are taken")
        return wire

    def test_a_limited_queue(self):
        with Server(EASYDEL, tiny.path, "--max-num-seqs", 1, "--max-waiting", 4) as one:
            with stream(one, completion(max_tokens=LONG)):
                sockets = send_all(one, [request("/v1/completions", completion(max_tokens=1), Connection="close")] * 40)
                until(lambda: metric(one, "http_errors_total", '"429"') >= 36, "all but four are refused")
            answers = read_all(sockets)
            self.assertNotIn(None, answers)
            statuses = [answer.status for answer in answers]
            self.assertEqual((statuses.count(200), statuses.count(429)), (4, 36))
            for answer in answers:
                if answer.status == 429:
                    self.assertGreaterEqual(int(answer.headers["retry-after"]), 1)
                    self.assertEqual(answer.error()["type"], "rate_limit_error")
            self.assertEqual(ask(one, "/v1/completions", completion(max_tokens=1)).status, 200)

    def test_many_connections(self):
        streams, crowd = 2000, min(10000, DESCRIPTORS - 500)
        with Server(EASYDEL, tiny.path, "--max-num-seqs", 8, "--max-connections", 12000) as one:
            wire = self.hold(one, 8)
            before, held = rss(one), submitted(one)
            sockets = send_all(one, [request("/v1/completions", completion(max_tokens=LONG, stream=True))] * streams)
            until(lambda: submitted(one) >= held + streams, "all streams wait")
            each = (rss(one) - before) / streams
            print(f"{streams} streams that wait: {each / 1024:.1f} KiB each")
            self.assertLess(each, 100 << 10)
            for idle in sockets:
                idle.close()
            until(lambda: metric(one, "request_success_total", "cancelled") == streams, "those that left are forgotten")

            sockets = send_all(one, [request("/v1/completions", completion(max_tokens=1), Connection="close")] * crowd)
            until(lambda: metric(one, "http_errors_total", '"429"') + submitted(one) >= held + streams + crowd,
                  f"{crowd} requests wait or are refused")
            grown = rss(one) - before
            self.assertLess(grown, 512 * MIB)
            wire.close()
            answers = read_all(sockets)
            self.assertNotIn(None, answers)
            statuses = [answer.status for answer in answers]
            print(f"{crowd} requests at once: {statuses.count(200)} answers, {statuses.count(429)} refusals, "
                  f"{grown / MIB:.0f} MiB more")
            self.assertEqual(statuses.count(200) + statuses.count(429), crowd)
            self.assertGreater(statuses.count(200), crowd // 3)
            self.assertTrue(all(answer.is_whole for answer in answers))
            self.assertTrue(all("retry-after" in answer.headers for answer in answers if answer.status == 429))
            until(lambda: is_idle(one), "nothing is left")
            self.assertLess(rss(one) - before, 512 * MIB)

    def test_more_connections_than_descriptors_by_default(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        one = Server(EASYDEL, tiny.path)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with one:
            wires = [Wire(one).send(request("/health")) for _ in range(600)]
            for wire in wires:
                self.assertIn(b" 200 ", wire.read_until(b"\r\n\r\n"))
                self.addCleanup(wire.close)


class Options(unittest.TestCase):
    def test_options(self):
        if not shutil.which("openssl"):
            self.skipTest("there is no openssl to make a certificate with")
        place = pathlib.Path(folder.name)
        cert, key, template = place / "cert.pem", place / "key.pem", place / "chat.jinja"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        template.write_text("{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}")
        with Server(EASYDEL, tiny.path, "--tls-cert", cert, "--tls-key", key, "--cors-origin", "https://page.example", "--chat-template",
                    template, "--max-model-len", 64, "--no-page", names=("first", "second")) as one:
            self.tls = ssl.create_default_context(cafile=cert)
            self.assertTrue(one.url.startswith("https://"))
            self.check_names(one)
            self.check_template(one)
            self.check_origins(one)
            for path in ("/", "/dashboard"):
                self.assertEqual(ask(one, path, tls=self.tls).status, 404)
            with self.assertRaises(ssl.SSLCertVerificationError):
                ask(one, "/health", tls=ssl.create_default_context())
            self.assertEqual(ask(one, "/health", tls=self.tls).status, 200)  # and it goes on

    def check_names(self, one: Server):
        models = ask(one, "/v1/models", tls=self.tls).json()["data"]
        self.assertEqual([(model["id"], model["max_model_len"]) for model in models], [("first", 64), ("second", 64)])
        for name in ("first", "second"):
            answer = ask(one, "/v1/completions", completion(model=name, max_tokens=3), tls=self.tls).json()
            self.assertEqual((answer["model"], answer["choices"][0]["text"]), (name, tiny.text(tiny.greedy(tiny.ids("It was"), 3))))
        self.assertEqual(ask(one, "/v1/completions", completion(max_tokens=3), tls=self.tls).status, 404)
        refused = ask(one, "/v1/completions", completion([5] * 65, model="first"), tls=self.tls)
        self.assertEqual(refused.status, 400)
        self.assertRegex(refused.error()["message"], r"\b64\b.*\b65\b")
        answer = ask(one, "/v1/completions", completion([5] * 60, model="first", stream=True), tls=self.tls).events()
        self.assertEqual((answer[-2]["choices"][0]["finish_reason"], answer[-1]), ("length", "[DONE]"))

    def check_template(self, one: Server):
        tokens = ask(one, "/tokenize", {"model": "first", "messages": MESSAGES}, tls=self.tls).json()["tokens"]
        text = "".join(f"[{message['role']}] {message['content']}" for message in MESSAGES)
        self.assertEqual(tokens, tiny.ids(text))

    def check_origins(self, one: Server):
        asks = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization, content-type"}
        allowed = ask(one, "/v1/completions", method="OPTIONS", key=None, Origin="https://page.example", tls=self.tls, **asks)
        self.assertIn(allowed.status, (200, 204))
        self.assertEqual(allowed.headers["access-control-allow-origin"], "https://page.example")
        self.assertIn("POST", allowed.headers["access-control-allow-methods"])
        self.assertIn("authorization", allowed.headers["access-control-allow-headers"].lower())
        answer = ask(one, "/v1/models", Origin="https://page.example", tls=self.tls)
        self.assertEqual(answer.headers["access-control-allow-origin"], "https://page.example")
        for other in (ask(one, "/v1/models", Origin="https://other.example", tls=self.tls), ask(server, "/v1/models", Origin="https://page.example")):
            self.assertEqual(other.status, 200)
            self.assertNotIn("access-control-allow-origin", other.headers)

    def test_pages(self):
        for path in ("/", "/dashboard"):
            page = ask(server, path, key=None)
            self.assertEqual(page.status, 200)
            self.assertTrue(page.headers["content-type"].startswith("text/html"))
            self.assertTrue(page.is_whole)


def closed(**properties) -> dict:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


SCHEMAS = [
    closed(color={"type": "string", "enum": ["red", "blue", "智慧"]}, ok={"type": "boolean"}),
    closed(count={"type": "integer", "minimum": -3, "maximum": 250}, nothing={"type": "null"}),
    closed(name={"type": "string", "maxLength": 8}, code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"}),
    closed(points={"type": "array", "items": closed(x={"type": "integer"}, y={"type": "number"}), "minItems": 1, "maxItems": 3}),
    {"anyOf": [closed(kind={"const": "circle"}, radius={"type": "number"}), closed(kind={"const": "none"})]},
    {"$defs": {"node": closed(value={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})},
     "$ref": "#/$defs/node"},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 1, "maxLength": 4}, "b": {"type": "boolean"}},
     "required": ["b"], "additionalProperties": False},
]
THIRD_TOOL = {"type": "function", "function": {"name": "note", "parameters": closed(
    text={"type": "string", "maxLength": 12}, tags={"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    place=closed(line={"type": "integer", "minimum": 0, "maximum": 99}))}}
TOOLS = [TOOL, SECOND_TOOL, THIRD_TOOL]


class Structured(unittest.TestCase):
    """Random weights at temperature 1: what is right here is right by the grammar alone."""

    def ask_chats(self, bodies: list[dict]) -> list[dict]:
        answers = ask_all(server, [request("/v1/chat/completions", body, Connection="close") for body in bodies])
        for answer in answers:
            self.assertIsNotNone(answer)
            self.assertEqual(answer.status, 200, answer.body)
        return [answer.json()["choices"][0] for answer in answers]

    def test_answers_follow_their_schemas(self):
        bodies = [chat(temperature=1, seed=i, max_tokens=(12, 60, 240)[i % 3], response_format={"type": "json_schema", "json_schema": {
            "name": "answer", "strict": True, "schema": SCHEMAS[i % len(SCHEMAS)]}}) for i in range(ANSWERS)]
        reasons = []
        for i, choice in enumerate(self.ask_chats(bodies)):
            reasons.append(choice["finish_reason"])
            if choice["finish_reason"] == "stop":
                with self.subTest(i=i, text=choice["message"]["content"]):
                    jsonschema.validate(json.loads(choice["message"]["content"]), SCHEMAS[i % len(SCHEMAS)])
        print(f"{ANSWERS} answers by schema: {reasons.count('stop')} end, {reasons.count('length')} break off")
        self.assertEqual(reasons.count("stop") + reasons.count("length"), ANSWERS)
        self.assertGreater(reasons.count("stop"), ANSWERS // 2)
        self.assertGreater(reasons.count("length"), 0)

    def test_tool_calls_round_trip(self):
        bodies = [chat(temperature=1, seed=i, max_tokens=400, tools=TOOLS, tool_choice="required", parallel_tool_calls=bool(i % 2))
                  for i in range(ANSWERS)]
        schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}
        follow, names, broken_off = [], [], 0
        for i, choice in enumerate(self.ask_chats(bodies)):
            if choice["finish_reason"] == "length":
                broken_off += 1
                continue
            self.assertEqual(choice["finish_reason"], "tool_calls")
            calls = choice["message"]["tool_calls"]
            self.assertTrue(calls)
            self.assertTrue(i % 2 or len(calls) == 1)
            for call in calls:
                with self.subTest(i=i, call=call):
                    names.append(call["function"]["name"])
                    jsonschema.validate(json.loads(call["function"]["arguments"]), schemas[call["function"]["name"]])
            results = [{"role": "tool", "tool_call_id": call["id"], "content": "done"} for call in calls]
            follow.append(chat(messages=[*MESSAGES, choice["message"], *results], max_tokens=1, tools=TOOLS))
        print(f"{len(names)} calls in {len(follow)} answers, {broken_off} break off")
        self.assertGreater(len(follow), ANSWERS * 3 // 4)
        self.assertEqual(set(names), set(schemas))
        self.ask_chats(follow)  # the calls are taken back as they were given


if __name__ == "__main__":
    unittest.main(verbosity=2)
