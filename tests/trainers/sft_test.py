"""Supervised fine-tuning beside transformers: the same batches, AdamW, step by step; and the same on meshes.
usage: sft_test.py TRAIN_PROGRAM"""

import pathlib
import random
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)

from training import largest_difference, make_model, make_tokenizer, run_ours, weights_of, words, write_rows

import torch

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


class Sft(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.texts = make_texts(64)
        self.data = write_rows(self.directory / "rows.jsonl", [{"text": text} for text in self.texts])

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


if __name__ == "__main__":
    unittest.main()
