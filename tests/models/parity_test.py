"""Tiny random models of a family, made by transformers, and the same files run by `easydel forward`: logits, hidden
states, loss and the gradient of every parameter must agree. usage: parity_test.py EASYDEL FAMILY"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# transformers' own bf16 crashes where AMX is advertised but hidden; the cap costs nothing here.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForSequenceClassification

from odd_configs import ODD_CONFIGS

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

EASYDEL, FAMILY = sys.argv[1:3]
EXTRA = os.environ.get("EASYDEL_PARITY_ARGS", "").split()  # "--device cuda" runs our side on a GPU
BATCH, TOKENS = 3, 13
TOLERANCE = 1e-4  # of the largest value, in float32


def make_model(settings: dict, loader, seed: int):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(FAMILY, **settings)
    config._attn_implementation = "eager"
    model = loader.from_config(config)
    with torch.no_grad():  # what transformers draws is too even to tell mistakes apart: norms of one, biases of zero
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        for name, buffer in model.named_buffers():
            if name in model.state_dict():
                buffer.add_(torch.randn_like(buffer) * 0.05)
    return model.eval()


def make_batch(config, padding: str, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, config.vocab_size, (BATCH, TOKENS), generator=generator)
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    unseen = torch.zeros_like(mask, dtype=torch.bool)
    for row, cut in enumerate((0, 4, 9)):
        if padding == "left" and cut:
            mask[row, :cut] = 0
            unseen[row, cut] = True  # the first token is predicted by padding, which means nothing
        elif padding == "right" and cut:
            mask[row, TOKENS - cut :] = 0
    labels = ids.masked_fill((mask == 0) | unseen, -100)
    labels[0, :3] = -100
    if padding == "none":
        return {"input_ids": ids, "labels": labels}
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "labels": labels}


def easydel(directory: pathlib.Path, batch: dict, *args: str) -> dict[str, torch.Tensor]:
    save_file({name: tensor.contiguous() for name, tensor in batch.items()}, directory / "in.safetensors")
    command = [EASYDEL, "--log", "error", "forward", str(directory), "--input", str(directory / "in.safetensors"), "--output",
               str(directory / "out.safetensors"), *args, *EXTRA]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return load_file(directory / "out.safetensors")


def error_of(ours: torch.Tensor, theirs: torch.Tensor, keep: torch.Tensor | None = None) -> float:
    """The largest difference, relative to the largest value, over the rows that are no padding."""
    if keep is not None:
        ours, theirs = ours[keep], theirs[keep]
    if theirs.numel() == 0:
        return 0.0
    scale = theirs.double().abs().max().item() or 1.0
    return (ours.double() - theirs.double()).abs().max().item() / scale


def reference_gradients(model, directory: pathlib.Path) -> dict[str, torch.Tensor]:
    """The gradients under the names that saving writes: transformers saves a copy whose weights are the gradients."""
    state = {name: (p.grad if p.grad is not None else torch.zeros_like(p)) for name, p in model.named_parameters()}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(state[name])
        for buffer in model.buffers():  # they have none
            buffer.zero_()
    model.save_pretrained(directory / "grads")
    gradients = {}
    for file in (directory / "grads").glob("*.safetensors"):
        gradients |= load_file(file)
    return gradients


def has_sdpa(settings: dict) -> bool:
    """Soft caps and sinks are more than torch's own attention can do."""
    return AutoModelForCausalLM._model_mapping[type(AutoConfig.for_model(FAMILY, **settings))]._supports_sdpa


class Parity(unittest.TestCase):
    def check(self, settings: dict, loader, batch_of, task: str, *args: str, seed: int = 0) -> None:
        model = make_model(settings, loader, seed)
        batch = batch_of(model.config)
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            model.save_pretrained(directory)
            ours = easydel(directory, batch, "--hidden-states", "--grad", "--task", task, *args)
            theirs = model(**batch, output_hidden_states=True)
            keep = batch["attention_mask"].bool() if "attention_mask" in batch else None
            errors = {"loss": error_of(ours["loss"], theirs.loss)}
            errors["logits"] = error_of(ours["logits"], theirs.logits, keep if theirs.logits.dim() == 3 else None)
            for i, hidden in enumerate(theirs.hidden_states):
                errors[f"hidden_states.{i}"] = error_of(ours[f"hidden_states.{i}"], hidden, keep)
            self.assertNotIn(f"hidden_states.{len(theirs.hidden_states)}", ours)
            theirs.loss.backward()
            gradients = reference_gradients(model, directory)
            self.assertEqual({k[5:] for k in ours if k.startswith("grad.")}, set(gradients))
            for name, gradient in gradients.items():
                self.assertEqual(ours[f"grad.{name}"].shape, gradient.shape)
                errors[f"grad.{name}"] = error_of(ours[f"grad.{name}"], gradient)
            wrong = {k: v for k, v in errors.items() if not v < TOLERANCE}
            self.assertFalse(wrong, f"{settings} {args}")

    def test_causal_lm(self):
        for name, settings in ODD_CONFIGS[FAMILY].items():
            for padding in ("none", "left", "right"):
                with self.subTest(config=name, padding=padding):
                    self.check(settings, AutoModelForCausalLM, lambda c: make_batch(c, padding), "causal-lm")

    def test_mechanisms_and_checkpointing(self):
        settings = next(iter(ODD_CONFIGS[FAMILY].values()))
        changes = ["attn_mechanism=vanilla", "attn_mechanism=sdpa", "attn_mechanism=blockwise",
                   "gradient_checkpointing=nothing_saveable"]
        if getattr(AutoConfig.for_model(FAMILY, **settings), "num_experts_per_tok", None):
            changes += ["moe_method=standard_moe", "moe_method=dense_moe"]
        for change in changes:
            with self.subTest(change=change):
                def check():
                    self.check(settings, AutoModelForCausalLM, lambda c: make_batch(c, "left"), "causal-lm", "--set", change)

                if change.endswith("sdpa") and not has_sdpa(settings):
                    with self.assertRaisesRegex(AssertionError, '"sdpa" does not support'):
                        check()
                else:
                    check()

    def test_sequence_classification(self):
        if type(AutoConfig.for_model(FAMILY)) not in AutoModelForSequenceClassification._model_mapping:
            self.skipTest("transformers has no such model")
        settings = {**next(iter(ODD_CONFIGS[FAMILY].values())), "num_labels": 3, "pad_token_id": 0}

        def batch_of(config):
            batch = make_batch(config, "right")
            batch["input_ids"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, 0)
            return {**batch, "labels": torch.tensor([0, 2, 1])}

        self.check(settings, AutoModelForSequenceClassification, batch_of, "sequence-classification")

    def test_base_model_from_the_files_of_a_causal_lm(self):
        model = make_model(next(iter(ODD_CONFIGS[FAMILY].values())), AutoModelForCausalLM, 1)
        batch = make_batch(model.config, "none")
        del batch["labels"]
        with tempfile.TemporaryDirectory() as name:
            model.save_pretrained(name)
            ours = easydel(pathlib.Path(name), batch, "--task", "base-module")
            theirs = model.base_model(**batch)
            self.assertLess(error_of(ours["last_hidden_state"], theirs.last_hidden_state), TOLERANCE)

    def test_packed_sequences_see_only_themselves(self):
        """Two documents in a row give the logits that each gives alone."""
        model = make_model(next(iter(ODD_CONFIGS[FAMILY].values())), AutoModelForCausalLM, 2)
        ids = make_batch(model.config, "none")["input_ids"][:1]
        with tempfile.TemporaryDirectory() as name:
            model.save_pretrained(name)
            segments = torch.tensor([[0] * 5 + [1] * (TOKENS - 5)])
            ours = easydel(pathlib.Path(name), {"input_ids": ids, "segment_ids": segments})
            alone = torch.cat([model(ids[:, :5]).logits, model(ids[:, 5:]).logits], 1)
            self.assertLess(error_of(ours["logits"], alone), TOLERANCE)

    def test_bf16_is_no_worse_than_transformers_bf16(self):
        for name, settings in list(ODD_CONFIGS[FAMILY].items())[:2]:
            with self.subTest(config=name):
                model = make_model(settings, AutoModelForCausalLM, 3)
                batch = make_batch(model.config, "none")
                with tempfile.TemporaryDirectory() as directory:
                    model.to(torch.bfloat16).save_pretrained(directory)
                    ours = easydel(pathlib.Path(directory), batch, "--dtype", "bf16")["logits"].float()
                    exact = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
                    rounded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16,
                                                                   attn_implementation="sdpa" if has_sdpa(settings) else "eager")
                    with torch.no_grad():
                        exact, rounded = exact(**batch).logits, rounded(**batch).logits.float()
                    # The median token: a router's near tie falls either way in bf16 and changes a whole token.
                    ours_rms = (ours - exact).pow(2).mean(-1).sqrt().median().item()
                    theirs_rms = (rounded - exact).pow(2).mean(-1).sqrt().median().item()
                    # Both are rounding noise of one size; a quarter more is chance, a missing float32 would be twice.
                    self.assertLess(ours_rms, 1.25 * theirs_rms)


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
