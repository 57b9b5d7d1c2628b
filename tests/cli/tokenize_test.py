"""easydel tokenize as a user runs it, beside the tokenizers package. usage: tokenize_test.py EASYDEL"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "reference"))
from tokenizers import Tokenizer
from tokenizers_draw import Texts
from tokenizers_kinds import make

EASYDEL = sys.argv.pop()


def run(*args, stdin: str = "", env: dict | None = None) -> subprocess.CompletedProcess:
    return warm_start.run([EASYDEL, "tokenize", *map(str, args)], input=stdin.encode(), timeout=120,
                          env=os.environ | (env or {}))  # fmt: skip


class Tokenize(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.temporary.name) / "model"
        cls.directory.mkdir()
        cls.file = cls.directory / "tokenizer.json"
        cls.file.write_text(make("llama3"), encoding="utf-8")
        cls.peer = Tokenizer.from_file(str(cls.file))
        texts = Texts(3, ["<|eot_id|>"])
        cls.texts = ["", "Hello, wörld!"] + [texts.draw() for _ in range(600)]
        cls.lines = "".join(json.dumps(text) + "\n" for text in cls.texts)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def output(self, *args, **more) -> str:
        done = run(*args, **more)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def failure(self, *args, **more) -> str:
        done = run(*args, **more)
        self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
        return done.stderr.decode()

    def test_lines_become_ids_in_order_on_any_number_of_threads(self):
        for threads in (0, 1, 3):
            out = self.output(self.directory, "--jsonl", "-", "--threads", threads, stdin=self.lines)
            self.assertEqual([json.loads(line) for line in out.splitlines()], [e.ids for e in self.peer.encode_batch(self.texts)])

    def test_lines_of_a_file_without_special_tokens(self):
        path = self.directory / "lines.jsonl"
        path.write_text(self.lines, encoding="utf-8")
        out = self.output(self.file, "--jsonl", path, "--no-special-tokens")
        expected = [e.ids for e in self.peer.encode_batch(self.texts, add_special_tokens=False)]
        self.assertEqual([json.loads(line) for line in out.splitlines()], expected)

    def test_offsets_are_bytes(self):
        out = self.output(self.file, "--jsonl", "-", "--offsets", stdin=self.lines)
        for text, line in zip(self.texts, out.splitlines(), strict=True):
            row = json.loads(line)
            encoding = self.peer.encode(text)
            expected = [[len(text[:edge].encode()) for edge in offset] for offset in encoding.offsets]
            self.assertEqual((row["ids"], row["offsets"]), (encoding.ids, expected))

    def test_ids_become_lines(self):
        ids = [e.ids for e in self.peer.encode_batch(self.texts)]
        stdin = "".join(json.dumps(row) + "\n" for row in ids)
        for flags, skip in ((["--no-special-tokens"], True), ([], False)):
            out = self.output(self.directory, "--jsonl", "-", "--decode", *flags, stdin=stdin)
            self.assertEqual([json.loads(line) for line in out.split("\n")[:-1]], self.peer.decode_batch(ids, skip_special_tokens=skip))

    def test_one_text_is_printed_to_be_read(self):
        encoding = self.peer.encode("Hello, wörld!")
        report = json.loads(self.output(self.file, "Hello, wörld!", "--json", "--offsets"))
        self.assertEqual((report["ids"], report["tokens"]), (encoding.ids, encoding.tokens))
        rows = self.output(self.file, "Hello, wörld!").splitlines()
        self.assertEqual([int(row.split()[0]) for row in rows[1:-1]], encoding.ids)
        self.assertEqual([json.loads(row.split(None, 1)[1]) for row in rows[1:-1]], encoding.tokens)
        self.assertEqual(rows[-1], f"{len(encoding.ids)} tokens")
        self.assertEqual(self.output(self.file, json.dumps(encoding.ids), "--decode", "--no-special-tokens"), "Hello, wörld!\n")

    def test_a_name_is_looked_up_in_the_cache_of_the_hub(self):
        cache = pathlib.Path(self.temporary.name) / "cache"
        commit = "0123456789abcdef0123456789abcdef01234567"
        snapshot = cache / "models--org--name/snapshots" / commit
        snapshot.mkdir(parents=True)
        (snapshot / "tokenizer.json").write_bytes(self.file.read_bytes())
        (cache / "models--org--name/refs").mkdir()
        (cache / "models--org--name/refs/main").write_text(commit)
        env = {"HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
        out = self.output("org/name", "--jsonl", "-", stdin='"Hello"\n', env=env)
        self.assertEqual(json.loads(out), self.peer.encode("Hello").ids)

    def test_what_is_wrong_is_said(self):
        self.assertIn("line 2 must be a JSON string; got an integer", self.failure(self.file, "--jsonl", "-", stdin='"a"\n1\n'))
        self.assertIn("line 1", self.failure(self.file, "--jsonl", "-", stdin="Hello\n"))
        self.assertIn("must hold ids; got -1", self.failure(self.file, "--jsonl", "-", "--decode", stdin="[-1]\n"))
        self.assertIn("cannot open", self.failure(self.file, "--jsonl", self.directory / "none"))
        done = run(self.file)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"either TEXT or --jsonl FILE is required", done.stderr)


if __name__ == "__main__":
    unittest.main()
