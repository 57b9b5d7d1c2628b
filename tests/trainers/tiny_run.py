"""A tiny model, texts, and `easydel train` on them, for tests of whole runs. The program is the last argument."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

EASYDEL = sys.argv.pop()
DRAWS = int(os.environ.get("EASYDEL_DRAWS", "20"))
BOOK = pathlib.Path(__file__).parents[2] / "examples" / "demo" / "pride_and_prejudice.txt"
VARIABLES = {"OMP_NUM_THREADS": "1", "EASYDEL_LOG_BATCHES": "1"}
torch.set_num_threads(1)


def make_model(directory, architecture=LlamaConfig, **changes):
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 max_position_embeddings=128) if architecture is LlamaConfig else {}
    ids = dict(vocab_size=300, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(architecture(**(ids | sizes | changes)))
    model.save_pretrained(directory)
    return model


def make_tokenizer(directory, text):
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<pad>", "<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>")
    tokenizer.save_pretrained(directory)
    return tokenizer


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def tensor_bytes(path):
    return {name: (tensor.dtype, tuple(tensor.shape), tensor.numpy().tobytes()) for name, tensor in load_file(path).items()}


class TinyRun(unittest.TestCase):
    """A folder with model/, one.jsonl (24 rows), two.jsonl (16 rows) and held_out.jsonl (10 rows)."""

    @classmethod
    def setUpClass(cls):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # many small files, all synced
        cls.temporary = tempfile.TemporaryDirectory(dir=memory)
        cls.folder = pathlib.Path(cls.temporary.name)
        text = BOOK.read_text(encoding="utf-8")
        cls.tokenizer = make_tokenizer(cls.folder / "model", text[:60000])
        cls.model = make_model(cls.folder / "model")
        paragraphs = [p.replace("\n", " ") for p in text.split("\n\n") if len(p) > 150][20:70]
        cls.texts = [p[:20 + 37 * i % 130] for i, p in enumerate(paragraphs)]
        for name, rows in (("one", cls.texts[:24]), ("two", cls.texts[24:40]), ("held_out", cls.texts[40:])):
            write_rows(cls.folder / f"{name}.jsonl", [{"text": row} for row in rows])

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def ids(self, text, length=48):
        """A row as the run reads it: with its end, and the last tokens of it."""
        return self.tokenizer(text + "</s>")["input_ids"][-length:]

    def command(self, output, *more, steps=40, data=("one", "two"), model="model"):
        files = [part for name in data for part in ("--data", f"{self.folder / name}.jsonl")]
        options = {"--steps": steps, "--batch": 4, "--length": 48, "--learning-rate": "1e-2", "--save-steps": 2}
        defaults = [part for name, value in options.items() if name not in more and value is not None for part in (name, value)]
        return [str(part) for part in [EASYDEL, "train", self.folder / model, *files, "--output", self.folder / output,
                                       "--json", "--set", "progress_bar_type=none", *defaults, *more]]

    def start(self, output, *more, environment={}, preexec_fn=None, restore_signals=True, **options):
        return subprocess.Popen(self.command(output, *more, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=os.environ | VARIABLES | environment, preexec_fn=preexec_fn,
                                restore_signals=restore_signals)

    def end(self, process, code=0):
        out, err = process.communicate(timeout=120)
        return self.ended(process.returncode, out, err, code)

    def ended(self, returned, out, err, code=0):
        self.assertEqual(returned, code, err)
        return (out, err) if code == 1 else (json.loads(out), err)

    def train(self, output, *more, environment={}, **options):
        done = warm_start.run(self.command(output, *more, **options), text=True, timeout=120,
                              env=os.environ | VARIABLES | environment)
        return self.ended(done.returncode, done.stdout, done.stderr)[0]

    def fails(self, output, *more, **options):
        """The error that ends a run, with paths from the folder on."""
        out, err = self.end(self.start(output, *more, **options), 1)
        self.assertEqual(out, "")
        self.assertEqual(err.count("easydel: "), 1, err)
        return err[err.index("easydel: ") + len("easydel: "):].removesuffix("\n").replace(str(self.folder) + "/", "")

    def log(self, output):
        """Lines of metrics.jsonl: those of steps and those of evaluations, each by step."""
        steps, evaluations = {}, {}
        for line in (self.folder / output / "metrics.jsonl").read_text().splitlines():
            row = json.loads(line)
            rows = evaluations if "eval_loss" in row else steps
            self.assertNotIn(row["step"], rows, f"step {row['step']} twice")
            rows[row["step"]] = row
        self.assertEqual(list(steps), sorted(steps))
        return steps, evaluations

    def curve(self, output, key="loss"):
        return [row[key] for row in self.log(output)[0].values()]

    def checkpoints(self, output):
        return sorted(int(path.name[4:]) for path in (self.folder / output).glob("run-*"))

    def same_weights(self, one, other, step):
        """Every safetensors file of the two checkpoints: the model, adapters, the optimizer, averages."""
        roots = [self.folder / run / f"run-{step}" for run in (one, other)]
        names = [sorted(str(path.relative_to(root)) for path in root.rglob("*.safetensors")) for root in roots]
        self.assertEqual(*names)
        self.assertGreater(len(names[0]), 0)
        for name in names[0]:
            self.assertEqual(*(tensor_bytes(root / name) for root in roots), name)

    def largest_weight_difference(self, one, other, step):
        """Of the model's weights in the two checkpoints."""
        roots = [self.folder / run / f"run-{step}" for run in (one, other)]
        first, second = ({name: tensor for path in sorted(root.glob("model*.safetensors"))
                          for name, tensor in load_file(path).items()} for root in roots)
        self.assertEqual(list(first), list(second))
        self.assertGreater(len(first), 0)
        return max((first[name].double() - second[name].double()).abs().max().item() for name in first)

    def remove(self, output):
        shutil.rmtree(self.folder / output, ignore_errors=True)
