"""Supervised fine-tuning beside transformers: the same batches, AdamW, step by step; and the same on meshes.
usage: sft_test.py TRAIN_PROGRAM"""

import dataclasses
import json
import pathlib
import random
import sys
import tempfile
import unittest
import unittest.mock

PROGRAM = sys.argv.pop(1)

from training import largest_difference, make_model, make_tokenizer, run_ours, weights_of, words, write_rows

import datasets
import torch
from datasets import Dataset
from torchao.float8 import Float8LinearConfig, convert_to_float8_training
from safetensors.torch import load_file
from tokenizers import Tokenizer, processors
from transformers.trainer_pt_utils import get_length_grouped_indices
from trl import pack_dataset

datasets.disable_progress_bars()
BATCH, RATE, DECAY, CLIP = 4, 1e-3, 0.01, 1.0
TOLERANCE = 1e-3


def make_texts(count: int) -> list[str]:
    """Texts with something to learn: words of a small vocabulary."""
    generator = random.Random(3)
    known = [words(generator, 2, 6).replace(" ", "") or "a" for _ in range(12)]
    return [" ".join(generator.choice(known) for _ in range(generator.randint(2, 6))) for _ in range(count)]


def run_theirs(model, texts: list[str], steps: int) -> tuple[list[float], dict]:
    """A loop as in any tutorial, with losses that are means over the tokens of a whole step."""
    tokenizer = make_tokenizer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, betas=(0.9, 0.999), eps=1e-8)
    model.train()
    losses = []
    for step in range(steps):
        rows = [texts[(step * BATCH + i) % len(texts)] + tokenizer.eos_token for i in range(BATCH)]
        batch = tokenizer(rows, return_tensors="pt", padding=True, padding_side="right")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.append(loss.item())
    return losses, weights_of(model)


class Run(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.texts = make_texts(64)
        self.data = write_rows(self.directory / "rows.jsonl", [{"text": text} for text in self.texts])


class Sft(Run):
    def run_ours(self, steps: int, arguments: dict = {}, **job):
        metrics, weights = run_ours(
            PROGRAM, self.directory, model=self.directory / "model", data=self.data, trainer_type="sft",
            arguments={"total_batch_size": BATCH, "max_training_steps": steps, "learning_rate": RATE,
                       "weight_decay": DECAY, "clip_grad": CLIP, "max_length": 128, **arguments}, **job)
        return [step["loss"] for step in metrics], weights

    def compare(self, ours, theirs):
        self.assertEqual(len(ours[0]), len(theirs[0]))
        for step, (a, b) in enumerate(zip(ours[0], theirs[0])):
            self.assertLess(abs(a - b), TOLERANCE, f"step {step}")
        self.assertLess(largest_difference(ours[1], theirs[1]), TOLERANCE)

    def test_the_curve_is_that_of_transformers(self):
        theirs = run_theirs(make_model(self.directory / "model"), self.texts, 200)
        ours = self.run_ours(200)
        self.compare(ours, theirs)
        self.assertLess(ours[0][-1], ours[0][0] - 1)  # something was learned

    def test_minibatches_add_up(self):
        theirs = run_theirs(make_model(self.directory / "model"), self.texts, 20)
        for minibatches in (2, 4):
            self.compare(self.run_ours(20, {"gradient_accumulation_steps": minibatches}), theirs)

    def test_meshes(self):
        theirs = run_theirs(make_model(self.directory / "model"), self.texts, 40)
        for mesh in ([1, 2, 1, 2, 1], [2, 1, 1, 1, 2]):
            with self.subTest(mesh=mesh):
                self.compare(self.run_ours(40, mesh=mesh), theirs)

    def test_float8_is_that_of_torchao(self):
        """A step: its loss, and by the weights after it the gradients, with the numbers rounded as torchao's Float8Linear
        rounds them. After that a last bit decides how a number is rounded, and runs part by as much as float8 costs."""
        for scales in ("rowwise", "tensorwise"):
            with self.subTest(scales=scales):
                model = make_model(self.directory / "model")
                recipe = dataclasses.replace(Float8LinearConfig.from_recipe_name(scales), emulate=True)
                layers = convert_to_float8_training(model, config=recipe, module_filter_fn=lambda _, name: name != "lm_head")
                theirs = run_theirs(layers, self.texts, 1)
                ours = self.run_ours(1, {"fp8": scales})
                self.assertLess(abs(ours[0][0] - theirs[0][0]), 1e-5)
                self.assertLess(largest_difference(ours[1], theirs[1]), 0.01 * RATE)
                self.assertGreater(abs(ours[0][0] - self.run_ours(1)[0][0]), 1e-3)
                alone, on_a_mesh = (self.run_ours(12, {"fp8": scales}, **mesh)[0] for mesh in ({}, {"mesh": [2, 1, 1, 1, 1]}))
                for a, b in zip(on_a_mesh, alone):
                    self.assertLess(abs(a - b), 0.02)

    def test_experts_on_a_mesh(self):
        theirs = run_theirs(make_model(self.directory / "model", "mixtral"), self.texts, 40)
        self.compare(self.run_ours(40), theirs)
        self.compare(self.run_ours(40, mesh=[1, 1, 4, 1, 1]), theirs)

    def test_routers_are_reported_where_their_logits_are_asked_for(self):
        model = make_model(self.directory / "model", "mixtral").eval()
        tokenizer = make_tokenizer()
        batch = tokenizer([text + tokenizer.eos_token for text in self.texts[:BATCH]], return_tensors="pt", padding=True,
                          padding_side="right")
        with torch.no_grad():
            layers = model(**batch, output_router_logits=True).router_logits
        seen = batch["attention_mask"].flatten().bool()
        logits = torch.cat([layer[seen] for layer in layers])
        load = torch.bincount(logits.topk(2).indices.flatten(), minlength=4).float()
        entropy = torch.distributions.Categorical(logits=logits).entropy().mean().item()

        def first_step(arguments, **job):
            return run_ours(PROGRAM, self.directory, model=self.directory / "model", data=self.data, trainer_type="sft",
                            arguments={"total_batch_size": BATCH, "max_training_steps": 1, "max_length": 128, **arguments},
                            **job)[0][0]

        self.assertNotIn("router/entropy", first_step({}))
        for job in ({}, {"mesh": [1, 2, 1, 1, 2]}):
            with self.subTest(job=job):
                step = first_step({"aux_loss_enabled": True}, **job)
                self.assertAlmostEqual(step["router/load_max"], (load.max() / load.mean()).item(), places=4)
                self.assertAlmostEqual(step["router/entropy"], entropy, places=4)


class Settings(Run):
    """What single settings do to a run, beside the test that each of them acts."""

    def steps(self, arguments: dict = {}, rows=None, **job):
        data = self.data if rows is None else write_rows(self.directory / "other.jsonl", rows)
        return run_ours(PROGRAM, self.directory, model=self.directory / "model", data=data, trainer_type="sft",
                        arguments={"total_batch_size": BATCH, "max_training_steps": 4, "learning_rate": RATE,
                                   "max_length": 128, **arguments}, **job)

    def losses(self, *given, **job):
        return [step["loss"] for step in self.steps(*given, **job)[0]]

    def setUp(self):
        super().setUp()
        self.model = make_model(self.directory / "model")

    def test_a_run_begins_at_its_step(self):
        frozen = {"learning_rate": 0.0, "scheduler": "linear", "learning_rate_end": 0.0, "weight_decay": 0.0}
        usual = self.losses(frozen)  # nothing is learned, so a loss tells which rows it is of
        later = self.losses({**frozen, "step_start_point": 2})
        self.assertEqual(later, usual[2:])
        falling = {"scheduler": "linear", "learning_rate_end": 0.0}
        rates = [step["learning_rate"] for step in self.steps(falling)[0]]
        self.assertEqual([step["learning_rate"] for step in self.steps({**falling, "step_start_point": 2})[0]], rates[2:])

    def test_a_run_that_goes_on_stays_where_it_was_unless_it_is_forced(self):
        where = {"save_directory": str(self.directory / "run"), "resume_from": "latest"}
        self.steps({**where, "max_training_steps": 2, "resume_from": None})
        again = self.steps({**where, "step_start_point": 1})[0]
        self.assertEqual([step["step"] for step in again], [3, 4])
        forced = self.steps({**where, "step_start_point": 1, "force_step_start_point": True})[0]
        self.assertEqual([step["step"] for step in forced], [2, 3, 4])

    def test_a_run_that_does_not_train_evaluates(self):
        metrics, weights = self.steps({"do_train": False, "do_eval": True}, eval_data=self.data)
        self.assertEqual(len(metrics), 1)
        self.assertGreater(metrics[0]["eval_loss"], 0)
        self.assertEqual(largest_difference(weights, weights_of(self.model)), 0)

    def test_the_first_moment_has_its_dtype(self):
        def dtypes(**arguments):
            run = pathlib.Path(tempfile.mkdtemp(dir=self.directory))
            self.steps({"save_directory": str(run), "max_training_steps": 2, **arguments})
            state = load_file(run / "run-2" / "optimizer.safetensors")
            kinds = {name: {str(value.dtype) for key, value in state.items() if f"{name}/" in key} for name in ("mu", "nu")}
            return kinds

        self.assertEqual(dtypes(), {"mu": {"torch.float32"}, "nu": {"torch.float32"}})
        self.assertEqual(dtypes(tx_mu_dtype="bfloat16"), {"mu": {"torch.bfloat16"}, "nu": {"torch.float32"}})

    def test_columns_that_are_dropped_are_not_read(self):
        rows = [{"text": text, "prompt": "a", "completion": "b"} for text in self.texts]
        self.assertEqual(self.losses({"ids_to_pop_from_dataset": ["prompt", "completion"]}, rows=rows), self.losses())
        self.assertNotEqual(self.losses(rows=rows), self.losses())

    def test_prompts_count_where_they_are_asked_to(self):
        rows = [{"prompt": text[: len(text) // 2], "completion": text[len(text) // 2:]} for text in self.texts]
        texts = self.losses()
        self.assertEqual(self.losses({"train_on_inputs": True}, rows=rows), texts)
        self.assertEqual(self.losses({"completion_only_loss": False}, rows=rows), texts)
        masked = self.losses({"train_on_inputs": False}, rows=rows)
        self.assertEqual(masked, self.losses(rows=rows))
        self.assertNotEqual(masked, texts)

    def test_texts_get_special_tokens_where_they_are_asked_for(self):
        plain = self.losses()
        file = self.directory / "model" / "tokenizer.json"
        tokenizer = Tokenizer.from_file(str(file))
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
        tokenizer.save(str(file))
        with_bos = self.losses()
        self.assertNotEqual(with_bos, plain)
        self.assertEqual(self.losses({"add_special_tokens": False}), plain)
        self.assertEqual(self.losses({"add_special_tokens": True}), with_bos)

    def test_documents_that_stay_whole_have_the_loss_that_they_have_alone(self):
        rows = [{"text": text} for text in self.texts[:8]]
        alone = self.losses({"total_batch_size": 8, "max_training_steps": 1}, rows=rows)
        lengths = [{"input_ids": [0] * (len(text) + 1)} for text in self.texts[:8]]
        packed = len(pack_dataset(Dataset.from_list(lengths), 64, "bfd"))
        self.assertLess(packed, 8)
        together = {"total_batch_size": packed, "max_training_steps": 1, "max_length": 64, "packing": True}
        self.assertAlmostEqual(self.losses(together, rows=rows)[0], alone[0], places=5)
        # Without max_training_steps an epoch has as many rows as trl makes.
        self.assertEqual(len(self.losses({**together, "total_batch_size": 1, "max_training_steps": None,
                                          "num_train_epochs": 2}, rows=rows)), 2 * packed)
        for strategy in ("bfd_split", "wrapped"):
            self.losses({**together, "max_length": 16, "packing_strategy": strategy}, rows=rows)
        with self.assertRaisesRegex(AssertionError, "packing_strategy must be one of bfd, bfd_split, wrapped"):
            self.losses({**together, "packing_strategy": "greedy"})

    def test_rows_that_are_joined_have_the_losses_that_they_have_padded(self):
        settings = {"total_batch_size": 8, "max_training_steps": 3}
        for more in ({}, {"gradient_accumulation_steps": 2}):
            padded = self.losses({**settings, **more})
            joined = self.losses({**settings, **more, "padding_free": True})
            self.assertEqual(len(joined), 3)
            for a, b in zip(joined, padded, strict=True):
                self.assertAlmostEqual(a, b, places=5)

    def test_batches_of_similar_length_are_those_of_transformers(self):
        texts = ["ab" * (3 + (7 * i) % 50) for i in range(60)]
        texts[2] = "ab" * 60  # the longest of all stands in the first of the groups that are sorted
        lengths = [len(text) + 1 for text in texts]
        with unittest.mock.patch("torch.randperm", lambda count, generator=None: torch.arange(count)):
            order = get_length_grouped_indices(lengths, 4)
        expected = [sum(lengths[i] for i in order[at:at + 4]) for at in range(0, 60, 4)]
        settings = {"total_batch_size": 4, "max_training_steps": 15, "max_length": 128}
        rows = [{"text": text} for text in texts]
        tokens = [step["step_tokens"] for step in self.steps({**settings, "group_by_length": True}, rows=rows)[0]]
        self.assertEqual(tokens, expected)
        self.assertNotEqual(tokens, [step["step_tokens"] for step in self.steps(settings, rows=rows)[0]])
        on_a_mesh = self.steps({**settings, "group_by_length": True}, rows=rows, mesh=[2, 1, 1, 1, 2])[0]
        self.assertEqual([step["step_tokens"] for step in on_a_mesh], expected)
        with self.assertRaisesRegex(AssertionError, "group_by_length must be false with packing"):
            self.steps({**settings, "group_by_length": True, "packing": True}, rows=rows)

    def test_a_profile_is_a_trace_of_the_steps_asked_for(self):
        out = self.directory / "profiled"
        counts = []
        for steps, name in (("2", "profile-2.json"), ("2:2", "profile-2-3.json")):
            self.steps({"max_training_steps": 3, "profile": steps, "save_directory": str(out), "resume_if_possible": False})
            events = json.loads((out / name).read_text())["traceEvents"]
            counts.append(sum("LinearCrossEntropy" in str(event.get("name")) for event in events))
        self.assertGreater(counts[0], 0)
        self.assertEqual(counts[1], 2 * counts[0])
        for bad in ("0", "2:", "x", "1:0"):
            with self.assertRaisesRegex(AssertionError, "profile must read like 10 or 10:3"):
                self.steps({"profile": bad, "save_directory": str(out)})

    def test_the_norm_of_gradients_is_given_unless_it_is_not_wanted(self):
        self.assertIn("grad_norm", self.steps()[0][0])
        self.assertNotIn("grad_norm", self.steps({"log_grad_norms": False})[0][0])
        self.assertNotIn("memory_max", self.steps()[0][0])
        self.assertGreater(self.steps({"track_memory": 0.01})[0][0]["memory_max"], 1 << 20)

if __name__ == "__main__":
    unittest.main()
