"""lm-evaluation-harness's local-completions against `easydel serve` gives what `easydel eval` gives.
usage: lm_eval_test.py EASYDEL"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

EASYDEL = sys.argv.pop(1)
os.environ.setdefault("HF_DATASETS_CACHE", tempfile.mkdtemp())
os.environ.setdefault("DISABLE_MULTIPROC", "1")

import yaml

from tiny_server import CONTEXT, KEY, MODEL, Server, TinyModel

WORDS = "times wisdom best worst age was 智慧 🙂 and so on Paris".split()


def make_tasks(folder: pathlib.Path, tiny: TinyModel) -> list[pathlib.Path]:
    draw = random.Random(3)
    text = lambda low, high: " ".join(draw.choice(WORDS) for _ in range(draw.randint(low, high)))
    likely = lambda given: tiny.text(tiny.greedy(tiny.ids(given), 1))
    contexts = [text(2, 8) for _ in range(12)]
    rows = {"choice": [{"question": text(2, 8), "choices": [text(1, 3) for _ in range(3)], "label": draw.randrange(3)} for _ in range(12)],
            # Every other one is what the model would say, so that acc is neither 0 nor 1.
            "likelihood": [{"context": c, "word": (likely(c) if i % 2 else "") or " wisdom"} for i, c in enumerate(contexts)],
            "rolling": [{"page": text(5, 40)} for _ in range(6)]}
    shared = {"dataset_path": "json", "test_split": "test"}
    tasks = [{"task": "choice", "output_type": "multiple_choice", "doc_to_text": "Q: {{question}}\nA:", "doc_to_choice": "choices",
              "doc_to_target": "label", "num_fewshot": 1, "fewshot_split": "test"},
             {"task": "likelihood", "output_type": "loglikelihood", "doc_to_text": "{{context}}", "doc_to_target": "{{word}}",
              "target_delimiter": ""},
             {"task": "rolling", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "page"}]
    paths = []
    for task in tasks:
        data = folder / f"{task['task']}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows[task["task"]]))
        paths.append(folder / f"{task['task']}.yaml")
        paths[-1].write_text(yaml.safe_dump(shared | task | {"dataset_kwargs": {"data_files": {"test": str(data)}}}, sort_keys=False))
    return paths


class Harness(unittest.TestCase):
    def test_local_completions_gives_what_eval_gives(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            tiny = TinyModel(folder / "model")
            tasks = make_tasks(folder, tiny)
            names = [option for task in tasks for option in ("--task", task)]
            ours = subprocess.run([EASYDEL, "--log", "error", "eval", tiny.path, *names, "--json"], capture_output=True, text=True)
            self.assertEqual(ours.returncode, 0, ours.stderr)
            ours = json.loads(ours.stdout)["results"]
            with Server(EASYDEL, tiny.path) as server:
                for tokenized in (True, False):  # prompts as token ids, and as text
                    out = folder / f"out{tokenized}"
                    given = (f"model={MODEL},base_url={server.url}/v1/completions,tokenizer={tiny.path},max_length={CONTEXT},"
                             f"tokenizer_backend=huggingface,tokenized_requests={tokenized},num_concurrent=1,max_retries=1")
                    run = subprocess.run(
                        [sys.executable, "-m", "lm_eval", "--model", "local-completions", "--model_args", given, "--batch_size", "4",
                         "--include_path", folder, "--tasks", ",".join(task.stem for task in tasks), "--output_path", out],
                        capture_output=True, text=True, env={**os.environ, "OPENAI_API_KEY": KEY})
                    self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
                    theirs = json.loads(next(out.rglob("results*.json")).read_text())["results"]
                    self.check(ours, theirs)

    def check(self, ours: dict, theirs: dict):
        compared = 0
        for task, row in theirs.items():
            for metric, value in row.items():
                if metric.endswith(",none") and isinstance(value, float):
                    self.assertAlmostEqual(ours[task][metric] / (value or 1), value / (value or 1), delta=2e-5, msg=f"{task} {metric}")
                    compared += 1
        self.assertGreaterEqual(compared, 7)


if __name__ == "__main__":
    unittest.main(verbosity=2)
