"""Our trainers beside trl's: the same tiny model and pairs, five steps; the loss of every step, the metrics and the
final weights must agree. usage: trl_test.py TRAIN_PROGRAM"""

import pathlib
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)

from training import largest_difference, make_model, make_pairs, make_tokenizer, run_ours, weights_of, write_rows

import datasets
from datasets import Dataset
from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
from trl import DPOConfig, DPOTrainer

datasets.disable_progress_bars()
STEPS, BATCH, RATE = 5, 4, 1e-3
TOLERANCE = 1e-3
OURS = {"total_batch_size": BATCH, "max_training_steps": STEPS, "learning_rate": RATE, "optimizer": "adamw",
        "weight_decay": 0.0, "clip_grad": 1.0, "max_length": 128}
PAIRS = {**OURS, "max_prompt_length": None}
METRICS = ["rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen",
           "logps/rejected"]


class Losses(TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.steps.append(logs)


class Trl(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def config(self, kind, **changes):
        return kind(output_dir=str(self.directory / "trl"), per_device_train_batch_size=BATCH, max_steps=STEPS,
                    learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0,
                    logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, bf16=False, fp16=False,
                    gradient_checkpointing=False, train_sampling_strategy="sequential", disable_tqdm=True,
                    max_length=128, **changes)

    def run_theirs(self, kind, model, rows, config, **extra):
        losses = Losses()
        trainer = kind(model=model, args=config, train_dataset=Dataset.from_list(rows),
                       processing_class=make_tokenizer(), callbacks=[losses], **extra)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return losses.steps, weights_of(trainer.model)

    def compare(self, ours, theirs, metrics=METRICS, loss_tolerance=TOLERANCE):
        (our_steps, our_weights), (their_steps, their_weights) = ours, theirs
        self.assertEqual(len(our_steps), STEPS)
        self.assertEqual(len(their_steps), STEPS)
        for step, (a, b) in enumerate(zip(our_steps, their_steps)):
            for name in ["loss", *metrics]:
                self.assertLess(abs(a[name] - float(b[name])), loss_tolerance * max(1, abs(float(b[name]))),
                                f"step {step}, {name}: {a[name]} and {b[name]}")
        self.assertLess(largest_difference(our_weights, their_weights), TOLERANCE)

    def dpo(self, ours: dict, theirs: dict):
        make_model(self.directory / "reference", seed=7)
        model = make_model(self.directory / "model")
        rows = make_pairs(BATCH * STEPS)
        data = write_rows(self.directory / "rows.jsonl", rows)
        reference = AutoModelForCausalLM.from_pretrained(self.directory / "reference", attn_implementation="eager")
        theirs = self.run_theirs(DPOTrainer, model, rows, self.config(DPOConfig, **theirs), ref_model=reference)
        ours = run_ours(PROGRAM, self.directory, model=self.directory / "model", data=data, trainer_type="dpo",
                        other=self.directory / "reference", arguments={**PAIRS, **ours})
        self.compare(ours, theirs)
        first, last = ours[0][0]["loss"], ours[0][-1]["loss"]
        self.assertNotAlmostEqual(first, last, places=3)

    def test_dpo(self):
        for loss_type, smoothing in [("sigmoid", 0.0), ("ipo", 0.0), ("hinge", 0.0), ("robust", 0.2),
                                     ("exo_pair", 0.1), ("nca_pair", 0.0), ("bco_pair", 0.0), ("sppo_hard", 0.0),
                                     ("apo_zero", 0.0), ("apo_down", 0.0)]:
            with self.subTest(loss_type=loss_type):
                arguments = {"beta": 0.3, "loss_type": loss_type, "label_smoothing": smoothing}
                self.dpo(arguments, arguments)


if __name__ == "__main__":
    unittest.main()
