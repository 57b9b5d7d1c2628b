"""EasyDeL's own example files (tests/elarge/easydel_examples, from its guide, its command line's page, its trainers' pages
and its runner's configs): every key acts, is noted by name, or is refused by name with its line.
usage: examples_test.py EASYDEL"""

import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "trainers"))

import yaml
from tiny_run import EASYDEL, TinyRun, write_rows  # takes the program off the arguments

EXAMPLES = pathlib.Path(__file__).parent / "easydel_examples"
RUNNER_NOTES = {"loader.trust_remote_code", "mixture.batch_size"}
# What is refused, in the order in which it is met, and what is noted once that is taken out.
EXPECTED = {
    "cli_eval": (["actions.1"], set()),
    "cli_minimal": ([], set()),
    "cli_step": (["actions.1"], set()),
    "cli_structure": ([], set()),
    "guide_distillation": ([], {"mixture.batch_size"}),
    "guide_dpo": ([], {"mixture.batch_size"}),
    "guide_eval": (["eval.max_new_tokens", "actions.1"], set()),
    "guide_mixture": (["mixture.pack_eos_token_id", "mixture.pack_shuffle_buffer_factor", "mixture.save", "mixture.informs.3.image_field",
                       "mixture.informs.3.text_field"], {"mixture.batch_size", "mixture.pack_on_the_fly"}),
    "guide_qlora": ([], {"mixture.batch_size"}),
    "guide_reference": (["quantization.kv_cache.group_size", "eval.max_new_tokens"],
                        {"model.extra_kwargs.trust_remote_code", "loader.trust_remote_code", "quantization.platform",
                         "base_config.operation_configs", "eval.cache_requests"} | {f"esurge.{key}" for key in (
                             "use_aot_forward", "compile_runner", "overlap_execution", "silent_mode", "auto_truncate_prompt",
                             "auto_cap_new_tokens", "strict_context", "truncate_mode")}),
    "guide_serve": ([], set()),
    "guide_sft": ([], {"mixture.batch_size"}),
    "runner_distillation": ([], RUNNER_NOTES),
    "runner_dpo": ([], RUNNER_NOTES),
    "runner_grpo": ([], RUNNER_NOTES),
    "runner_kto": ([], RUNNER_NOTES),
    "runner_orpo": ([], RUNNER_NOTES),
    "runner_reward": ([], RUNNER_NOTES),
    "runner_sft": ([], RUNNER_NOTES),
    "runner_sft_qat": (["trainer.quantization_mode", "trainer.quantization_bits", "trainer.quantization_group_size"], RUNNER_NOTES),
    "trainer_dpo": ([], set()),
    "trainer_orpo": ([], set()),
    "trainer_reward": ([], set()),
    "trainer_sft": ([], set()),
}


def to_path(dotted: str) -> list:
    return [int(step) if step.isdigit() else step for step in re.sub(r"\[(\d+)\]", r".\1", dotted).split(".")]


def sections_of(config: dict) -> dict:
    for wrapper in ("config", "elm", "elarge_model"):
        if wrapper in config:
            return config[wrapper]
    return config


def take_out(config: dict, path: list) -> None:
    at = config if path[0] == "actions" else sections_of(config)
    for step in path[:-1]:
        at = at[step]
    del at[path[-1]]


class Examples(TinyRun):
    def easydel(self, *arguments, **options):
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return warm_start.run([EASYDEL, *map(str, arguments)], text=True, timeout=120, env=environment, **options)

    def test_every_key_acts_or_is_named(self):
        self.assertEqual({path.stem for path in EXAMPLES.glob("*.yaml")}, set(EXPECTED))
        for name, (refused, noted) in EXPECTED.items():
            with self.subTest(example=name), tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / f"{name}.yaml"
                file.write_text((EXAMPLES / file.name).read_text())
                met = []
                for _ in range(10):
                    done = self.easydel("elarge", file, "--dry-run")
                    if done.returncode == 0:
                        break
                    said = re.match(rf"easydel: \[elarge\] {re.escape(str(file))}:(\d+): ([\w.\[\]]+)", done.stderr.splitlines()[-1])
                    self.assertTrue(said, done.stderr)
                    path = to_path(said[2])
                    met.append(".".join(map(str, path)))
                    line = file.read_text().splitlines()[int(said[1]) - 1]
                    key = path[-1] if isinstance(path[-1], str) else "-"
                    self.assertIn(key, line, f"{said[0]} names the line {line!r}")
                    config = yaml.safe_load(file.read_text())
                    take_out(config, path)
                    file.write_text(yaml.safe_dump(config, sort_keys=False))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(met, refused)
                notes = re.findall(rf"\[elarge\] {re.escape(str(file))}:(\d+): ([\w.\[\]]+)", done.stderr)
                self.assertEqual({path for _, path in notes}, noted, done.stderr)
                for number, path in notes:
                    self.assertIn(path.split(".")[-1] + ":", file.read_text().splitlines()[int(number) - 1])

    def run_example(self, name, *changes):
        """With a model and rows that are here, for two steps. What the example says of everything else stays."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        model = self.folder / "model"
        config = sections_of(yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text()))
        here = [f"model.name_or_path={model}", f"trainer.save_directory={out}", "trainer.max_training_steps=2", "trainer.max_length=32",
                "trainer.total_batch_size=4", "trainer.gradient_accumulation_steps=2", "trainer.log_steps=1", "loader.device=cpu",
                "trainer.progress_bar_type=none"]
        here += [f"{other}.name_or_path={model}" for other in ("reference_model", "teacher_model") if other in config]
        flags = [part for change in [*here, *changes] for part in ("--set", change)]
        done = self.easydel("elarge", EXAMPLES / f"{name}.yaml", *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list(out.rglob("model.safetensors"))), 1, name)
        return done

    def test_those_that_train_here_do(self):
        pairs = self.folder / "pairs.jsonl"
        write_rows(pairs, [{"prompt": text[:10], "chosen": text[10:30], "rejected": text[30:50]} for text in self.texts[:8]])
        texts = f"mixture.informs=[{{\"data_files\": \"{self.folder / 'one.jsonl'}\", \"content_field\": \"text\"}}]"
        preferences = f'mixture.informs=[{{"data_files": "{pairs}"}}]'
        for name in ("cli_minimal", "cli_structure", "guide_distillation", "runner_sft", "trainer_sft"):
            self.run_example(name, texts)
        self.run_example("guide_sft", texts, "mixture.pack_seq_length=32", "trainer.scheduler=cosine", "trainer.warmup_steps=1")
        self.run_example("runner_distillation", texts, "mixture.tokenization.max_length=32")
        for name in ("guide_dpo", "runner_dpo", "runner_orpo", "trainer_dpo", "trainer_orpo"):
            self.run_example(name, preferences, "trainer.max_prompt_length=16", "trainer.max_completion_length=16")
        for name in ("runner_reward",):
            self.run_example(name, preferences)

    def test_a_run_says_where_and_how_it_computes(self):
        done = self.run_example("cli_minimal", f'mixture.informs=[{{"data_files": "{self.folder / "one.jsonl"}"}}]', "loader.dtype=null",
                                "sharding.axis_dims=[1,2,1,1,1]")
        line = "computing in float32 on cpu, weights stored in float32, mesh dp=1 fsdp=2 ep=1 tp=1 sp=1"
        self.assertEqual(done.stderr.count(line), 1, done.stderr)

    def test_yaml_and_flags_train_the_same(self):
        """One set of defaults: a file without a loader and `easydel train` leave the same weights."""
        rows, model = self.folder / "one.jsonl", self.folder / "model"
        file = self.folder / "plain.yaml"
        file.write_text(yaml.safe_dump({
            "model": {"name_or_path": str(model)}, "mixture": {"informs": [{"data_files": str(rows)}]},
            "trainer": {"max_training_steps": 2, "total_batch_size": 4, "max_length": 32, "save_directory": str(self.folder / "by_file"),
                        "progress_bar_type": "none"}, "actions": ["train"]}))
        one = self.easydel("elarge", file)
        two = self.easydel("train", model, "--data", rows, "--steps", 2, "--batch", 4, "--length", 32, "--output", self.folder / "by_flags",
                           "--set", "progress_bar_type=none")
        self.assertEqual((one.returncode, two.returncode), (0, 0), one.stderr + two.stderr)
        said = [re.findall(r"computing in .*", done.stderr) for done in (one, two)]
        self.assertEqual(said[0], said[1])
        self.assertEqual(len(said[0]), 1)
        weights = [next((self.folder / name).rglob("model.safetensors")).read_bytes() for name in ("by_file", "by_flags")]
        self.assertEqual(weights[0], weights[1])


if __name__ == "__main__":
    unittest.main()
