"""Our grpo, rloo and online_dpo beside trl's, xpo and nash_md beside their formulas: the same tiny model, the same completions and rewards (trl's rollout hook), plain
gradient descent; the loss and the metrics of every step and the change of every weight must agree.
usage: policy_test.py TRAIN_PROGRAM"""

import itertools
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)

from training import VOCAB, largest_difference, make_model, make_tokenizer, run_ours, weights_of, words, write_rows

import datasets
import torch
import trl.trainer.grpo_trainer as grpo_module
import trl.trainer.rloo_trainer as rloo_module
from datasets import Dataset
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

datasets.disable_progress_bars()
# trl deals the completions of a generation to its steps at random; ours stay in order.
grpo_module.shuffle_sequence_dict = rloo_module.shuffle_sequence_dict = lambda batch: batch
STEPS, PROMPTS, GROUP, LENGTH, RATE = 5, 2, 4, 12, 0.3
TOLERANCE = 1e-5
CLIPS = [f"clip_ratio/{name}" for name in ("low_mean", "low_min", "high_mean", "high_max", "region_mean")]
LENGTHS = [f"completions/{name}" for name in ("mean_length", "min_length", "max_length", "clipped_ratio",
                                              "mean_terminated_length", "min_terminated_length",
                                              "max_terminated_length")]
REWARDS = ["reward", "reward_std", "frac_reward_zero_std", "rewards/given/mean", "rewards/given/std"]
MATRIX = {"loss_type": ["grpo", "bnpo", "dr_grpo", "dapo", "luspo", "cispo", "sapo", "vespo"],
          "importance_sampling_level": ["token", "sequence"], "beta": [0.0, 0.04], "scale_rewards": ["group", "batch", "none"],
          "num_iterations": [1, 2], "mask_truncated_completions": [False, True]}
# Every value of every setting, and every pair of values of the matrix; all of it with EASYDEL_GRPO_MATRIX=1.
CASES = [
    dict(loss_type="dapo"),
    dict(loss_type="dapo", importance_sampling_level="sequence", num_iterations=2, beta=0.04),
    dict(loss_type="dapo", scale_rewards="none", mask_truncated_completions=True, num_iterations=2, temperature=0.7),
    dict(loss_type="grpo", num_iterations=2, beta=0.04, epsilon_high=0.28),
    dict(loss_type="grpo", scale_rewards="batch", importance_sampling_level="sequence", num_iterations=2,
         epsilon=0.02, delta=1.03),
    dict(loss_type="bnpo", num_iterations=2, mask_truncated_completions=True, beta=0.04, scale_rewards="batch"),
    dict(loss_type="dr_grpo", scale_rewards="none", num_iterations=2, epsilon=0.05, top_entropy_quantile=0.4),
    dict(loss_type="luspo", importance_sampling_level="sequence", num_iterations=2, mask_truncated_completions=True),
    dict(loss_type="luspo", beta=0.04, temperature=1.4),
    dict(loss_type="cispo", epsilon_high=1.02, num_iterations=2, scale_rewards="batch"),
    dict(loss_type="cispo", epsilon_high=1.5, importance_sampling_level="sequence", beta=0.04,
         mask_truncated_completions=True),
    dict(loss_type="sapo", num_iterations=2, beta=0.04, use_bias_correction_kl=False),
    dict(loss_type="sapo", importance_sampling_level="sequence", num_iterations=2, sapo_temperature_neg=1.5,
         sapo_temperature_pos=0.8),
    dict(loss_type="vespo", num_iterations=2),
    dict(loss_type="vespo", num_iterations=2, beta=0.04, vespo_k_pos=1.5, vespo_lambda_pos=2.0, vespo_k_neg=2.5,
         vespo_lambda_neg=1.0, scale_rewards="none"),
    dict(loss_type="grpo", steps_per_generation=2, beta=0.04, epsilon=0.05),
    dict(loss_type="dapo", steps_per_generation=2, num_iterations=2, mask_truncated_completions=True),
    dict(loss_type="dapo", beta=0.04, sync_ref_model=True, ref_model_mixup_alpha=0.6, ref_model_sync_steps=2),
    dict(loss_type="dapo", scale_rewards="batch"),
    dict(loss_type="grpo", scale_rewards="none", mask_truncated_completions=True),
    dict(loss_type="bnpo"),
    dict(loss_type="bnpo", scale_rewards="none", importance_sampling_level="sequence"),
    dict(loss_type="dr_grpo"),
    dict(loss_type="dr_grpo", scale_rewards="batch", importance_sampling_level="sequence", beta=0.04,
         mask_truncated_completions=True),
    dict(loss_type="luspo", scale_rewards="batch"),
    dict(loss_type="luspo", scale_rewards="none"),
    dict(loss_type="luspo", scale_rewards="batch", num_iterations=2, beta=0.04),
    dict(loss_type="cispo", scale_rewards="none", epsilon_high=1.5),
    dict(loss_type="sapo", scale_rewards="none"),
    dict(loss_type="sapo", scale_rewards="batch", mask_truncated_completions=True),
    dict(loss_type="vespo", scale_rewards="batch", importance_sampling_level="sequence", mask_truncated_completions=True),
]


def pairs_of(case: dict) -> set:
    usual = {key: values[0] for key, values in MATRIX.items()}
    return set(itertools.combinations([(key, {**usual, **case}[key]) for key in MATRIX], 2))


class Steps(TrainerCallback):
    def __init__(self):
        self.steps = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.steps.append(dict(logs))


class Policies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        make_model(cls.directory / "model")
        make_model(cls.directory / "reference", seed=7)
        generator = random.Random(3)
        tokenizer = make_tokenizer()
        cls.rows = [{"prompt": words(generator, 3, 9)} for _ in range(PROMPTS * STEPS * 2)]
        cls.known = {}
        for number, row in enumerate(cls.rows):
            completions = []
            for i in range(GROUP):
                size = generator.randint(2, LENGTH)
                ids = [generator.randrange(4, len(VOCAB)) for _ in range(size)]
                if generator.random() < 0.7:
                    ids[-1] = tokenizer.eos_token_id
                reward = 0.5 if number % 5 == 1 else None if number % 4 == 2 and i == 1 else round(generator.random(), 3)
                completions.append({"ids": ids, "reward": reward})
            cls.known[tokenizer.decode(tokenizer(row["prompt"]).input_ids)] = completions
        write_rows(cls.directory / "rows.jsonl", cls.rows)
        (cls.directory / "completions.json").write_text(json.dumps(cls.known))

    def run_theirs(self, trainer_type, changes, known=None, rewards=()):
        known = known or self.known
        tokenizer = make_tokenizer()
        kind, config = {"grpo": (GRPOTrainer, GRPOConfig), "rloo": (RLOOTrainer, RLOOConfig)}[trainer_type]

        def roll_out(prompts, trainer):
            prompt_ids = [tokenizer(prompt).input_ids for prompt in prompts]
            chosen = [known[tokenizer.decode(ids)][i % GROUP] for i, ids in enumerate(prompt_ids)]
            masks = {"env_mask": [each["own"] for each in chosen]} if "own" in chosen[0] else {}
            return {"prompt_ids": prompt_ids, "completion_ids": [each["ids"] for each in chosen], "logprobs": None, **masks}

        def given(prompts, completion_ids, **_):
            found = []
            for i, prompt in enumerate(prompts):
                each = self.known[tokenizer.decode(tokenizer(prompt).input_ids)][i % GROUP]
                assert each["ids"] == list(completion_ids[i])
                found.append(each["reward"])
            return found

        accumulation = changes.get("gradient_accumulation_steps", 1)
        settings = {"beta": 0.0, "learning_rate": RATE, **changes}
        settings["steps_per_generation"] = settings.get("steps_per_generation", 1) * accumulation
        arguments = config(output_dir=str(self.directory / "trl"), max_steps=STEPS, optim="sgd",
                           per_device_train_batch_size=PROMPTS * GROUP // accumulation, num_generations=GROUP,
                           max_completion_length=LENGTH, lr_scheduler_type="constant", weight_decay=0.0,
                           max_grad_norm=0.0, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True,
                           bf16=False, fp16=False, gradient_checkpointing=False, shuffle_dataset=False,
                           disable_tqdm=True, **settings)
        steps = Steps()
        model = AutoModelForCausalLM.from_pretrained(self.directory / "model", attn_implementation="eager")
        hooks = {"rollout_func": roll_out} if trainer_type == "grpo" else {}
        trainer = kind(model=model, reward_funcs=[*rewards, given], args=arguments, train_dataset=Dataset.from_list(self.rows),
                       processing_class=tokenizer, callbacks=[steps], **hooks)
        if trainer_type == "rloo":  # it has no hook for rollouts, but a function that generates
            def generate(prompt_ids, *_):
                chosen = [self.known[tokenizer.decode(ids)][i % GROUP] for i, ids in enumerate(prompt_ids)]
                return [each["ids"] for each in chosen]

            trainer._generate_single_turn = generate
        if settings["beta"] != 0:
            reference = AutoModelForCausalLM.from_pretrained(self.directory / "reference")
            trainer.ref_model.load_state_dict(reference.state_dict())
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return steps.steps, weights_of(trainer.model)

    def run_ours(self, trainer_type, changes, mesh=None, completions="completions.json", data="rows.jsonl"):
        arguments = {"total_batch_size": PROMPTS, "max_training_steps": STEPS, "learning_rate": RATE, "optimizer": "sgd",
                     "weight_decay": 0.0, "num_generations": GROUP, "max_completion_length": LENGTH, "beta": 0.0,
                     **changes}
        job = {"other": self.directory / "reference"} if arguments["beta"] else {}
        return run_ours(PROGRAM, self.directory, model=self.directory / "model", data=self.directory / data,
                        trainer_type=trainer_type, completions=self.directory / completions, mesh=mesh,
                        arguments=arguments, **job)

    def compare(self, ours, theirs, names, with_loss=True):
        (our_steps, our_weights), (their_steps, their_weights) = ours, theirs
        self.assertEqual((len(our_steps), len(their_steps)), (STEPS, STEPS))
        compared = set()
        for step, (a, b) in enumerate(zip(our_steps, their_steps)):
            for name in [*(["loss"] if with_loss else []), *names]:
                if name not in b:  # of a generation: only where there was one
                    continue
                compared.add(name)
                if math.isnan(float(b[name])):
                    self.assertTrue(name not in a or a[name] is None or math.isnan(a[name]), name)
                    continue
                # trl rounds what it logs.
                self.assertLess(abs(a[name] - float(b[name])), 2e-5 + TOLERANCE * abs(float(b[name])),
                                f"step {step}, {name}: {a[name]} and {b[name]}")
        self.assertEqual(compared, {*names, *(["loss"] if with_loss else [])})
        begin = load_file(self.directory / "model" / "model.safetensors")
        for name, start in begin.items():
            change = (their_weights[name] - start).abs().max().item()
            apart = (our_weights[name] - their_weights[name]).abs().max().item()
            # Weights near 1 are known to 6e-8, after each of the steps.
            self.assertLess(apart, 5 * TOLERANCE * change + STEPS * 1.2e-7, f"{name} changed by {change}")
        self.assertGreater(largest_difference(their_weights, begin), 1e-3)  # something was learned

    def test_grpo(self):
        everything = [dict(zip(MATRIX, values)) for values in itertools.product(*MATRIX.values())]
        self.assertEqual(set().union(*map(pairs_of, everything)) - set().union(*map(pairs_of, CASES)), set())
        for case in everything if os.environ.get("EASYDEL_GRPO_MATRIX") else CASES:
            with self.subTest(**case):
                # Its terms are multiplied by lengths: at RATE its losses would grow to hundreds, and rounding with them.
                case = {**case, "learning_rate": RATE / 3} if case["loss_type"] == "luspo" else case
                names = [*REWARDS, *LENGTHS, "entropy"]
                names += CLIPS if case["loss_type"] in ("grpo", "bnpo", "dr_grpo", "dapo", "luspo") else []
                names += ["cispo_clip_ratio"] if case["loss_type"] == "cispo" else []
                names += ["vespo/phi_seq_mean"] if case["loss_type"] == "vespo" else []
                names += ["kl"] if case.get("beta") else []
                self.compare(self.run_ours("grpo", case), self.run_theirs("grpo", case), names)

    def test_several_rewards_are_weighted(self):
        """Some of them judge nothing: the others count."""
        def length(completion_ids, **_):
            return [max(0, 1 - abs(len(ids) - 5) / 5) for ids in completion_ids]

        ours = {"rewards": {"type": "length", "target": 5}}
        for trainer, case in (("grpo", {"reward_weights": [0.3, 1.5]}), ("grpo", {"reward_weights": [-1.0, 0.5], "scale_rewards": "batch"}),
                              ("rloo", {"reward_weights": [0.3, 1.5], "beta": 0.05})):
            with self.subTest(trainer, **case):
                names = ["reward", "reward_std", *LENGTHS, *(f"rewards/{name}/{what}" for name in ("length", "given") for what in ("mean", "std"))]
                self.compare(self.run_ours(trainer, {**case, **ours}), self.run_theirs(trainer, case, rewards=[length]), names)

    def test_grpo_in_minibatches_and_on_a_mesh(self):
        case = dict(loss_type="grpo", beta=0.04, num_iterations=2)
        theirs = self.run_theirs("grpo", {**case, "gradient_accumulation_steps": 2})
        self.compare(self.run_ours("grpo", {**case, "gradient_accumulation_steps": 2}), theirs, REWARDS, with_loss=False)
        self.compare(self.run_ours("grpo", case, mesh=[1, 2, 1, 2, 1]), theirs, REWARDS, with_loss=False)

    def test_tokens_of_tools_do_not_count(self):
        """trl calls them masked by the environment."""
        generator = random.Random(8)
        masked = {prompt: [{**each, "own": [1 if i in (0, len(each["ids"]) - 1) else int(generator.random() < 0.6)
                                            for i in range(len(each["ids"]))]} for each in group]
                  for prompt, group in self.known.items()}
        self.assertGreater(sum(each["own"].count(0) for group in masked.values() for each in group), 50)
        (self.directory / "masked.json").write_text(json.dumps(masked))
        for case in (dict(loss_type="dapo", beta=0.04, num_iterations=2), dict(loss_type="grpo", top_entropy_quantile=0.5),
                     dict(loss_type="bnpo", importance_sampling_level="sequence", num_iterations=2, mask_truncated_completions=True)):
            with self.subTest(**case):
                names = [*REWARDS, *LENGTHS, "entropy", *CLIPS, *(["kl"] if case.get("beta") else [])]
                self.compare(self.run_ours("grpo", case, completions="masked.json"), self.run_theirs("grpo", case, masked), names)

    def test_replay_of_groups_whose_rewards_differ(self):
        """The formula in torch: trl's trainer is experimental, and compares the deviation of a batch with 0, not of its groups."""
        tokenizer, case = make_tokenizer(), dict(loss_type="dapo", replay_buffer_size=1, epsilon=0.05)
        policy = AutoModelForCausalLM.from_pretrained(self.directory / "model", attn_implementation="eager")
        optimizer = torch.optim.SGD(policy.parameters(), lr=RATE)

        def logps(each):
            log_p = policy(torch.tensor([each["prompt"] + each["ids"]])).logits[0].log_softmax(-1)
            return log_p[len(each["prompt"]) - 1:-1].gather(-1, torch.tensor(each["ids"]).unsqueeze(-1)).squeeze(-1)

        best, steps = (0, None), []
        for step in range(STEPS):
            groups = []
            for row in self.rows[step * PROMPTS:(step + 1) * PROMPTS]:
                prompt = tokenizer(row["prompt"]).input_ids
                group = [{**each, "prompt": prompt} for each in self.known[tokenizer.decode(prompt)]]
                given = torch.tensor([each["reward"] for each in group if each["reward"] is not None])
                for each in group:
                    known = each["reward"] is not None
                    each["advantage"] = ((each["reward"] - given.mean()) / (given.std() + 1e-4)).item() if known else 0.0
                    each["old"] = logps(each).detach()
                score = sum(abs(each["advantage"]) for each in group) * given.std().item()
                if score > best[0]:
                    best = score, group
                groups.append(group if given.std() > 0 else None)
            rows = [each for group in groups for each in (group or best[1])]
            tokens, loss = sum(len(each["ids"]) for each in rows), 0
            for each in rows:
                ratio = (logps(each) - each["old"]).exp()
                loss -= torch.min(ratio * each["advantage"], ratio.clamp(0.95, 1.05) * each["advantage"]).sum() / tokens
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append({"loss": loss.item(), "replayed_groups": groups.count(None) / PROMPTS})
        self.assertGreater(sum(step["replayed_groups"] for step in steps[1:]), 0)
        theirs = steps, weights_of(policy)
        for mesh in (None, [1, 2, 1, 2, 1]):
            with self.subTest(mesh=mesh):
                self.compare(self.run_ours("grpo", case, mesh=mesh), theirs, ["replayed_groups"])
        # A checkpoint has what is kept, of several groups.
        case = {**case, "replay_buffer_size": 3, "num_iterations": 2, "steps_per_generation": 2}
        whole = self.run_ours("grpo", case)
        for count in (1, 3, STEPS):
            again = self.run_ours("grpo", {**case, "save_directory": str(self.directory / "kept"), "max_training_steps": count})
        self.assertEqual(largest_difference(again[1], whole[1]), 0)

    def tool_job(self):
        """A model with a token that is a whole call, and a program that answers."""
        call = '<tool_call>\n{"name": "say", "arguments": {"word": "a b"}}\n</tool_call>'
        folder = self.directory / "calls"
        make_model(folder, vocab_size=len(VOCAB) + 1)
        tokenizer = make_tokenizer()
        tokenizer.add_tokens([call])
        tokenizer.chat_template = (
            "{% for m in messages %}{{ m.content }}{% if m.tool_calls %}<tool_call></tool_call>{% endif %}</s>{% endfor %}"
            "{% if add_generation_prompt %}?{% endif %}")
        tokenizer.save_pretrained(folder)
        program = folder / "say.py"
        program.write_text("import json, sys\nfor line in sys.stdin: print(json.dumps(json.loads(line)['arguments']['word']), flush=True)\n")
        rows = [{"prompt": [{"role": "user", "content": row["prompt"]}]} for row in self.rows]
        arguments = {"total_batch_size": 4, "max_training_steps": 3, "learning_rate": 0.05, "optimizer": "sgd", "weight_decay": 0.0,
                     "num_generations": 8, "max_completion_length": 20, "beta": 0.0, "rewards": {"type": "length", "target": 4},
                     "tools": [{"name": "say", "command": [sys.executable, str(program)]}]}
        job = dict(model=folder, data=write_rows(self.directory / "chats.jsonl", rows), trainer_type="grpo")
        return job, arguments

    def test_tools_on_a_mesh(self):
        """The same curve on any mesh."""
        job, arguments = self.tool_job()
        alone = run_ours(PROGRAM, self.directory, **job, arguments=arguments)
        self.assertGreater(alone[0][0]["tools/call_frequency"], 0)
        names = ["loss", "reward", "tools/call_frequency", "tools/failure_frequency", "completions/mean_length"]
        for mesh in ([2, 1, 1, 1, 1], [1, 2, 1, 1, 1], [1, 1, 1, 2, 1]):
            with self.subTest(mesh=mesh):
                ours = run_ours(PROGRAM, self.directory, **job, arguments=arguments, mesh=mesh)
                for a, b in zip(alone[0], ours[0], strict=True):
                    for name in names:
                        self.assertAlmostEqual(a[name], b[name], places=4, msg=name)
                self.assertLess(largest_difference(alone[1], ours[1]), 1e-5)

    def test_completions_are_judged_while_others_are_written(self):
        """A tool answers once the reward was asked about a second completion that called none: the score of the first is there
        while the rollout has not ended."""
        job, arguments = self.tool_job()
        asked = self.directory / "asked"
        programs = {"waits": f"import json, pathlib, sys, time\nfor line in sys.stdin:\n    while not pathlib.Path({str(asked)!r}).exists(): time.sleep(0.01)\n"
                             "    print(json.dumps(json.loads(line)['arguments']['word']), flush=True)\n",
                    "judge": f"import json, pathlib, sys\nfor n, line in enumerate(sys.stdin):\n    if n == 1: pathlib.Path({str(asked)!r}).touch()\n"
                             "    print(len(json.loads(line)['completion']), flush=True)\n"}
        for name, code in programs.items():
            (self.directory / f"{name}.py").write_text(code)
        tool = {"name": "say", "command": [sys.executable, str(self.directory / "waits.py")], "timeout": 60}
        judge = {"type": "command", "command": [sys.executable, str(self.directory / "judge.py")]}
        steps, _ = run_ours(PROGRAM, self.directory, **job, arguments={**arguments, "tools": [tool], "rewards": judge})
        self.assertTrue(0 < steps[0]["tools/call_frequency"] < 1, steps[0])
        self.assertGreater(steps[0]["rewards_during_rollout"], 0)

    def test_gfpo(self):
        """A group of which some are left out is a smaller group: grpo, which trl has, on those that stay."""
        usual = {"filter_by_length": True, "filter_by_efficiency": True, "length_weight": 0.5, "efficiency_weight": 0.5}
        per_step = [self.known[make_tokenizer().decode(make_tokenizer()(row["prompt"]).input_ids)] for row in self.rows]
        for changes in ({}, {"filter_by_length": False}, {"filter_by_efficiency": False},
                        {"length_weight": 2.0, "efficiency_weight": 0.3}):
            with self.subTest(**changes):
                how, kept, keep = {**usual, **changes}, {}, 2
                for step in range(0, len(self.rows), PROMPTS):
                    rated = [(each["reward"] or 0) / len(each["ids"]) for group in per_step[step:step + PROMPTS] for each in group]
                    largest = max(map(abs, rated)) + 1e-8
                    for prompt, group in list(self.known.items())[step:step + PROMPTS]:
                        def score(each):
                            if each["reward"] is None:
                                return -math.inf
                            efficiency = how["efficiency_weight"] * each["reward"] / len(each["ids"]) / largest
                            shortness = how["length_weight"] * (1 - len(each["ids"]) / LENGTH)
                            return how["filter_by_efficiency"] * efficiency + how["filter_by_length"] * shortness

                        best = sorted(group, key=score, reverse=True)[:keep]
                        kept[prompt] = [each for each in group if each in best]
                (self.directory / "kept.json").write_text(json.dumps(kept))
                case = dict(loss_type="grpo", num_iterations=2, beta=0.04)
                ours = self.run_ours("gfpo", {**case, **changes, "num_remains_in_group": keep})
                theirs = self.run_ours("grpo", {**case, "num_generations": keep}, completions="kept.json")
                for a, b in zip(ours[0], theirs[0], strict=True):
                    self.assertEqual(a["loss"], b["loss"])
                    self.assertEqual(a.get("frac_reward_zero_std"), b.get("frac_reward_zero_std"))
                    self.assertEqual(a.get("completions/kept_mean_length"), b.get("completions/mean_length"))
                self.assertEqual(largest_difference(ours[1], theirs[1]), 0)
                everything = [len(each["ids"]) for group in per_step[:PROMPTS] for each in group]
                self.assertAlmostEqual(ours[0][0]["completions/mean_length"], sum(everything) / len(everything), places=6)

    def test_rlvr(self):
        """Rewards of rules, clipped: grpo with the same rewards, clipped beforehand. What did not end counts in nothing."""
        case = dict(loss_type="grpo", num_iterations=2, beta=0.04)
        clipped = {prompt: [{**each, "reward": None if each["reward"] is None else min(each["reward"], 0.4)} for each in group]
                   for prompt, group in self.known.items()}
        (self.directory / "clipped.json").write_text(json.dumps(clipped))
        ours = self.run_ours("rlvr", {**case, "answer_key": None, "reward_clip_range": 0.4})
        theirs = self.run_ours("grpo", {**case, "mask_truncated_completions": True}, completions="clipped.json")
        for a, b in zip(ours[0], theirs[0], strict=True):
            self.assertAlmostEqual(a["loss"], b["loss"], places=6)
        self.assertLess(largest_difference(ours[1], theirs[1]), 1e-6)
        named = {"answer_key": "right", "format_pattern": "[0-9]", "format_reward_weight": 0.5, "max_len_mask": False,
                 "length_penalty_target": 3, "length_penalty_weight": 0.25}
        listed = [{"type": "numeric", "field": "right"}, {"type": "regex", "pattern": "[0-9]", "weight": 0.5},
                  {"type": "length", "target": 3, "weight": 0.25}]
        write_rows(self.directory / "right.jsonl", [{**row, "right": 0.5} for row in self.rows])
        ours = self.run_ours("rlvr", {**case, **named}, data="right.jsonl")
        theirs = self.run_ours("grpo", {**case, "rewards": listed}, data="right.jsonl")
        self.assertIn("rewards/numeric/mean", ours[0][0])
        for a, b in zip(ours[0], theirs[0], strict=True):
            own, other = ({name: value for name, value in each.items() if ("reward" in name or name == "loss") and "seconds" not in name}
                          for each in (a, b))
            self.assertEqual(own, other)
        self.assertEqual(largest_difference(ours[1], theirs[1]), 0)

    def test_rloo(self):
        for case in (dict(), dict(beta=0.05, num_iterations=2),
                     dict(beta=0.05, normalize_advantages=True, reward_clip_range=[0.2, 0.7]),
                     # At RATE its weights would change by 15, and rounding would grow with them.
                     dict(epsilon=0.02, epsilon_high=0.03, num_iterations=2, steps_per_generation=2, learning_rate=RATE / 3),
                     dict(beta=0.05, sync_ref_model=True, ref_model_mixup_alpha=0.6, ref_model_sync_steps=1),
                     dict(beta=0.05, mask_truncated_completions=True, temperature=0.7)):
            with self.subTest(**case):
                self.compare(self.run_ours("rloo", case), self.run_theirs("rloo", case),
                             ["reward", "reward_std", "entropy", *CLIPS, *LENGTHS])

    def judged_pairs(self):
        """Two completions of each prompt, all with rewards."""
        pairs = {prompt: [{**each, "reward": 0.25 if each["reward"] is None else each["reward"]} for each in group[:2]]
                 for prompt, group in self.known.items()}
        (self.directory / "pairs.json").write_text(json.dumps(pairs))
        return pairs

    def run_online(self, trainer_type, changes, **how):
        arguments = {"total_batch_size": PROMPTS, "max_training_steps": STEPS, "learning_rate": RATE, "optimizer": "sgd",
                     "weight_decay": 0.0, "max_completion_length": LENGTH, **changes}
        return run_ours(PROGRAM, self.directory, model=self.directory / "model", data=self.directory / "rows.jsonl",
                        trainer_type=trainer_type, completions=self.directory / "pairs.json", arguments=arguments,
                        other=self.directory / "reference", **how)

    def test_online_dpo(self):
        pairs, tokenizer = self.judged_pairs(), make_tokenizer()

        def run_theirs(**changes):
            def generate(model, prompts, images=None):
                prompt_ids = [tokenizer(prompt).input_ids for prompt in prompts]
                given = [pairs[tokenizer.decode(ids)][i] for i in range(2) for ids in prompt_ids]
                longest, length = max(map(len, prompt_ids)), max(len(each["ids"]) for each in given)
                left = lambda ids, fill: [fill] * (longest - len(ids)) + ids
                right = lambda ids, fill: ids + [fill] * (length - len(ids))
                return (torch.tensor([left(ids, 0) for ids in prompt_ids] * 2),
                        torch.tensor([left([1] * len(ids), 0) for ids in prompt_ids] * 2),
                        torch.tensor([right(each["ids"], 0) for each in given]),
                        torch.tensor([right([1] * len(each["ids"]), 0) for each in given]), None)

            def given(prompts, completions, completion_ids, **_):
                half = len(prompts) // 2
                return [pairs[tokenizer.decode(tokenizer(prompt).input_ids)][i // half]["reward"] for i, prompt in enumerate(prompts)]

            arguments = OnlineDPOConfig(output_dir=str(self.directory / "trl"), max_steps=STEPS, optim="sgd",
                                        per_device_train_batch_size=PROMPTS, lr_scheduler_type="constant", weight_decay=0.0,
                                        max_grad_norm=0.0, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True,
                                        bf16=False, fp16=False, gradient_checkpointing=False, disable_tqdm=True,
                                        **{"learning_rate": RATE, **changes})
            steps = Steps()
            trainer = OnlineDPOTrainer(
                model=AutoModelForCausalLM.from_pretrained(self.directory / "model", attn_implementation="eager"),
                ref_model=AutoModelForCausalLM.from_pretrained(self.directory / "reference", attn_implementation="eager"),
                reward_funcs=given, args=arguments, train_dataset=Dataset.from_list(self.rows), processing_class=tokenizer,
                callbacks=[steps])
            trainer._generate = generate
            trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(trainer.train_dataset)
            trainer.remove_callback(PrinterCallback)
            trainer.train()
            return steps.steps, weights_of(trainer.model)

        names = ["rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies", "logps/chosen", "logps/rejected",
                 "objective/scores_margin"]
        for case in (dict(), dict(loss_type="ipo", beta=0.5, learning_rate=0.01), dict(missing_eos_penalty=0.6)):
            with self.subTest(**case):
                theirs = run_theirs(**case)
                # trl rounds its loss to four digits.
                ours = self.run_online("online_dpo", case)
                for a, b in zip(ours[0], theirs[0], strict=True):
                    self.assertLess(abs(a["loss"] - b["loss"]), 5e-5 + TOLERANCE * abs(b["loss"]))
                self.compare(ours, theirs, names, with_loss=False)
        self.compare(self.run_online("online_dpo", {}, mesh=[1, 2, 1, 2, 1]), run_theirs(), names, with_loss=False)

    def test_xpo_and_nash_md(self):
        pairs, tokenizer = self.judged_pairs(), make_tokenizer()

        def run_formula(trainer_type, beta, loss_type="sigmoid", alpha=1e-5, learning_rate=RATE):
            model, reference = (AutoModelForCausalLM.from_pretrained(self.directory / name, attn_implementation="eager")
                                for name in ("model", "reference"))
            optimizer, steps = torch.optim.SGD(model.parameters(), lr=learning_rate), []

            def logps(scorer, prompt, ids):
                scores = scorer(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1:-1].log_softmax(-1)
                return scores.gather(1, torch.tensor(ids)[:, None])[:, 0]

            for step in range(STEPS):
                losses, extra = [], []
                for row in self.rows[step * PROMPTS:(step + 1) * PROMPTS]:
                    prompt = tokenizer(row["prompt"]).input_ids
                    first, second = pairs[tokenizer.decode(prompt)]
                    mine, other = (logps(model, prompt, each["ids"]) for each in (first, second))
                    with torch.no_grad():
                        mine_before, other_before = (logps(reference, prompt, each["ids"]) for each in (first, second))
                    if trainer_type == "nash_md":
                        probability = 1 / (1 + math.exp(second["reward"] - first["reward"]))
                        apart = (mine - mine_before).detach()
                        losses.append(beta * (apart * mine).sum() - (probability - 0.5) * mine.sum())
                        extra.append(apart.sum().item())
                        continue
                    logit = (mine.sum() - mine_before.sum()) - (other.sum() - other_before.sum())
                    logit = logit if first["reward"] >= second["reward"] else -logit
                    preference = -torch.nn.functional.logsigmoid(beta * logit) if loss_type == "sigmoid" else (logit - 1 / (2 * beta)) ** 2
                    losses.append(preference + alpha * other.sum())
                    extra.append(alpha * other.sum().item())
                loss = sum(losses) / PROMPTS
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps.append({"loss": loss.item(), "loss/kl" if trainer_type == "nash_md" else "loss/xpo": sum(extra) / PROMPTS})
            return steps, weights_of(model)

        for trainer_type, case in (("xpo", dict(beta=0.1)), ("xpo", dict(beta=0.5, loss_type="ipo", alpha=0.01, learning_rate=0.01)), ("nash_md", dict(beta=0.1, learning_rate=0.03)),
                                   ("nash_md", dict(beta=0.02, learning_rate=0.1))):
            with self.subTest(trainer_type, **case):
                self.compare(self.run_online(trainer_type, case), run_formula(trainer_type, **case),
                             ["loss/kl" if trainer_type == "nash_md" else "loss/xpo"])


if __name__ == "__main__":
    unittest.main()
