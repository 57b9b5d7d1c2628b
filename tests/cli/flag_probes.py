"""What the tests of command line flags share: flags as --help lists them, a tiny model, and probes that run a command
with a flag and without it. The program is the last argument, which importing this takes off."""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "trainers"))

import torch
from safetensors.torch import save_file
from tiny_run import BOOK, EASYDEL, TinyRun, make_model, make_tokenizer, write_rows

__all__ = ["BOOK", "EASYDEL", "MESH", "MODEL", "TASK", "FlagProbes", "flags_of", "help_of",
           "make_model", "make_tokenizer", "write_rows"]

MESH = ["--mesh", "1,1,1,2,1"]
# Of every command that loads a model.
MODEL = {
    "--dtype": ["--dtype", "bf16"],
    "--param-dtype": ["--param-dtype", "bf16"],
    "--device": ["--device", "cuda:99"],
    "--revision": ["--revision", "other"],
    "--set": ["--set", "hidden_act=gelu"],
    "--devices": ["--devices", "2", "--mesh", "1,1,1,1,2"],
    "--mesh": MESH,
    "--quantize": ["--quantize", "nf4"],
    "--quantize-pattern": (["--quantize", "nf4"], ["--quantize-pattern", "q_proj"]),
    "--quantize-group-size": (["--quantize", "nf4"], ["--quantize-group-size", "32"]),
    "--adapter": ["--adapter", "nowhere/at-all"],
}
TASK = {"--task": ["--task", "base-module"]}


@functools.cache
def help_of(command: str) -> str:
    return warm_start.run([EASYDEL, *command.split(), "--help"], text=True, check=True).stdout


def flags_of(command: str) -> set[str]:
    return {flag for line in help_of(command).splitlines() for flag in re.findall(r"^ {2,6}(?:-\w,)?(--[a-z][a-z0-9-]*)", line)} - {"--help"}


def with_flags(beside: list, added: list) -> list:
    """Both, where a flag of `added` takes the place of the same one in `beside`."""
    if added and str(added[0]) in map(str, beside):
        at = list(map(str, beside)).index(str(added[0]))
        beside = [*beside[:at], *beside[at + 2:]]
    return [*beside, *added]


class FlagProbes(TinyRun):
    workers = 1  # runs at a time; more where they share no files

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.wide = cls.folder / "wide"  # wide enough for the groups of nf4
        make_model(cls.wide, hidden_size=64, intermediate_size=64)
        cls.copy_tokenizer(cls.wide)

    @classmethod
    def copy_tokenizer(cls, directory):
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (directory / name).write_text((cls.folder / "model" / name).read_text())

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(dir=self.folder)
        self.addCleanup(self.scratch.cleanup)
        self.directory = pathlib.Path(self.scratch.name)
        self.text = self.folder / "book.txt"
        self.text.write_text(" ".join(self.texts[:4]))

    def make_adapter(self, name: str, seed: int) -> pathlib.Path:
        """As peft writes it."""
        adapter = self.directory / name
        adapter.mkdir()
        torch.manual_seed(seed)
        path = "base_model.model.model.layers.{}.self_attn.q_proj.lora_{}.weight"
        save_file({path.format(layer, part): torch.randn(shape) for layer in range(2) for part, shape in (("A", (2, 64)), ("B", (64, 2)))},
                  adapter / "adapter_model.safetensors")
        (adapter / "adapter_config.json").write_text(json.dumps({
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}))
        return adapter

    def run_command(self, arguments, stdin="", environment=os.environ):
        return warm_start.run([EASYDEL, *map(str, arguments)], input=stdin, text=True, timeout=120,
                              env=environment | {"OMP_NUM_THREADS": "1"})

    def files(self, directory, names) -> dict:
        seen = {}
        for path in sorted(directory.rglob("*")):
            if path.name in names or path.suffix in names:
                seen[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
            if path.name == "metrics.jsonl":
                rows = [json.loads(line) for line in path.read_text().splitlines()]
                seen[path.name] = [{key: row[key] for key in row if "loss" in key or key == "step"} for row in rows]
        return seen

    def probe(self, command: str, observe, probes: dict):
        """Compares what is seen with each flag and without it. `observe` runs the command with some arguments and gives
        its status, and whatever else there is to see; the third is the error of one that fails. A probe is what to add, or
        a pair: what goes before it in both runs, and what to add; None: the test looks at that flag itself."""
        flags = flags_of(command)
        self.assertEqual(flags - set(probes), set(), "flags without a probe")
        self.assertEqual(set(probes) - flags, set(), "probes of flags that are not there")
        pairs = {}
        for flag, given in probes.items():
            if given is not None:
                beside, added = given if isinstance(given, tuple) else ([], given)
                pairs[flag] = tuple(map(str, beside)), tuple(map(str, with_flags(beside, added)))
        runs = list(dict.fromkeys(arguments for pair in pairs.values() for arguments in pair))
        with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
            results = list(pool.map(lambda arguments: observe(list(arguments)), [*runs, runs[0]]))
        self.assertEqual(results[0], results[-1], "the command does not repeat itself, so that no change shows anything")
        seen = dict(zip(runs, results))
        for flag, (beside, arguments) in pairs.items():
            with self.subTest(command=command, flag=flag):
                self.assertEqual(seen[beside][0], 0, seen[beside])
                if seen[arguments][0] == 0:
                    self.assertNotEqual(seen[arguments], seen[beside], "the flag changes nothing that can be seen")
                else:
                    name = flag.removeprefix("--")
                    said = [name, name.replace("-", "_"), arguments[-1]]
                    error = seen[arguments][2]
                    self.assertTrue(any(word in error for word in said), f"the refusal does not name it: {error}")

    def seen(self, done, **more):
        """The status, what was printed, the error or the line about devices and types, and files."""
        told = done.stderr if done.returncode else "".join(re.findall(r"computing in .*\n", done.stderr))
        return done.returncode, done.stdout, told, more
