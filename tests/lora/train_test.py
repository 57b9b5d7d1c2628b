"""The trainers with adapters beside peft: the same batches, AdamW, step by step; what checkpoints hold, and going on from
them. usage: train_test.py TRAIN_PROGRAM"""

import pathlib
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "trainers"))

from training import make_model, make_tokenizer, run_ours, words, write_rows

import random

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

BATCH, RATE, STEPS, TOLERANCE = 4, 2e-3, 50, 1e-4
LORA = {"lora_rank": 4, "lora_alpha": 8, "lora_pattern": "(q|v|up)_proj$"}


def run_theirs(model, texts: list[str]) -> list[float]:
    tokenizer = make_tokenizer()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for step in range(STEPS):
        rows = [texts[(step * BATCH + i) % len(texts)] + tokenizer.eos_token for i in range(BATCH)]
        batch = tokenizer(rows, return_tensors="pt", padding=True, padding_side="right")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        loss = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Training(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        generator = random.Random(3)
        self.texts = [words(generator, 5, 30) for _ in range(64)]
        self.data = write_rows(self.directory / "rows.jsonl", [{"text": text} for text in self.texts])
        make_model(self.directory / "model")

    def run_ours(self, steps: int, arguments: dict = {}, **job):
        metrics, weights = run_ours(
            PROGRAM, self.directory, model=self.directory / "model", data=self.data, trainer_type="sft",
            arguments={"total_batch_size": BATCH, "max_training_steps": steps, "learning_rate": RATE,
                       "weight_decay": 0.01, "max_length": 128, **LORA, **arguments}, **job)
        adapters = {name: tensor for name, tensor in weights.items() if ".lora_" in name}
        return [step["loss"] for step in metrics], adapters

    def base(self):
        return AutoModelForCausalLM.from_pretrained(self.directory / "model", attn_implementation="eager")

    def start_of(self, arguments: dict = {}) -> pathlib.Path:
        """The adapter that a run begins with: nothing is learned at a rate of 0."""
        self.run_ours(1, {**arguments, "learning_rate": 0.0, "save_directory": str(self.directory / "start")})
        return next((self.directory / "start").rglob("adapter_config.json")).parent

    def compare(self, arguments: dict = {}, **job):
        model = PeftModel.from_pretrained(self.base(), self.start_of(arguments), is_trainable=True)
        theirs = run_theirs(model, self.texts)
        losses, adapters = self.run_ours(STEPS, arguments, **job)
        self.assertEqual(len(losses), STEPS)
        for step, (a, b) in enumerate(zip(losses, theirs)):
            self.assertLess(abs(a - b), TOLERANCE * max(abs(b), 1), f"step {step}")
        known = {name.removeprefix("base_model.model."): p for name, p in model.named_parameters() if ".lora_" in name}
        self.assertEqual(set(known), set(adapters))
        for name, tensor in known.items():
            self.assertLess((tensor - adapters[name]).abs().max().item(), TOLERANCE, name)
        self.assertLess(losses[-1], losses[0] - 0.1)

    def test_the_curve_is_that_of_peft(self):
        self.compare()

    def test_dora_on_a_mesh(self):
        self.compare({"use_dora": True, "gradient_accumulation_steps": 2}, mesh=[1, 2, 1, 2, 1])

    def test_goes_on_bit_for_bit_from_what_a_checkpoint_holds(self):
        whole = self.run_ours(20)[1]
        saved = {"save_directory": str(self.directory / "runs"), "save_steps": 10, "lora_dropout": 0.0}
        self.run_ours(10, saved)
        run = next((self.directory / "runs").rglob("run-10"))
        names = {str(p.relative_to(run)) for p in run.rglob("*")}
        self.assertLessEqual({"adapter/adapter_config.json", "adapter/adapter_model.safetensors", "config.json",
                              "state.json", "trainer.json", "optimizer.safetensors", "model.safetensors"}, names)
        moments = load_file(run / "optimizer.safetensors")
        self.assertEqual({name.split("/")[-1] for name in moments}, set(whole))  # of adapters alone
        resumed = self.run_ours(20, saved)[1]
        for name, tensor in whole.items():
            self.assertTrue(torch.equal(tensor, resumed[name]), name)

    def test_a_checkpoint_runs_with_and_without_its_base(self):
        runs = {"save_directory": str(self.directory / "runs")}
        self.run_ours(5, runs)
        run = next((self.directory / "runs").rglob("run-5"))
        ids = torch.arange(4, 30).reshape(2, 13)
        with torch.no_grad():
            adapted = PeftModel.from_pretrained(self.base(), run / "adapter")(ids).logits
            merged = AutoModelForCausalLM.from_pretrained(run, attn_implementation="eager")(ids).logits
            self.assertLess((adapted - merged).abs().max().item(), TOLERANCE)
            self.assertGreater((adapted - self.base()(ids).logits).abs().max().item(), 1e-3)

    def test_the_merged_model_may_be_left_out(self):
        self.run_ours(2, {"save_directory": str(self.directory / "runs"), "merge_lora_before_save": False})
        run = next((self.directory / "runs").rglob("run-2"))
        self.assertFalse(list(run.glob("model*")))

    def test_refusals(self):
        runs = {"save_directory": str(self.directory / "runs")}
        self.run_ours(2, runs)
        for changes, message in (({"lora_rank": None}, "lora_rank must be given if other LoRA keys are"),
                                 ({"lora_rank": 0}, "lora_rank must be at least 1; got 0"),
                                 ({"lora_pattern": "nothing"}, "matches no linear layer"),
                                 ({"lora_rank": 8, **runs}, "belongs to a different run: lora_rank was 4, now 8."),
                                 ({"lora_rank": 8, **runs, "resume_from": "latest"}, "has rank 4"),
                                 ({"lora_rank": None, "lora_alpha": None, "lora_pattern": None, **runs,
                                   "resume_from": "latest"}, "this run has none. Set lora_rank")):
            with self.subTest(changes=changes), self.assertRaises(AssertionError) as caught:
                self.run_ours(4, changes)
            self.assertIn(message, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
