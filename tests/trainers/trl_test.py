"""Our trainers beside trl's: the same tiny model and pairs, five steps; the loss of every step, the metrics and the
final weights must agree. usage: trl_test.py TRAIN_PROGRAM"""

import functools
import json
import math
import pathlib
import random
import statistics
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)

from training import largest_difference, make_model, make_pairs, make_tokenizer, run_ours, weights_of, write_rows

import datasets
import torch
import torch.nn.functional as F
from datasets import Dataset
from safetensors.torch import load_file
from sklearn.linear_model import LogisticRegression
from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, RewardConfig, RewardTrainer, SFTConfig, SFTTrainer
from trl.experimental.cpo import CPOConfig, CPOTrainer
from trl.experimental.gkd import GKDConfig, GKDTrainer
from trl.experimental.orpo import ORPOConfig, ORPOTrainer

datasets.disable_progress_bars()
STEPS, BATCH, RATE = 5, 4, 1e-3
TOLERANCE = 1e-3
OURS = {"total_batch_size": BATCH, "max_training_steps": STEPS, "learning_rate": RATE, "optimizer": "adamw",
        "weight_decay": 0.0, "clip_grad": 1.0, "max_length": 128}
PAIRS = {**OURS, "max_prompt_length": None}
EXPERTS = {"output_router_logits": True, "router_aux_loss_coef": 0.2}
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
                    **{"max_length": 128, **changes})

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
        begin = load_file(self.directory / "model" / "model.safetensors")
        self.assertGreater(largest_difference(our_weights, begin), 3 * TOLERANCE)  # something was learned

    def dpo(self, arguments: dict, ours: dict = {}, theirs: dict = {}, family="llama", config={}, names=METRICS, **job):
        make_model(self.directory / "reference", family, seed=7, **config)
        model = make_model(self.directory / "model", family, **config)
        rows = make_pairs(BATCH * STEPS)
        data = write_rows(self.directory / "rows.jsonl", rows)
        reference = AutoModelForCausalLM.from_pretrained(self.directory / "reference", attn_implementation="eager")
        theirs = self.run_theirs(DPOTrainer, model, rows, self.config(DPOConfig, **arguments, **theirs),
                                 ref_model=reference)
        job = {"other": self.directory / "reference", "data": data, **job}
        ours = run_ours(PROGRAM, self.directory, model=self.directory / "model", trainer_type="dpo",
                        arguments={**PAIRS, **arguments, **ours}, **job)
        self.compare(ours, theirs, names)
        if family == "mixtral":
            for step in ours[0]:
                self.assertTrue(0 < step["router/entropy"] <= 1.387 and 1 <= step["router/load_max"] <= 2, step)  # ln 4
        return theirs

    def test_dpo(self):
        for loss_type, smoothing in [("sigmoid", 0.0), ("ipo", 0.0), ("hinge", 0.0), ("robust", 0.2),
                                     ("exo_pair", 0.1), ("nca_pair", 0.0), ("bco_pair", 0.0), ("sppo_hard", 0.0),
                                     ("apo_zero", 0.0), ("apo_down", 0.0), ("aot", 0.0), ("aot", 0.2)]:
            with self.subTest(loss_type=loss_type):
                self.dpo({"beta": 0.3, "loss_type": loss_type, "label_smoothing": smoothing})
        with self.subTest(loss_type="aot_pair"):  # trl has another name for it
            self.dpo({"beta": 0.3, "label_smoothing": 0.1}, {"loss_type": "aot_pair"}, {"loss_type": "aot_unpaired"})

    def test_dpo_options(self):
        for arguments in ({"loss_type": "discopop", "discopop_tau": 0.1}, {"loss_type": "sigmoid_norm", "beta": 2.0},
                          {"loss_type": "aot_unpaired", "label_smoothing": 0.1},
                          {"f_divergence_type": "forward_kl"}, {"f_divergence_type": "js_divergence"},
                          {"f_divergence_type": "alpha_divergence", "f_alpha_divergence_coef": 0.7},
                          {"loss_type": "ipo", "f_divergence_type": "js_divergence"}, {"ld_alpha": 0.4},
                          {"use_weighting": True}, {"use_weighting": True, "loss_type": "ipo"},
                          {"loss_type": ["sigmoid", "bco_pair", "sft"], "loss_weights": [0.8, 0.2, 1.0]}):
            with self.subTest(**arguments):
                self.dpo({"beta": 0.3, **arguments})

    def test_dpo_without_padding(self):
        """trl's own padding_free is switched off: its padded run, and ours to 1e-5."""
        job = dict(model=self.directory / "model", trainer_type="dpo", other=self.directory / "reference",
                   data=self.directory / "rows.jsonl")
        for case in ({"beta": 0.3}, {"beta": 0.3, "loss_type": "ipo", "ld_alpha": 0.4}, {"beta": 0.3, "use_weighting": True},
                     {"beta": 0.3, "precompute_ref_log_probs": True}):
            with self.subTest(**case):
                theirs = self.dpo(case, {"padding_free": True})
                begin = load_file(self.directory / "model" / "model.safetensors")
                for mesh in (None, [2, 1, 1, 2, 1]) if len(case) == 1 else (None,):
                    def run(joins, **changes):
                        arguments = {**PAIRS, **case, "padding_free": joins, **changes}
                        return run_ours(PROGRAM, self.directory, **job, arguments=arguments, mesh=mesh)

                    padded, joined = run(False), run(True)
                    self.compare(joined, theirs)
                    for one, other in zip(padded[0], joined[0], strict=True):
                        for name in ["loss", *METRICS]:
                            self.assertLess(abs(one[name] - other[name]), 1e-5 * max(1, abs(one[name])), name)
                    # A step of plain gradient descent is the gradient.
                    descent = {"optimizer": "sgd", "learning_rate": 0.1, "max_training_steps": 1, "clip_grad": None}
                    (_, a), (_, b) = run(False, **descent), run(True, **descent)
                    for name in a:
                        change = (a[name] - begin[name]).abs().max().item()
                        self.assertLess((a[name] - b[name]).abs().max().item(), 1e-5 * change + 1.2e-7, name)
                    self.assertGreater(largest_difference(a, begin), 1e-3)

    def test_dpo_with_a_reference_that_follows(self):
        moving = {"beta": 0.3, "sync_ref_model": True, "ref_model_mixup_alpha": 0.6, "ref_model_sync_steps": 2}
        theirs = self.dpo(moving)
        job = dict(model=self.directory / "model", trainer_type="dpo", other=self.directory / "reference",
                   data=self.directory / "rows.jsonl")
        whole = run_ours(PROGRAM, self.directory, **job, arguments={**PAIRS, **moving})
        still = run_ours(PROGRAM, self.directory, **job, arguments={**PAIRS, "beta": 0.3})
        apart = [abs(a["loss"] - b["loss"]) > 0.01 for a, b in zip(whole[0], still[0], strict=True)]
        self.assertEqual(apart, [False, False, True, True, True])
        self.compare(run_ours(PROGRAM, self.directory, **job, arguments={**PAIRS, **moving}, mesh=[1, 2, 1, 2, 1]), theirs)
        # A checkpoint keeps the reference: one before it moved, one after, and one in between.
        kept = {**PAIRS, **moving, "save_directory": str(self.directory / "kept"), "save_steps": 1}
        for steps in (1, 3, STEPS):
            again = run_ours(PROGRAM, self.directory, **job, arguments={**kept, "max_training_steps": steps})
        self.assertEqual(largest_difference(again[1], whole[1]), 0)
        for change, message in (({"lora_rank": 2}, "where adapters are trained"), ({"reference_free": True}, "reference_free"),
                                ({"precompute_ref_log_probs": True}, "precompute_ref_log_probs")):
            with self.assertRaisesRegex(AssertionError, f"sync_ref_model must be false .*{message}"):
                run_ours(PROGRAM, self.directory, **job, arguments={**PAIRS, **moving, **change})

    def test_kto(self):
        generator = random.Random(1)
        rows = [{"prompt": row["prompt"], "completion": row["chosen"], "label": generator.random() < 0.5}
                for row in make_pairs(BATCH * STEPS)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        make_model(self.directory / "reference", seed=7)
        for arguments in ({}, {"loss_type": "apo_zero_unpaired"}, {"desirable_weight": 1.4, "undesirable_weight": 0.6}):
            with self.subTest(**arguments):
                model = make_model(self.directory / "model")
                reference = AutoModelForCausalLM.from_pretrained(self.directory / "reference", attn_implementation="eager")
                theirs = self.run_theirs(KTOTrainer, model, rows, self.config(KTOConfig, beta=0.3, **arguments),
                                         ref_model=reference)
                job = dict(model=self.directory / "model", data=data, trainer_type="kto", other=self.directory / "reference",
                           arguments={**PAIRS, "beta": 0.3, **arguments})
                names = ["kl", "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected"]
                for step in theirs[0]:
                    self.assertIn("rewards/margins", step)  # both kinds of answers in every batch
                self.compare(run_ours(PROGRAM, self.directory, **job), theirs, names)
                if not arguments:  # ranks that share rows see the same minibatch
                    self.compare(run_ours(PROGRAM, self.directory, **job, mesh=[1, 1, 1, 2, 1]), theirs, names)

    def test_bco(self):
        """Against trl's formula in torch: this version of trl has no such trainer any more."""
        generator, beta = random.Random(1), 0.3
        rows = [{"prompt": row["prompt"], "completion": row["chosen"], "label": generator.random() < 0.5}
                for row in make_pairs(BATCH * STEPS)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        reference = make_model(self.directory / "reference", seed=7)
        for parts in (1, 2):
            model = make_model(self.directory / "model")
            optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
            steps, seen = [], []
            for step in range(STEPS):
                batch, sums = rows[step * BATCH:(step + 1) * BATCH], {}
                optimizer.zero_grad()
                for part in range(parts):
                    own = batch[part * BATCH // parts:(part + 1) * BATCH // parts]
                    logps = answer_logps(model, own)
                    with torch.no_grad():
                        rewards = beta * (logps - answer_logps(reference, own))
                    rewards = rewards + beta * (logps - logps.detach())
                    seen += rewards.tolist()  # trl's RunningMoments
                    delta = sum(seen) / len(seen)
                    wanted = torch.tensor([row["label"] for row in own])
                    loss = -F.logsigmoid(torch.where(wanted, rewards - delta, delta - rewards)).mean() / parts
                    loss.backward()
                    for name, value in (("loss", loss.item()), ("delta", delta / parts)):
                        sums[name] = sums.get(name, 0) + value
                    for side, mask in (("chosen", wanted), ("rejected", ~wanted)):
                        count = sum(row["label"] == (side == "chosen") for row in batch)
                        for name, values in ((f"rewards/{side}", rewards), (f"logps/{side}", logps)):
                            sums[name] = sums.get(name, 0) + values[mask].sum().item() / count
                sums["rewards/margins"] = sums["rewards/chosen"] - sums["rewards/rejected"]
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                steps.append(sums)
            theirs = steps, weights_of(model)
            job = dict(model=self.directory / "model", data=data, trainer_type="bco", other=self.directory / "reference",
                       arguments={**PAIRS, "beta": beta, "gradient_accumulation_steps": parts})
            names = ["delta", *(name for name in METRICS if name != "rewards/accuracies")]
            for mesh in (None, [2, 1, 1, 2, 1]) if parts == 1 else (None,):
                with self.subTest(parts=parts, mesh=mesh):
                    self.compare(run_ours(PROGRAM, self.directory, **job, mesh=mesh), theirs, names)
        # A checkpoint keeps delta; an evaluation leaves it as it is.
        whole = run_ours(PROGRAM, self.directory, **job)
        kept = {"save_directory": str(self.directory / "kept"), "save_steps": 2, "do_eval": True, "evaluation_steps": 1}
        for steps in (2, STEPS):
            again = run_ours(PROGRAM, self.directory, **{**job, "arguments": {
                **job["arguments"], **kept, "max_training_steps": steps}}, eval_data=data)
        self.assertEqual([step["delta"] for step in again[0] if "delta" in step], [step["delta"] for step in whole[0][2:]])
        self.assertEqual(largest_difference(again[1], whole[1]), 0)

    def test_bco_weighs_unwanted_answers_by_their_prompts(self):
        """Underlying distribution matching: the formula that trl had, with its classifier, which is scikit-learn's."""
        generator, beta, limits = random.Random(1), 0.3, (0.2, 1.0)
        rows = [{"prompt": row["prompt"], "completion": row["chosen"], "label": generator.random() < 0.5}
                for row in make_pairs(BATCH * STEPS)]
        for row in rows:
            row["prompt"] += "zz" * row["label"] * generator.randrange(3)  # prompts tell the answers apart, a little
        data = write_rows(self.directory / "rows.jsonl", rows)
        reference, model = make_model(self.directory / "reference", seed=7), make_model(self.directory / "model")

        def vectors(part):
            found = []
            for row in part:
                ids = make_tokenizer()(row["prompt"], return_tensors="pt").input_ids
                with torch.no_grad():
                    found.append(reference(ids, output_hidden_states=True).hidden_states[-1][0].double().mean(0))
            return torch.stack(found)

        judge = LogisticRegression(class_weight="balanced", tol=1e-9, max_iter=10000)
        judge.fit(vectors(rows), [row["label"] for row in rows])
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
        steps, seen, clamped = [], [], 0
        for step in range(STEPS):
            batch = rows[step * BATCH:(step + 1) * BATCH]
            wanted = torch.tensor([row["label"] for row in batch])
            with torch.no_grad():
                p = torch.tensor(judge.predict_proba(vectors(batch))[:, 1])
                plain = p / (1 - p + 1e-8)
                ratios = plain.clamp(*limits).float()
                clamped += ((plain < limits[0]) | (plain > limits[1]))[~wanted].sum().item()
                before = answer_logps(reference, batch)
            logps = answer_logps(model, batch)
            rewards = beta * (logps - before)
            seen += rewards.tolist()
            delta = sum(seen) / len(seen)
            losses = torch.where(wanted, -F.logsigmoid(rewards - delta), -ratios * F.logsigmoid(delta - rewards))
            optimizer.zero_grad()
            losses.mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            steps.append({"loss": losses.mean().item(), "delta": delta, "density_ratio": ratios[~wanted].mean().item()})
        self.assertTrue(0 < clamped < sum(not row["label"] for row in rows), clamped)
        job = dict(model=self.directory / "model", data=data, trainer_type="bco", other=self.directory / "reference",
                   arguments={**PAIRS, "beta": beta, "underlying_distribution_matching": True, "prompt_sample_size": 64,
                              "min_density_ratio": limits[0], "max_density_ratio": limits[1]})
        for mesh in (None, [1, 2, 1, 2, 1]):
            with self.subTest(mesh=mesh):
                ours = run_ours(PROGRAM, self.directory, **job, mesh=mesh)
                self.compare(ours, (steps, weights_of(model)), ["delta", "density_ratio"])

    def test_cpo(self):
        rows = make_pairs(BATCH * STEPS)
        data = write_rows(self.directory / "rows.jsonl", rows)
        for arguments in ({}, {"loss_type": "hinge", "cpo_alpha": 0.5}, {"loss_type": "ipo"},
                          {"label_smoothing": 0.2, "alpha": 0.02},
                          {"loss_type": "simpo", "simpo_gamma": 0.7, "label_smoothing": 0.1, "beta": 2.0},
                          {"loss_type": "simpo", "cpo_alpha": 0.0, "beta": 2.0},
                          {"loss_type": "alphapo", "alpha": 0.25, "beta": 2.0}):
            with self.subTest(**arguments):
                model = make_model(self.directory / "model")
                theirs = self.run_theirs(CPOTrainer, model, rows, self.config(CPOConfig, **{"beta": 0.3, **arguments}))
                job = dict(model=self.directory / "model", data=data, trainer_type="cpo",
                           arguments={**PAIRS, "beta": 0.3, **arguments})
                self.compare(run_ours(PROGRAM, self.directory, **job), theirs)
                if not arguments:
                    self.compare(run_ours(PROGRAM, self.directory, **job, mesh=[1, 2, 1, 2, 1]), theirs)

    def test_sft_weighted_by_probability(self):
        rows = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in make_pairs(BATCH * STEPS)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        model = make_model(self.directory / "model")
        theirs = self.run_theirs(SFTTrainer, model, rows, self.config(SFTConfig, loss_type="dft"))
        for mesh in (None, [1, 2, 1, 2, 1]):
            self.compare(run_ours(PROGRAM, self.directory, model=self.directory / "model", data=data, trainer_type="sft",
                                  mesh=mesh, arguments={**OURS, "loss_type": "dft"}), theirs, [])

    def test_neftune(self):
        """Noise is drawn by other generators: what it does to the loss of one batch has the same mean and deviation."""
        rows = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in make_pairs(BATCH)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        model = make_model(self.directory / "model")
        alpha, count = 12.0, 100
        config = self.config(SFTConfig, neftune_noise_alpha=alpha)
        config.max_steps, config.learning_rate = count, 0.0
        theirs = [float(step["loss"]) for step in self.run_theirs(SFTTrainer, model, rows, config)[0]]
        job = dict(model=self.directory / "model", data=data, trainer_type="sft")

        def losses(**changes):
            arguments = {**OURS, "learning_rate": 0.0, "neftune_noise_alpha": alpha, **changes}
            return [step["loss"] for step in run_ours(PROGRAM, self.directory, **job, arguments=arguments)[0]]

        ours, plain = losses(max_training_steps=count), losses(max_training_steps=1, neftune_noise_alpha=None)[0]
        error = (statistics.variance(ours) / count + statistics.variance(theirs) / count) ** 0.5
        self.assertLess(abs(statistics.mean(ours) - statistics.mean(theirs)), 4 * error)
        self.assertLess(abs(math.log(statistics.stdev(ours) / statistics.stdev(theirs))), 4 / math.sqrt(count))
        self.assertEqual(len(set(ours)), count)
        # The same noise on any mesh, and after a checkpoint; none in an evaluation.
        arguments = {**OURS, "neftune_noise_alpha": alpha}
        alone = run_ours(PROGRAM, self.directory, **job, arguments=arguments)
        for mesh in ([2, 1, 1, 2, 1], [1, 2, 1, 1, 2]):
            with self.subTest(mesh=mesh):
                self.compare(run_ours(PROGRAM, self.directory, **job, arguments=arguments, mesh=mesh), alone, [])
        kept = {**arguments, "save_directory": str(self.directory / "kept"), "do_eval": True}
        for steps in (2, STEPS):
            again = run_ours(PROGRAM, self.directory, **job, arguments={**kept, "max_training_steps": steps}, eval_data=data)
        self.assertEqual(largest_difference(again[1], alone[1]), 0)
        end = run_ours(PROGRAM, self.directory, **job, eval_data=data,
                       arguments={**OURS, "learning_rate": 0.0, "max_training_steps": 1, "neftune_noise_alpha": 50.0,
                                  "do_eval": True})[0]
        self.assertAlmostEqual(next(step["eval_loss"] for step in end if "eval_loss" in step), plain, places=5)

    def test_dpo_sorts_the_pairs_of_all_ranks(self):
        for loss_type, theirs in (("aot", "aot"), ("aot_pair", "aot_unpaired")):
            with self.subTest(loss_type=loss_type):
                self.dpo({"beta": 0.3}, {"loss_type": loss_type}, {"loss_type": theirs}, mesh=[2, 1, 1, 2, 1])

    def test_dpo_with_a_reference_that_was_run_before(self):
        self.dpo({"precompute_ref_log_probs": True})
        # Without a reference it is the model as the run begins.
        make_model(self.directory / "model")
        model = AutoModelForCausalLM.from_pretrained(self.directory / "model", attn_implementation="eager")
        rows = make_pairs(BATCH * STEPS - 1)  # the last batch is not full
        data = write_rows(self.directory / "rows.jsonl", rows)
        job = {"model": self.directory / "model", "data": data, "trainer_type": "dpo"}
        live = run_ours(PROGRAM, self.directory, **job, other=self.directory / "model", arguments=PAIRS)
        ahead = run_ours(PROGRAM, self.directory, **job, arguments={**PAIRS, "precompute_ref_log_probs": True})
        names = [name for name in METRICS if name != "rewards/accuracies"]  # at the first step all rewards are zero
        self.compare(ahead, live, names)
        # The same numbers as columns of the data.
        for row in rows:
            for side in ("chosen", "rejected"):
                row[f"ref_{side}_logps"] = log_probability(model, row["prompt"], row[side])
        given = run_ours(PROGRAM, self.directory, **{**job, "data": write_rows(self.directory / "given.jsonl", rows)},
                         arguments=PAIRS)
        self.compare(given, live, names)
        with self.assertRaisesRegex(AssertionError, 'needs "ref_chosen_logps" in every row'):
            run_ours(PROGRAM, self.directory, **job, arguments=PAIRS)

    def test_the_reference_counts_where_it_is_forced(self):
        make_model(self.directory / "reference", seed=7)
        make_model(self.directory / "model")
        job = {"model": self.directory / "model", "trainer_type": "dpo", "other": self.directory / "reference",
               "data": write_rows(self.directory / "rows.jsonl", make_pairs(BATCH * STEPS))}

        def losses(**changes):
            return [step["loss"] for step in run_ours(PROGRAM, self.directory, **job, arguments={**PAIRS, **changes})[0]]

        usual = losses()
        self.assertNotEqual(losses(reference_free=True), usual)
        self.assertEqual(losses(reference_free=True, force_use_ref_model=True), usual)

    def test_dpo_with_the_likelihood_of_chosen_answers(self):
        self.dpo({}, {"rpo_alpha": 0.7}, {"loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.7]})

    def test_dpo_of_experts(self):
        for mesh in (None, [1, 1, 4, 1, 1]):
            with self.subTest(mesh=mesh):
                self.dpo({}, {"aux_loss_enabled": True}, family="mixtral", config=EXPERTS,
                         names=[*METRICS, "aux_loss"], mesh=mesh)

    def test_dpo_on_meshes_and_in_minibatches(self):
        theirs = self.dpo({"beta": 0.3}, {"gradient_accumulation_steps": 2})
        for mesh, extra in [([1, 2, 1, 2, 1], {}), ([2, 1, 1, 1, 2], {"precompute_ref_log_probs": True})]:
            with self.subTest(mesh=mesh):
                ours = run_ours(PROGRAM, self.directory, model=self.directory / "model", trainer_type="dpo",
                                other=self.directory / "reference", data=self.directory / "rows.jsonl", mesh=mesh,
                                arguments={**PAIRS, "beta": 0.3, **extra})
                self.compare(ours, theirs)

    def test_dpo_of_long_rows(self):
        for mode in ("keep_start", "keep_end"):
            with self.subTest(mode=mode):
                limits = {"max_length": 20, "truncation_mode": mode}
                self.dpo({}, limits, limits)

    def test_orpo(self):
        model = make_model(self.directory / "model")
        rows = make_pairs(BATCH * STEPS)
        data = write_rows(self.directory / "rows.jsonl", rows)
        theirs = self.run_theirs(ORPOTrainer, model, rows, self.config(ORPOConfig, beta=0.5))
        job = dict(model=self.directory / "model", data=data, trainer_type="orpo", arguments={**PAIRS, "beta": 0.5})
        names = [*METRICS, "nll_loss", "log_odds_ratio", "log_odds_chosen"]
        self.compare(run_ours(PROGRAM, self.directory, **job), theirs, names)
        self.compare(run_ours(PROGRAM, self.directory, **job, mesh=[1, 2, 1, 2, 1]), theirs, names)

    def test_orpo_of_experts(self):
        model = make_model(self.directory / "model", "mixtral", **EXPERTS)
        rows = make_pairs(BATCH * STEPS)
        data = write_rows(self.directory / "rows.jsonl", rows)
        theirs = self.run_theirs(ORPOTrainer, model, rows, self.config(ORPOConfig, beta=0.5))
        job = dict(model=self.directory / "model", data=data, trainer_type="orpo", arguments={**PAIRS, "beta": 0.5})
        for mesh in (None, [1, 1, 4, 1, 1]):
            with self.subTest(mesh=mesh):
                ours = run_ours(PROGRAM, self.directory, **job, mesh=mesh)
                self.compare(ours, theirs, [*METRICS, "nll_loss"])
                self.assertIn("router/load_max", ours[0][0])

    def test_reward(self):
        for center in (None, 0.1):
            for margins in ({}, {"margin": lambda generator: generator.random()}):
                with self.subTest(center=center, margins=bool(margins)):
                    model = make_model(self.directory / "model", task="reward")
                    rows = make_pairs(BATCH * STEPS, **margins)
                    data = write_rows(self.directory / "rows.jsonl", rows)
                    config = self.config(RewardConfig, center_rewards_coefficient=center)
                    theirs = self.run_theirs(RewardTrainer, model, rows, config)
                    job = dict(model=self.directory / "model", data=data, trainer_type="reward",
                               arguments={**OURS, "center_rewards_coefficient": center})
                    names = ["accuracy", "margin", "mean_reward"]
                    self.compare(run_ours(PROGRAM, self.directory, **job), theirs, names)
                    if center and margins:
                        self.compare(run_ours(PROGRAM, self.directory, **job, mesh=[1, 2, 1, 2, 1]), theirs, names)

    def test_distillation(self):
        self.distill([({}, None), ({"logits_chunk_size": 7}, None), ({"gradient_accumulation_steps": 2}, None),
                      ({"logits_chunk_size": 7}, [1, 2, 1, 2, 1]), ({}, [2, 1, 1, 1, 2])])

    def test_distillation_of_experts(self):
        runs = [({}, None), ({}, [1, 2, 2, 1, 1]), ({}, [2, 1, 1, 1, 2])]
        self.distill(runs, "mixtral", EXPERTS, ["aux_loss", "router/load_max", "router/entropy"])
        # Where the config does not ask for it, the arguments may.
        runs = [({"aux_loss_enabled": True, "loss_config": {"auxiliary_loss_coefficient": 0.2}}, None)]
        self.distill(runs, "mixtral", {"router_aux_loss_coef": 0.5}, ["aux_loss"])

    def distill(self, runs, family="llama", config={}, names=[]):
        """Against the formula in torch."""
        temperature, alpha, distance = 3.0, 0.6, 0.1
        student = make_model(self.directory / "model", family, **config)
        teacher = make_model(self.directory / "teacher", seed=7, num_hidden_layers=3, num_attention_heads=8)
        rows = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in make_pairs(BATCH * STEPS)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        optimizer = torch.optim.AdamW(student.parameters(), lr=RATE, weight_decay=0.0)
        steps = []
        for step in range(STEPS):
            inputs, labels = prompt_and_completion(rows[step * BATCH:(step + 1) * BATCH])
            routed = {"output_router_logits": True} if names else {}
            ours = student(**inputs, output_hidden_states=True, **routed)
            with torch.no_grad():
                theirs = teacher(**inputs, output_hidden_states=True)
            counted = labels[:, 1:] != -100
            s, t = ours.logits[:, :-1][counted], theirs.logits[:, :-1][counted]
            kl = F.kl_div(F.log_softmax(s / temperature, -1), F.log_softmax(t / temperature, -1),
                          reduction="batchmean", log_target=True) * temperature**2
            ce = F.cross_entropy(s, labels[:, 1:][counted])
            hidden = (ours.hidden_states[-1] - theirs.hidden_states[-1])[:, :-1][counted].pow(2).sum(-1).mean()
            loss = alpha * kl + (1 - alpha) * ce + distance * hidden
            if names:
                loss = loss + 0.2 * ours.aux_loss
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
            optimizer.step()
            steps.append({"loss": loss.item(), "kl_loss": kl.item(), "ce_loss": ce.item(),
                          "hidden_state_loss": hidden.item(), **(router_numbers(ours, inputs) if names else {})})
        job = dict(model=self.directory / "model", other=self.directory / "teacher", data=data,
                   trainer_type="distillation")
        arguments = {**OURS, "temperature": temperature, "alpha": alpha, "hidden_state_loss_weight": distance}
        for changes, mesh in runs:
            with self.subTest(changes=changes, mesh=mesh):
                ours = run_ours(PROGRAM, self.directory, **job, mesh=mesh, arguments={**arguments, **changes})
                self.compare(ours, (steps, weights_of(student)), ["kl_loss", "ce_loss", "hidden_state_loss", *names])

    def test_gkd(self):
        rows = [{"prompt": row["prompt"], "completion": row["chosen"]} for row in make_pairs(BATCH * STEPS)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        generator = random.Random(2)
        written = {row["prompt"]: [generator.randrange(4, 30) for _ in range(generator.randint(1, 9))] + [2] for row in rows}
        (self.directory / "written.json").write_text(json.dumps(
            {prompt: [{"ids": ids, "reward": 0}] for prompt, ids in written.items()}))
        tokenizer = make_tokenizer()

        def collate(features):
            inputs, labels = prompt_and_completion(features)
            prompts = tokenizer([row["prompt"] for row in features], return_tensors="pt", padding=True, padding_side="left")
            return {**inputs, "labels": labels, "prompts": prompts["input_ids"],
                    "prompt_attention_mask": prompts["attention_mask"]}

        class Given(GKDTrainer):
            @staticmethod
            def generate_on_policy_outputs(model, inputs, generation_config):
                texts = tokenizer.batch_decode(inputs["prompts"], skip_special_tokens=True)
                rows = [{"prompt": text, "completion": tokenizer.decode(written[text][:-1])} for text in texts]
                inputs, labels = prompt_and_completion(rows)
                return inputs["input_ids"], inputs["attention_mask"], labels

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                # trl counts the data's tokens even where others were written; its own mean is over those.
                return super().compute_loss(model, inputs, return_outputs)

        for arguments, kind in (({"beta": 0.5, "lmbda": 0.0}, GKDTrainer), ({"beta": 0.0, "lmbda": 0.0}, GKDTrainer),
                                ({"beta": 1.0, "lmbda": 0.0, "temperature": 0.7}, GKDTrainer),
                                ({"beta": 0.3, "lmbda": 1.0, "temperature": 2.0}, Given),
                                ({"beta": 0.1, "lmbda": 0.0, "seq_kd": True}, Given)):
            with self.subTest(**arguments):
                arguments = {"temperature": 1.0, "max_new_tokens": 10, **arguments}
                model = make_model(self.directory / "model")
                teacher = make_model(self.directory / "teacher", seed=7, num_hidden_layers=3, num_attention_heads=8)

                class Trainer(kind):  # trl's applies its temperature to the sampling alone
                    generalized_jsd_loss = staticmethod(functools.partial(GKDTrainer.generalized_jsd_loss,
                                                                          temperature=arguments["temperature"]))

                theirs = self.run_theirs(Trainer, model, rows, self.config(GKDConfig, **arguments),
                                         teacher_model=teacher, data_collator=collate)
                job = dict(model=self.directory / "model", other=self.directory / "teacher", data=data, trainer_type="gkd",
                           completions=self.directory / "written.json",
                           teacher_completions=self.directory / "written.json", arguments={**OURS, **arguments})
                for mesh in (None, [2, 1, 1, 2, 1]) if kind is Given else (None,):
                    self.compare(run_ours(PROGRAM, self.directory, **job, mesh=mesh), theirs, [])

    def test_what_is_written_during_the_run(self):
        """seq_kd beside trl's SFT on the teacher's completions, the others beside EasyDeL's formulas in torch."""
        rows = [{"prompt": row["prompt"]} for row in make_pairs(BATCH * STEPS)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        generator = random.Random(2)
        written = {row["prompt"]: [generator.randrange(4, 30) for _ in range(generator.randint(1, 9))] + [2] for row in rows}
        (self.directory / "written.json").write_text(json.dumps(
            {prompt: [{"ids": ids, "reward": 0}] for prompt, ids in written.items()}))
        answered = [{**row, "completion": make_tokenizer().decode(written[row["prompt"]][:-1])} for row in rows]
        make_model(self.directory / "teacher", seed=7, num_hidden_layers=3, num_attention_heads=8)
        arguments = {**OURS, "max_prompt_length": 64, "max_completion_length": 16}
        job = dict(model=self.directory / "model", other=self.directory / "teacher", data=data,
                   completions=self.directory / "written.json", teacher_completions=self.directory / "written.json")
        model = make_model(self.directory / "model")
        theirs = self.run_theirs(SFTTrainer, model, answered, self.config(SFTConfig))
        for mesh in (None, [2, 1, 1, 2, 1]):
            self.compare(run_ours(PROGRAM, self.directory, **job, trainer_type="seq_kd", mesh=mesh, arguments=arguments), theirs, [])
        for kind, more in (("on_policy_distillation", {"temperature": 3.0, "alpha": 0.6}),
                           ("on_policy_distillation", {"generate_with_teacher": True, "logits_chunk_size": 7}),
                           ("sparse_distillation", {"temperature": 1.5, "top_k_teacher": 5})):
            settings = {"temperature": 2.0, "alpha": 0.9, **more}
            student, teacher = make_model(self.directory / "model"), AutoModelForCausalLM.from_pretrained(self.directory / "teacher")
            optimizer = torch.optim.AdamW(student.parameters(), lr=RATE, weight_decay=0.0)
            steps, degree = [], settings["temperature"]
            for step in range(STEPS):
                inputs, labels = prompt_and_completion(answered[step * BATCH:(step + 1) * BATCH])
                counted = labels[:, 1:] != -100
                with torch.no_grad():
                    t = teacher(**inputs).logits[:, :-1][counted]
                s = student(**inputs).logits[:, :-1][counted]
                if kind == "sparse_distillation":
                    known, tokens = t.log_softmax(-1).topk(settings["top_k_teacher"])
                    kl = -((known / degree).softmax(-1) * (s / degree).log_softmax(-1).gather(-1, tokens)).sum(-1).mean()
                else:
                    kl = F.kl_div((s / degree).log_softmax(-1), (t / degree).log_softmax(-1), reduction="batchmean", log_target=True)
                kl = kl * degree**2
                optimizer.zero_grad()
                (settings["alpha"] * kl).backward()
                torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
                optimizer.step()
                steps.append({"loss": settings["alpha"] * kl.item(), "kl_loss": kl.item()})
            for mesh in (None, [1, 2, 1, 2, 1]) if kind == "sparse_distillation" else (None,):
                with self.subTest(kind=kind, mesh=mesh, **more):
                    ours = run_ours(PROGRAM, self.directory, **job, trainer_type=kind, mesh=mesh, arguments={**arguments, **more})
                    self.compare(ours, (steps, weights_of(student)), ["kl_loss"])
        # By the engine, several completions of a prompt: each is a row.
        engine = {key: value for key, value in job.items() if "completions" not in key}
        for kind in ("seq_kd", "sparse_distillation"):
            steps = run_ours(PROGRAM, self.directory, **engine, trainer_type=kind,
                             arguments={**arguments, "num_generations_per_prompt": 3, "max_training_steps": 2})[0]
            self.assertTrue(all(1 <= step["completions/mean_length"] <= 16 for step in steps), steps)

    def test_gkd_on_what_the_student_writes(self):
        """A share of the steps, the same on any mesh and after a checkpoint; an evaluation is of the data."""
        rows = [{"messages": [{"role": "user", "content": row["prompt"]}, {"role": "assistant", "content": row["chosen"]}]}
                for row in make_pairs(BATCH * 6)]
        data = write_rows(self.directory / "rows.jsonl", rows)
        for name, seed in (("model", 0), ("teacher", 7)):
            make_model(self.directory / name, seed=seed)
            config = self.directory / name / "tokenizer_config.json"
            template = "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}</s>{% endif %}{% endfor %}"
            config.write_text(json.dumps({**json.loads(config.read_text()), "chat_template": template}))
        job = dict(model=self.directory / "model", other=self.directory / "teacher", data=data, eval_data=data,
                   trainer_type="gkd")
        arguments = {**OURS, "max_training_steps": 6, "max_new_tokens": 8, "lmbda": 0.5, "do_eval": True,
                     "evaluation_steps": 6}
        alone = run_ours(PROGRAM, self.directory, **job, arguments=arguments)
        steps = [step for step in alone[0] if "loss" in step]
        for step in steps:
            self.assertEqual("completions/mean_length" in step, step["on_policy"] == 1)
        self.assertEqual({step["on_policy"] for step in steps}, {0, 1})
        evaluation = next(step for step in alone[0] if "eval_loss" in step)
        self.assertNotIn("eval_on_policy", evaluation)
        on_mesh = run_ours(PROGRAM, self.directory, **job, arguments=arguments, mesh=[2, 1, 1, 1, 1])
        for a, b in zip(alone[0], on_mesh[0], strict=True):
            for name in ("loss", "on_policy", "completions/mean_length", "eval_loss"):
                self.assertAlmostEqual(a.get(name, 0), b.get(name, 0), places=4, msg=name)
        kept = {**arguments, "save_directory": str(self.directory / "kept")}
        for count in (3, 6):
            again = run_ours(PROGRAM, self.directory, **job, arguments={**kept, "max_training_steps": count})
        self.assertEqual(largest_difference(again[1], alone[1]), 0)
        with self.assertRaisesRegex(AssertionError, 'gkd needs "prompt" and "completion", or "messages" that end'):
            run_ours(PROGRAM, self.directory, **{**job, "data": write_rows(self.directory / "texts.jsonl", [{"text": "a"}])},
                     arguments=arguments)

    def test_evaluation_counts_every_pair_once(self):
        """The last batch is filled up with rows that count in nothing."""
        make_model(self.directory / "model")
        make_model(self.directory / "reference", seed=7)
        make_model(self.directory / "reward", task="reward")
        rows = make_pairs(6)
        data = write_rows(self.directory / "rows.jsonl", rows)
        for kind, model in [("dpo", "model"), ("orpo", "model"), ("reward", "reward")]:
            with self.subTest(kind=kind):
                job = dict(model=self.directory / model, trainer_type=kind, data=data, eval_data=data)
                if kind == "dpo":
                    job["other"] = self.directory / "reference"
                arguments = {**OURS, "learning_rate": 0.0, "max_training_steps": 1, "do_eval": True}
                if kind != "reward":
                    arguments["max_prompt_length"] = None
                whole, parts = ([step for step in run_ours(PROGRAM, self.directory, **job,
                                                           arguments={**arguments, "eval_batch_size": size})[0]
                                 if "eval_loss" in step][0] for size in (6, 4))
                # Means over tokens are taken batch by batch, and so differ a little.
                by_token = {"eval_loss", "eval_nll_loss"} if kind == "orpo" else set()
                names = [name for name in whole if name.startswith("eval_")]
                self.assertGreater(len(names), 3)
                for name in names:
                    self.assertAlmostEqual(whole[name], parts[name], delta=0.1 if name in by_token else 1e-4, msg=name)


def log_probability(model, prompt: str, answer: str) -> float:
    tokenizer = make_tokenizer()
    before, ids = tokenizer(prompt).input_ids, tokenizer(prompt + answer + tokenizer.eos_token).input_ids
    with torch.no_grad():
        log_p = F.log_softmax(model(torch.tensor([ids])).logits[0], -1)
    return sum(log_p[i - 1, ids[i]].item() for i in range(len(before), len(ids)))


def answer_logps(model, rows: list[dict]) -> torch.Tensor:
    inputs, labels = prompt_and_completion(rows)
    log_p = F.log_softmax(model(**inputs).logits[:, :-1], -1)
    labels = labels[:, 1:]
    return (log_p.gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1) * (labels != -100)).sum(-1)


def router_numbers(outputs, inputs) -> dict:
    seen = inputs["attention_mask"].flatten().bool()
    logits = torch.cat([layer.detach()[seen] for layer in outputs.router_logits])
    load = torch.bincount(logits.topk(2).indices.flatten(), minlength=4).float()
    return {"aux_loss": outputs.aux_loss.item(), "router/load_max": (load.max() / load.mean()).item(),
            "router/entropy": torch.distributions.Categorical(logits=logits).entropy().mean().item()}


def prompt_and_completion(rows: list[dict]) -> tuple[dict, torch.Tensor]:
    tokenizer = make_tokenizer()
    texts = [row["prompt"] + row["completion"] + tokenizer.eos_token for row in rows]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right", return_token_type_ids=False)
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    for i, row in enumerate(rows):
        labels[i, :len(tokenizer(row["prompt"]).input_ids)] = -100
    return dict(inputs), labels


if __name__ == "__main__":
    unittest.main()
