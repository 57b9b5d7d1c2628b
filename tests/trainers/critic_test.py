"""ppo and prm beside their formulas in torch, which are those of trl's trainers (the pinned trl has them no longer): the
same tiny models, the same completions and rewards, plain gradient descent; the loss and the metrics of every step and
the change of every weight, of the value model too, must agree. usage: critic_test.py TRAIN_PROGRAM"""

import json
import pathlib
import random
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)

from training import VOCAB, largest_difference, make_model, make_tokenizer, run_ours, weights_of, words, write_rows

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForTokenClassification

STEPS, PROMPTS, GROUP, LENGTH, RATE, TEMPERATURE = 4, 2, 2, 12, 0.1, 0.7
TOLERANCE = 1e-5
CASES = [
    dict(),
    dict(num_ppo_epochs=2, num_mini_batches=2, cliprange=0.02, cliprange_value=0.01),
    dict(kl_estimator="k3", whiten_rewards=True, kl_coef=0.4),
    dict(gamma=0.9, lam=0.8, whiten_advantages=False, missing_eos_penalty=0.6, vf_coef=0.7),
    dict(entropy_coef=0.05, kl_coef=0.0, mask_truncated_completions=True, num_ppo_epochs=4),
]


def whitened(rows, shift):
    """Lists of numbers of completions, over all of them."""
    flat = torch.cat(rows)
    mean, scale = flat.mean(), torch.rsqrt(flat.var() + 1e-8)
    return [(row - mean) * scale + (0 if shift else mean) for row in rows]


class Critics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        make_model(cls.directory / "model")
        make_model(cls.directory / "reference", seed=7)
        make_model(cls.directory / "value", seed=5, task="reward")
        generator = random.Random(3)
        tokenizer = cls.tokenizer = make_tokenizer()
        cls.rows = [{"prompt": words(generator, 3, 9)} for _ in range(PROMPTS * STEPS)]
        cls.known = {}
        for number, row in enumerate(cls.rows):
            completions = []
            for i in range(GROUP):
                ids = [generator.randrange(4, len(VOCAB)) for _ in range(generator.randint(2, LENGTH))]
                if generator.random() < 0.6:
                    ids[-1] = tokenizer.eos_token_id
                completions.append({"ids": ids, "reward": None if number == 3 and i == 1 else round(generator.random(), 3)})
            cls.known[tokenizer.decode(tokenizer(row["prompt"]).input_ids)] = completions
        write_rows(cls.directory / "rows.jsonl", cls.rows)
        (cls.directory / "completions.json").write_text(json.dumps(cls.known))

    def run_ours(self, changes, mesh=None):
        arguments = {"total_batch_size": PROMPTS, "max_training_steps": STEPS, "learning_rate": RATE, "optimizer": "sgd",
                     "weight_decay": 0.0, "num_generations": GROUP, "max_completion_length": LENGTH,
                     "temperature": TEMPERATURE, **changes}
        before = set(self.directory.iterdir())
        steps, weights = run_ours(PROGRAM, self.directory, model=self.directory / "model", data=self.directory / "rows.jsonl",
                                  trainer_type="ppo", completions=self.directory / "completions.json", mesh=mesh,
                                  other=self.directory / "reference", value=self.directory / "value", arguments=arguments)
        output, = set(self.directory.iterdir()) - before
        return steps, weights, load_file(output / "value" / "model.safetensors")

    def run_formula(self, num_ppo_epochs=1, num_mini_batches=1, cliprange=0.2, cliprange_value=0.2, kl_coef=0.05,
                    kl_estimator="k1", vf_coef=0.1, gamma=1.0, lam=0.95, whiten_rewards=False, whiten_advantages=True,
                    entropy_coef=None, missing_eos_penalty=None, mask_truncated_completions=False):
        load = lambda kind, name: kind.from_pretrained(self.directory / name, attn_implementation="eager")
        policy, reference = load(AutoModelForCausalLM, "model"), load(AutoModelForCausalLM, "reference")
        value = load(AutoModelForSequenceClassification, "value")
        optimizer = torch.optim.SGD([*policy.parameters(), *value.parameters()], lr=RATE)

        def scores(model, prompt, ids):
            logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1:-1] / TEMPERATURE
            logps = logits.log_softmax(-1)
            return logps.gather(1, torch.tensor(ids)[:, None])[:, 0], -(logps.exp() * logps).sum(-1)

        def values(prompt, ids):
            return value.score(value.model(torch.tensor([prompt + ids])).last_hidden_state)[0, len(prompt) - 1:-1, 0]

        steps, prompts = [], 0
        while len(steps) < STEPS:
            batches = []
            for _ in range(num_mini_batches):
                batch = []
                for row in self.rows[prompts:prompts + PROMPTS]:
                    prompt = self.tokenizer(row["prompt"]).input_ids
                    batch += [dict(each, prompt=prompt) for each in self.known[self.tokenizer.decode(prompt)]]
                prompts += PROMPTS
                batches.append(batch)
            everything = [each for batch in batches for each in batch]
            kept = [each for each in everything if each["reward"] is not None and
                    not (mask_truncated_completions and each["ids"][-1] != self.tokenizer.eos_token_id)]
            with torch.no_grad():
                for each in kept:
                    each["old"], _ = scores(policy, each["prompt"], each["ids"])
                    each["old_values"] = values(each["prompt"], each["ids"])
                    apart = scores(reference, each["prompt"], each["ids"])[0] - each["old"]
                    each["kl"] = -apart if kl_estimator == "k1" else apart.exp() - 1 - apart
                    ended = each["ids"][-1] == self.tokenizer.eos_token_id
                    each["score"] = each["reward"] - (missing_eos_penalty or 0) * (not ended)
                    each["rewards"] = -kl_coef * each["kl"]
                    each["rewards"][-1] += each["score"]
                if whiten_rewards:
                    for each, rewards in zip(kept, whitened([each["rewards"] for each in kept], shift=False)):
                        each["rewards"] = rewards
                for each in kept:
                    advantages, last = [], 0.0
                    for t in reversed(range(len(each["ids"]))):
                        following = each["old_values"][t + 1] if t + 1 < len(each["ids"]) else 0.0
                        last = each["rewards"][t] + gamma * following - each["old_values"][t] + gamma * lam * last
                        advantages.append(last)
                    each["advantages"] = torch.stack(advantages[::-1])
                    each["returns"] = each["advantages"] + each["old_values"]
                if whiten_advantages:
                    for each, advantages in zip(kept, whitened([each["advantages"] for each in kept], shift=True)):
                        each["advantages"] = advantages
            generation = {"objective/kl": sum(each["kl"].sum() for each in kept) / len(kept) if kl_coef else 0,
                          "objective/scores": sum(each["score"] for each in kept) / len(kept),
                          "objective/entropy": -sum(each["old"].sum() for each in kept) / len(kept)}
            generation["objective/rlhf_reward"] = generation["objective/scores"] - kl_coef * generation["objective/kl"]
            for epoch in range(num_ppo_epochs):
                for number, batch in enumerate(batches):
                    own = [each for each in batch if "old" in each]
                    parts = [(scores(policy, each["prompt"], each["ids"]), values(each["prompt"], each["ids"])) for each in own]
                    over = lambda name: torch.cat([each[name] for each in own])
                    logps, entropies = (torch.cat([part[0][i] for part in parts]) for i in range(2))
                    predicted = torch.cat([part[1] for part in parts])
                    ratio = (logps - over("old")).exp()
                    plain = -over("advantages") * ratio
                    clipped = -over("advantages") * ratio.clamp(1 - cliprange, 1 + cliprange)
                    policy_loss = torch.max(plain, clipped).mean()
                    near = torch.clamp(predicted, over("old_values") - cliprange_value, over("old_values") + cliprange_value)
                    error, clipped_error = (predicted - over("returns")) ** 2, (near - over("returns")) ** 2
                    value_loss = 0.5 * torch.max(error, clipped_error).mean()
                    loss = policy_loss + vf_coef * value_loss - (entropy_coef or 0) * entropies.mean()
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    steps.append({"loss": loss, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropies.mean(),
                                  "approx_kl": 0.5 * ((logps - over("old")) ** 2).mean(), "ratio_mean": ratio.mean(),
                                  "pg_clipfrac": (clipped > plain).float().mean(),
                                  "vf_clipfrac": (clipped_error > error).float().mean(), "returns_mean": over("returns").mean(),
                                  **(generation if epoch == number == 0 else {})})
        return [{name: float(torch.as_tensor(x).detach()) for name, x in step.items()} for step in steps], policy.state_dict(), value.state_dict()

    def compare(self, ours, theirs, skip=()):
        self.assertEqual((len(ours[0]), len(theirs[0])), (STEPS, STEPS))
        for step, (a, b) in enumerate(zip(ours[0], theirs[0])):
            for name in b.keys() - set(skip):
                self.assertLess(abs(a[name] - b[name]), 2e-6 + TOLERANCE * abs(b[name]), f"step {step}, {name}: {a[name]} and {b[name]}")
        for mine, peer, folder in ((ours[1], theirs[1], "model"), (ours[2], theirs[2], "value")):
            begin = load_file(self.directory / folder / "model.safetensors")
            self.assertGreater(largest_difference(mine, begin), 1e-3)  # something was learned
            for name, start in begin.items():
                change = (peer[name] - start).abs().max().item()
                apart = (mine[name] - peer[name]).abs().max().item()
                # Weights near 1 are known to 6e-8, after each of the steps.
                self.assertLess(apart, 5 * TOLERANCE * change + STEPS * 1.2e-7, f"{name} changed by {change}")

    def test_ppo(self):
        for case in CASES:
            with self.subTest(**case):
                self.compare(self.run_ours(case), self.run_formula(**case))

    def test_ppo_in_minibatches_and_on_a_mesh(self):
        case = CASES[1]
        theirs = self.run_formula(**case)
        self.compare(self.run_ours({**case, "gradient_accumulation_steps": 2}), theirs)
        self.compare(self.run_ours(case, mesh=[1, 2, 1, 2, 1]), theirs)

    def stepwise_rows(self, count):
        generator = random.Random(9)
        return [{"prompt": words(generator, 3, 9), "completions": [words(generator, 2, 9) for _ in range(generator.randint(1, 4))]}
                for _ in range(count)]

    def test_prm(self):
        rows = self.stepwise_rows(16)
        generator = random.Random(1)
        for row in rows:
            row["labels"] = [generator.random() < 0.5 for _ in row["completions"]]
        data = write_rows(self.directory / "steps.jsonl", rows)

        def tokenize(row, step_separator="\n", max_length=1024, max_completion_length=None, train_on_last_step_only=False):
            """As trl's PRMTrainer.tokenize_row does."""
            encode = lambda text: self.tokenizer(text, add_special_tokens=False).input_ids
            marks = [int(label) for label in row["labels"]]
            if train_on_last_step_only:
                marks = [-100] * (len(marks) - 1) + marks[-1:]
            steps = [encode(step) + encode(step_separator) for step in row["completions"]]
            labels = [label for ids, mark in zip(steps, marks) for label in [-100] * (len(ids) - 1) + [mark]]
            answer = [token for ids in steps for token in ids]
            prompt = [self.tokenizer.bos_token_id] + encode(row["prompt"])
            ids = prompt + answer[:max_completion_length]
            labels = [-100] * len(prompt) + labels[:max_completion_length]
            return ids[:max_length], labels[:max_length]

        for family, case in (("llama", dict(step_separator=".")), ("qwen2", dict(step_separator="!?", train_on_last_step_only=True)),
                             ("mixtral", dict(step_separator=".", max_length=24)), ("llama", dict(step_separator=".", max_completion_length=15)),
                             *((family, dict(step_separator=".")) for family in ("gemma", "gemma2", "mistral", "phi3", "qwen3"))):
            with self.subTest(family, **case):
                folder = self.directory / f"steps-{family}"
                make_model(folder, family, task="tokens")
                model = AutoModelForTokenClassification.from_pretrained(folder, attn_implementation="eager").eval()
                begin = load_file(folder / "model.safetensors")
                optimizer, losses, rights = torch.optim.SGD(model.parameters(), lr=RATE), [], []
                made = [tokenize(row, **case) for row in rows]
                made = [row for row in made if any(label >= 0 for label in row[1])]
                for step in range(STEPS):
                    batch = [made[i % len(made)] for i in range(step * 4, step * 4 + 4)]
                    longest = max(len(ids) for ids, _ in batch)
                    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids, _ in batch])
                    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in batch])
                    labels = torch.tensor([labels + [-100] * (longest - len(labels)) for _, labels in batch])
                    out = model(input_ids=ids, attention_mask=mask, labels=labels)
                    optimizer.zero_grad()
                    out.loss.backward()
                    optimizer.step()
                    losses.append(out.loss.item())
                    rights.append((out.logits.argmax(-1) == labels)[labels != -100].float().mean().item())
                weights = weights_of(model)
                for more in ({}, {"mesh": [1, 2, 1, 2, 1]}, {"gradient_accumulation_steps": 2})[:3 if family in ("llama", "mixtral") else 1]:
                    mesh = more.pop("mesh", None)
                    steps, ours = run_ours(PROGRAM, self.directory, model=folder, data=data, trainer_type="prm", mesh=mesh,
                                           arguments={"total_batch_size": 4, "max_training_steps": STEPS, "learning_rate": RATE,
                                                      "optimizer": "sgd", "weight_decay": 0.0, **case, **more})
                    for step, loss, right in zip(steps, losses, rights, strict=True):
                        self.assertLess(abs(step["loss"] - loss), 2e-6 + TOLERANCE * loss)
                        self.assertAlmostEqual(step["accuracy"], right, places=5)
                    self.assertEqual(ours.keys(), weights.keys())
                    for name, start in begin.items():
                        change = (weights[name] - start).abs().max().item()
                        self.assertLess((ours[name] - weights[name]).abs().max().item(), 5 * TOLERANCE * change + STEPS * 1.2e-7, name)
                    self.assertGreater(largest_difference(ours, begin), 1e-3)


if __name__ == "__main__":
    unittest.main()
