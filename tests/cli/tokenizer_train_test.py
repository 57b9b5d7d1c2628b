"""easydel tokenizer-train, as a user would run it. usage: tokenizer_train_test.py EASYDEL"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

EASYDEL = sys.argv.pop()
TEXTS = ["Hello world", "don't stop, it's 2026!", "  tabs\tand\n\nlines ", "naïve 東京 🙂", "", "<|endoftext|>after"]


def run(*args) -> subprocess.CompletedProcess:
    return warm_start.run([EASYDEL, *map(str, args)], text=True, timeout=120)


class TokenizerTrain(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.out = self.directory / "new" / "out"
        rng = random.Random(1)
        words = "the of and Hello world stop naïve 東京 🙂 don't 2026 it's token model".split()
        self.files = []
        for i in range(2):
            self.files.append(self.directory / f"{i}.txt")
            lines = [" ".join(rng.choice(words) for _ in range(rng.randrange(12))) for _ in range(200)]
            self.files[-1].write_text("\n".join(lines))

    def train(self, *args) -> subprocess.CompletedProcess:
        return run("tokenizer-train", self.out, "--files", *self.files, *args)

    def test_transformers_loads_it_and_the_package_has_trained_the_same(self):
        done = self.train("--vocab-size", 310, "--special-token", "<|endoftext|>", "--special-token", "[PAD]",
                          "--pad-token", "[PAD]", "--bos-token", "<s>")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, f"wrote a vocabulary of 310 tokens and 51 merges to {self.out}\n")
        self.assertEqual(sorted(p.name for p in self.out.iterdir()), ["tokenizer.json", "tokenizer_config.json"])

        tokenizer = AutoTokenizer.from_pretrained(self.out)
        self.assertEqual((tokenizer.eos_token, tokenizer.eos_token_id), ("<|endoftext|>", 0))
        self.assertEqual((tokenizer.pad_token, tokenizer.pad_token_id), ("[PAD]", 1))
        self.assertEqual((tokenizer.bos_token, tokenizer.bos_token_id), ("<s>", 2))
        self.assertEqual(len(tokenizer), 310)

        theirs = Tokenizer(models.BPE())
        theirs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        theirs.train([str(file) for file in self.files], trainers.BpeTrainer(
            vocab_size=310, special_tokens=["<|endoftext|>", "[PAD]", "<s>"], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))  # fmt: skip
        for text in TEXTS:
            self.assertEqual(tokenizer(text)["input_ids"], theirs.encode(text).ids, text)
            self.assertEqual(tokenizer.decode(tokenizer(text)["input_ids"]), text)

    def test_an_end_of_text_is_there_without_being_asked_for(self):
        for pattern in ("gpt2", "llama3", "qwen2", r"\S+|\s+"):
            self.assertEqual(self.train("--vocab-size", 300, "--pattern", pattern, "--threads", 2).returncode, 0)
            tokenizer = AutoTokenizer.from_pretrained(self.out)
            self.assertEqual(tokenizer.all_special_tokens, ["<|endoftext|>"])
            for text in TEXTS:
                self.assertEqual(tokenizer.decode(tokenizer(text)["input_ids"]), text)

    def test_frequency_and_length_limit_the_merges(self):
        def merges(*args) -> list:
            self.assertEqual(self.train("--vocab-size", 5000, *args).returncode, 0)
            return json.loads((self.out / "tokenizer.json").read_text())["model"]["merges"]

        everything = merges()
        frequent = merges("--min-frequency", 200)
        self.assertEqual(frequent, everything[: len(frequent)])
        self.assertGreater(len(everything), len(frequent))
        self.assertLess(max(len(a + b) for a, b in merges("--max-token-length", 5)), 5)

    def check_refused(self, done: subprocess.CompletedProcess, code: int, message: str):
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        self.assertIn(message, done.stderr)
        self.assertEqual([p for p in self.out.parent.rglob("*") if p.is_file()], [])

    def test_what_cannot_be_done_is_said_and_leaves_no_file(self):
        self.check_refused(
            self.train("--vocab-size", 257, "--special-token", "<a>", "--special-token", "<b>"), 2,
            "easydel: [train_byte_level_bpe] vocab_size must be at least 258, for 256 bytes and 2 special tokens; got 257.\n"
            "Try: easydel tokenizer-train --help\n")  # fmt: skip
        self.check_refused(self.train("--pattern", "(["), 2, "the pattern is not a valid regular expression: ")
        self.check_refused(self.train("--min-frequency", "-1"), 2, "min_frequency must not be negative; got -1.")
        self.files = [self.directory / "empty.txt"]
        self.files[0].write_text("")
        self.check_refused(self.train(), 2, "the texts are empty; there is nothing to train on.")
        self.files[0].write_bytes(b"good\nbad \xff\n")
        self.check_refused(self.train(), 1, f"{self.files[0]} is not valid UTF-8 at byte 9.")
        self.files = [self.directory / "absent.txt"]
        self.check_refused(self.train(), 1, f"[{self.files[0]}] cannot be opened: No such file or directory.")
        self.files = [self.directory]
        self.check_refused(self.train(), 1, f"[{self.directory}] cannot be read: Is a directory.")

    def test_a_place_that_cannot_be_written_is_known_before_the_work(self):
        self.out = self.directory / "0.txt" / "out"
        done = self.train()
        self.assertEqual(done.returncode, 1)
        self.assertIn(str(self.directory / "0.txt"), done.stderr)
        self.assertNotIn("counting words", done.stderr)


if __name__ == "__main__":
    unittest.main()
