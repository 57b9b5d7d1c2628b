"""Every flag of `easydel serve` changes what the server does or says, or is refused by name. The flags are read from
--help: one without a probe fails. A few servers have many flags each, whose effects are told apart.
usage: serve_flags_test.py EASYDEL"""

import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import unittest

from flag_probes import EASYDEL, FlagProbes, flags_of, make_model

FEATURES = subprocess.run([EASYDEL, "--version"], capture_output=True, text=True).stdout
CHAT = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
KEY = "not to be guessed"
ORIGIN = "https://pages.example"
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


class Server:
    """`easydel serve` on a model, with an address once it listens."""

    def __init__(self, log, model, *flags, tls=None, key=""):
        self.log, self.tls, self.key, self.is_stopping = log, tls, key, False
        with log.open("w") as errors:
            self.process = subprocess.Popen([EASYDEL, "serve", *map(str, (model, *flags))], stdout=subprocess.PIPE,
                                            stderr=errors, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})

    def wait(self):
        found = re.match(r"listening on (https?)://([\d.]+):(\d+)\n", self.process.stdout.readline())
        assert found, f"it does not listen: {self.said()}"
        self.scheme, self.host, self.port = found[1], found[2], int(found[3])
        return self

    def said(self) -> str:
        return self.log.read_text()

    def connect(self) -> http.client.HTTPConnection:
        if self.scheme == "http":
            return http.client.HTTPConnection(self.host, self.port, timeout=60)
        return http.client.HTTPSConnection(self.host, self.port, timeout=60, context=ssl.create_default_context(cafile=self.tls))

    def send(self, connection, path, body=None, **headers):
        """The answer, of which nothing is read yet."""
        if self.key:
            headers = {"Authorization": f"Bearer {self.key}"} | headers
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data, headers)
        return connection.getresponse()

    def answer(self, path, body=None, **headers):
        """Status, headers and text."""
        connection = self.connect()
        try:
            answer = self.send(connection, path, body, **headers)
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def ask(self, path, body=None) -> dict:
        status, _, text = self.answer(path, body)
        assert status == 200, (status, text)
        return json.loads(text)

    def complete(self, prompt: list, count: int, **more) -> dict:
        return self.ask("/v1/completions", {"prompt": prompt, "max_tokens": count, "ignore_eos": True, "temperature": 0} | more)

    def totals(self, name: str) -> int:
        return self.ask("/dashboard/data")["totals"][name]

    def added(self, name: str, action) -> int:
        """How much the action adds to a counter of the engine."""
        before = self.totals(name)
        action()
        return self.totals(name) - before

    def end_amid_a_stream(self, count: int) -> tuple[int, bool]:
        """The exit status, and whether a stream that ran at SIGTERM came to its end."""
        connection = self.connect()
        answer = self.send(connection, "/v1/completions", {"prompt": [5], "max_tokens": count, "ignore_eos": True, "stream": True})
        text = answer.readline()
        self.begin_to_stop()
        try:
            text += answer.read()
        except (http.client.IncompleteRead, ConnectionError, ssl.SSLError) as error:
            text += getattr(error, "partial", b"")
        connection.close()
        return self.stop(), b"[DONE]" in text

    def begin_to_stop(self):
        if not self.is_stopping:  # a second signal would end it at once
            self.process.send_signal(signal.SIGTERM)
        self.is_stopping = True

    def stop(self) -> int:
        self.begin_to_stop()
        try:
            return self.process.wait(timeout=60)
        finally:
            self.process.kill()
            self.process.stdout.close()


@unittest.skipUnless("+BEAST" in FEATURES and "+OPENSSL" in FEATURES, "a build without the HTTP server or without TLS")
class ServeFlags(FlagProbes):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.served = cls.folder / "served"  # wide enough for the groups of nf4, long enough for a stream that takes a while
        make_model(cls.served, hidden_size=64, intermediate_size=64, max_position_embeddings=4096)
        cls.copy_tokenizer(cls.served)
        path = cls.served / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": CHAT}))

    def start(self, *flags, **more) -> Server:
        server = Server(self.directory / f"{self._testMethodName}-{len(self.servers)}.log", self.served, "--device", "cpu", *flags, **more)
        self.servers.append(server)
        self.addCleanup(server.stop)
        return server

    def start_all(self):
        """Plain, but for a small cache and small steps; one with the flags of the server; one and another with those of the
        engine; one on a mesh."""
        self.servers = []
        cert, key = self.directory / "cert.pem", self.directory / "key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                        "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.2", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        (self.directory / "chat.jinja").write_text("Well: " + CHAT)
        self.plain = self.start("--port", "0", "--num-pages", "512", "--max-num-batched-tokens", "16",
                                "--adapter", f"small={self.make_adapter('small', 1)}").wait()
        # The same port, which the other one has at another address.
        self.rich = self.start(
            "--host", "127.0.0.2", "--port", self.plain.port, "--api-key", KEY, "--tls-cert", cert, "--tls-key", key,
            "--cors-origin", ORIGIN, "--served-model-name", "one", "--served-model-name", "other", "--no-page",
            "--chat-template", self.directory / "chat.jinja", "--trust-request-chat-template", "--tool-parser", "hermes",
            "--reasoning-parser", "deepseek_r1", "--max-connections", "6", "--max-body-mib", "1", "--shutdown-timeout", "0",
            "--max-num-seqs", "1", "--max-waiting", "4", "--max-model-len", "2000", "--page-size", "8", "--num-pages", "300", "--seed", "5",
            tls=cert, key=KEY)
        self.guessing = self.start(
            "--port", "0", "--num-pages", "512", "--max-num-batched-tokens", "16", "--no-chunked-prefill", "--no-prefix-caching",
            "--data-parallel-size", "2", "--speculative-tokens", "3", "--ngram-min", "2", "--ngram-max", "3")
        self.rich.wait()
        self.drafting = self.start(
            "--port", "0", "--draft-model", self.served, "--gpu-memory-utilization", "0.00001", "--kv-cache-dtype", "int8",
            "--dtype", "bf16", "--param-dtype", "fp16", "--set", "max_position_embeddings=160")
        self.guessing.wait()
        self.meshed = self.start("--port", "0", "--num-pages", "512", "--devices", "2", "--mesh", "1,1,1,-1,1", "--request-timeout", "0.001")
        self.drafting.wait()
        self.meshed.wait()

    def test_serve(self):
        checks = [getattr(self, name) for name in dir(self) if name.startswith("check_flags_")]
        seen = set(REFUSED) | {flag for check in checks for flag in check.__doc__.split()}
        self.assertEqual(flags_of("serve") - seen, set(), "flags without a probe")
        self.assertEqual(seen - flags_of("serve"), set(), "probes of flags that are not there")
        self.start_all()
        self.check_flags_first_seed()
        for check in checks:
            if check != self.check_flags_first_seed:
                with self.subTest(flags=check.__doc__):
                    check()
        with self.subTest(flags="--shutdown-timeout"):
            self.assertEqual(self.plain.end_amid_a_stream(600), (0, True))
            self.assertEqual(self.rich.end_amid_a_stream(1900), (0, False))
        for server in self.servers:
            self.assertEqual(server.stop(), 0, server.said())

    # The docstring of a check lists the flags that it is about.

    def check_flags_first_seed(self):
        """--seed"""
        # Of the first request, which has none of its own; small steps, chunks and replicas change nothing.
        texts = [server.complete([5, 6, 7], 12, temperature=3)["choices"][0]["text"] for server in (self.plain, self.guessing, self.rich)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])

    def check_flags_address(self):
        """--host --port --tls-cert --tls-key"""
        self.assertEqual((self.plain.scheme, self.plain.host), ("http", "127.0.0.1"))
        self.assertEqual((self.rich.scheme, self.rich.host, self.rich.port), ("https", "127.0.0.2", self.plain.port))
        self.assertEqual(self.rich.answer("/health")[0], 200)  # by that certificate

    def check_flags_access(self):
        """--api-key --cors-origin --no-page"""
        self.assertEqual([self.plain.answer(path)[0] for path in ("/v1/models", "/", "/dashboard")], [200, 200, 200])
        self.assertEqual([self.rich.answer(path)[0] for path in ("/v1/models", "/", "/dashboard")], [200, 404, 404])
        self.assertEqual(self.rich.answer("/v1/models", Authorization="Bearer wrong")[0], 401)
        allowed = [server.answer("/health", Origin=ORIGIN)[1]["Access-Control-Allow-Origin"] for server in (self.plain, self.rich)]
        self.assertEqual(allowed, [None, ORIGIN])

    def check_flags_models(self):
        """--served-model-name --max-model-len --set"""
        cards = [[(card["id"], card["max_model_len"]) for card in server.ask("/v1/models")["data"]]
                 for server in (self.plain, self.rich, self.drafting)]
        name = str(self.served)
        self.assertEqual(cards, [[(name, 4096), ("small", 4096)], [("one", 2000), ("other", 2000)], [(name, 160)]])

    def check_flags_adapters(self):
        """--adapter"""
        texts = [self.plain.complete([5, 6, 7], 12, model=name)["choices"][0]["text"] for name in (str(self.served), "small")]
        self.assertNotEqual(*texts)

    def check_flags_templates(self):
        """--chat-template --trust-request-chat-template"""
        messages = [{"role": "user", "content": "It is"}]
        for server, before in ((self.plain, ""), (self.rich, "Well: ")):
            whole = server.ask("/tokenize", {"prompt": before + "user: It is\n"})["tokens"]
            self.assertEqual(server.ask("/tokenize", {"messages": messages})["tokens"], whole)
        own = {"messages": messages, "chat_template": "{{ messages[0].content }}"}
        self.assertEqual(self.plain.answer("/tokenize", own)[0], 400)
        self.assertEqual(self.rich.ask("/tokenize", own)["tokens"], self.rich.ask("/tokenize", {"prompt": "It is"})["tokens"])

    def check_flags_parsers(self):
        """--tool-parser --reasoning-parser"""
        chat = {"messages": [{"role": "user", "content": "It is"}], "max_tokens": 8, "ignore_eos": True, "temperature": 0}
        plain, rich = (server.ask("/v1/chat/completions", chat)["choices"][0]["message"] for server in (self.plain, self.rich))
        self.assertTrue(plain["content"])
        self.assertFalse(plain.get("reasoning_content"))
        self.assertTrue(rich["reasoning_content"])  # whose opening tag was in the prompt, by this format
        self.assertFalse(rich["content"])
        tools = chat | {"tools": [TOOL], "tool_choice": "auto"}
        self.assertEqual([server.answer("/v1/chat/completions", tools)[0] for server in (self.plain, self.rich)], [400, 200])

    def check_flags_limits(self):
        """--max-connections --max-body-mib --shutdown-timeout"""
        large = b'{"x": "' + b"a" * (2 << 20) + b'"}'
        self.assertEqual([server.answer("/tokenize", large)[0] for server in (self.plain, self.rich)], [400, 413])
        for server, status in ((self.plain, 200), (self.rich, 503)):
            open_ones = [server.connect() for _ in range(7)]
            statuses = []
            for connection in open_ones:
                answer = server.send(connection, "/health")
                statuses.append(answer.status)
                answer.read()
            for connection in open_ones:
                connection.close()
            self.assertEqual((statuses[0], statuses[-1]), (200, status))

    def check_flags_steps(self):
        """--max-num-seqs --max-num-batched-tokens --max-waiting --no-chunked-prefill"""
        prompt = list(range(10, 50))
        self.assertEqual(self.plain.added("steps", lambda: self.plain.complete(prompt, 1)), 3)  # 16, 16 and 8 tokens
        self.assertEqual(self.rich.added("steps", lambda: self.rich.complete(prompt, 1)), 1)
        self.assertLess(self.plain.added("steps", lambda: self.plain.complete([9], 8, n=4, temperature=1)), 32)
        self.assertEqual(self.rich.added("steps", lambda: self.rich.complete([9], 8, n=4, temperature=1)), 32)  # one by one
        many = {"prompt": [9], "max_tokens": 64, "ignore_eos": True, "n": 32}
        self.assertEqual([server.answer("/v1/completions", many)[0] for server in (self.plain, self.rich)], [200, 429])
        # Of 11 tokens a step of 16 holds one whole prompt; in chunks 5 of the next. At worst prompts arrive one by one.
        prompts = [[30 + i] * 11 for i in range(20)]
        self.assertTrue(any(self.plain.added("steps", lambda: self.plain.complete(prompts, 1)) < 20 for _ in range(10)))
        self.assertEqual(self.guessing.added("steps", lambda: self.guessing.complete(prompts, 1)), 20)

    def check_flags_cache(self):
        """--page-size --num-pages --no-prefix-caching --data-parallel-size --gpu-memory-utilization --kv-cache-dtype"""
        found = []
        for server in (self.plain, self.rich, self.guessing):
            for _ in range(3):  # each of two replicas has seen it before the last one
                usage = server.complete([200] * 30, 1)["usage"]
            found.append((usage["prompt_tokens_details"] or {}).get("cached_tokens", 0))
        self.assertEqual(found, [16, 24, 0])
        pages = [server.ask("/dashboard/data")["cache"]["pages"] for server in (self.plain, self.rich, self.guessing, self.drafting)]
        self.assertEqual(pages[:3], [512, 300, 2 * 512])
        memory = 1024 * int(re.search(r"MemTotal: *(\d+) kB", pathlib.Path("/proc/meminfo").read_text())[1])
        size = 2 * 2 * 16 * 2 * 16  # layers, keys and values, tokens, heads, numbers; a byte each
        self.assertLess(pages[3] * size, 0.00002 * memory)
        dtypes = [re.search(r"\[serve\] .* of (\w+); at most", server.said())[1] for server in (self.plain, self.drafting)]
        self.assertEqual(dtypes, ["float32", "int8"])

    def check_flags_speculation(self):
        """--speculative-tokens --ngram-min --ngram-max --draft-model"""
        def drafts(server, prompt):
            return server.added("draft_tokens", lambda: server.complete(prompt, 5, logit_bias={"9": 100}))

        self.assertEqual(drafts(self.plain, [9, 50, 60]), 0)
        # With the next token, 9, its last two come a second time in one of the prompts alone.
        self.assertGreater(drafts(self.guessing, [60, 9, 50, 60]), drafts(self.guessing, [9, 50, 60]))
        count = {name: self.drafting.added(name, lambda: self.drafting.complete([5, 6, 7], 16)) for name in ("draft_tokens", "accepted_tokens")}
        self.assertGreater(count["draft_tokens"], 3)
        self.assertGreater(count["accepted_tokens"], 0)

    def check_flags_model(self):
        """--dtype --param-dtype --devices --mesh --request-timeout"""
        told = [re.search(r"computing in .*", server.said())[0] for server in (self.plain, self.drafting, self.meshed)]
        self.assertEqual(told, [f"computing in {dtype} on cpu, weights stored in {stored}, mesh dp=1 fsdp=1 ep=1 tp={tp} sp=1"
                                for dtype, stored, tp in (("float32", "float32", 1), ("bfloat16", "float16", 1), ("float32", "float32", 2))])
        status, _, text = self.meshed.answer("/v1/completions", {"prompt": [5], "max_tokens": 1000, "ignore_eos": True})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (504, "timeout"))

    def test_serve_refuses(self):
        commands = [["serve", self.served, "--device", "cpu", "--port", "0", *flags] for flags, _ in REFUSALS]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (flags, words), done in zip(REFUSALS, pool.map(self.run_command, commands)):
                with self.subTest(flags=flags):
                    self.assertIn(done.returncode, (1, 2))
                    self.assertEqual(done.stdout, "")
                    self.assertIn(words, done.stderr)


# What is seen by its refusal alone: what it does is seen with the commands that share it, or on a GPU.
REFUSALS = [
    (["--device", "cuda:99"], "[device] cuda:99 "),
    (["--revision", "other"], "--revision other applies only to models on the Hub"),
    (["--task", "dancing"], "dancing"),
    (["--quantize", "dancing"], "dancing"),
    (["--quantize-pattern", "q_proj"], "--quantize-pattern q_proj needs --quantize METHOD."),
    (["--quantize", "nf4", "--quantize-group-size", "7"], "group"),
    (["--adapter", "nowhere"], '--adapter takes NAME=DIR; got "nowhere".'),
    (["--adapter", "one=nowhere/at-all"], "nowhere/at-all"),
    (["--no-graphs"], "--no-graphs applies only to CUDA graphs; got the device cpu. Leave it out, or use --device cuda."),
    (["--ngram-max", "3"], "[engine] ngram_max applies only to speculative decoding. Set num_speculative_tokens."),
    (["--speculative-tokens", "2", "--async-scheduling", "--no-page"],
     "async_scheduling is not supported with speculation, nor on a mesh."),
    (["--speculative-tokens", "2", "--ngram-max", "1", "--ngram-min", "2"], "ngram_min must be positive and at most ngram_max; got 2 and 1."),
    (["--gpu-memory-utilization", "0.5", "--num-pages", "9"],
     "--gpu-memory-utilization determines the number of pages; got --num-pages 9. Leave one of them out."),
    (["--tls-cert", "x.pem"], "--tls-cert and --tls-key must be given together."),
    (["--allowed-local-media-path", "."], "allowed_local_media_path applies to images, which the model does not accept."),  # else: models/llava_serve_test.py
    (["--allowed-media-domains", "*"], "allowed_media_domains applies to images, which the model does not accept."),  # likewise
    (["--tool-parser", "dancing"], "dancing"),
    (["--max-body-mib", "0"], "--max-body-mib must be from 1 to 4096; got 0."),
]
REFUSED = {flags[-2] if len(flags) > 1 else flags[0] for flags, _ in REFUSALS}


if __name__ == "__main__":
    unittest.main()
