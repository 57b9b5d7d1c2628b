"""Tiny random models of a family, made by transformers, and the same files run by `easydel forward`: logits, hidden
states, loss and the gradient of every parameter must agree. usage: parity_test.py EASYDEL FAMILY[,FAMILY…] [TEST…]
llama=1x2x1x2x2 is Llama on eight thread ranks with that mesh."""

import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# transformers' own bf16 crashes where AMX is advertised but hidden; the cap costs nothing here.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import (AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForQuestionAnswering,
                          AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoModelForTokenClassification)

import remote_code  # noqa: F401
from odd_configs import ENCODER_CONFIGS, ODD_CONFIGS
from take_turns import take_turns

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()


EASYDEL = sys.argv[1]
FAMILY, _, MESH = take_turns(sys.argv[2].split(",")).partition("=")
EXTRA = os.environ.get("EASYDEL_PARITY_ARGS", "").split()  # "--device cuda" runs our side on a GPU
if MESH:
    EXTRA += ["--devices", "8", "--mesh", MESH.replace("x", ",")]
BATCH, TOKENS = 3, 13
TOLERANCE = 1e-4  # of the largest value, in float32
# Without rotary embeddings a bias on k moves all scores of a query alike. Softmax ignores that, and the gradient is nothing
# but rounding: it is compared at the scale of the others.
IGNORED = {"opt": "k_proj.bias"}
# A span's logits are a softmax over positions, which ignores what is added to all of them: the gradient of this bias is
# zero, and what is left of it is the rounding of a sum over tokens. It has no scale but that of the model's largest.
ZERO_GRADIENTS = ("qa_outputs.bias", "classifier.bias of question-answering")
# Buffers that follow from the config, though files hold them.
FROM_THE_CONFIG = ("slope_rate", "query_decay", "key_decay", "diagonal_decay")
# Their models are older than transformers' sdpa; nothing in them speaks against it.
BEFORE_SDPA = ("bloom", "gptj", "mpt")


def make_model(settings: dict, loader, seed: int):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(FAMILY, **settings)
    # Falcon's eager attention has the distances in its mask and adds them once more.
    config._attn_implementation = "sdpa" if FAMILY == "falcon" and config.alibi else "eager"
    model = loader.from_config(config)
    with torch.no_grad():  # what transformers draws is too even to tell mistakes apart: norms of one, biases of zero
        for name, parameter in model.named_parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
            if name.endswith("A_log"):  # a state that is forgotten at once has gradients that are nothing but rounding
                parameter.clamp_(max=0.5)
        for name, buffer in model.named_buffers():
            if name in model.state_dict() and not name.endswith(FROM_THE_CONFIG):
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
    done = warm_start.run(command, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return load_file(directory / "out.safetensors")


def error_of(ours: torch.Tensor, theirs: torch.Tensor, keep: torch.Tensor | None = None, least: float = 0.0) -> float:
    """The largest difference, relative to the largest value (or `least`), over the rows that are no padding."""
    if keep is not None:
        ours, theirs = ours[keep], theirs[keep]
    if theirs.numel() == 0:
        return 0.0
    scale = max(theirs.double().abs().max().item(), least) or 1.0
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


TWO_STACKS = type(AutoConfig.for_model(FAMILY)) in AutoModelForSeq2SeqLM._model_mapping
TARGETS = 7  # tokens of the decoder


def has_blind_padding(config) -> bool:
    """Padding whose window holds no token: transformers' eager attention lets it look at all keys evenly, padding among them, and
    nothing is right there. Real tokens never see it, so that all of theirs is compared."""
    return getattr(config, "local_attention", 2 * TOKENS) < 18


def encoder_batch(config, padding: str, task: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """Ids without special tokens, padding on either side, and what the task predicts."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda low, high, *shape: torch.randint(low, high, shape, generator=generator)
    ids = draw(10, config.vocab_size, BATCH, TOKENS)
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    for row, cut in enumerate((0, 4, 9)):
        if cut and padding != "none":
            mask[row, slice(0, cut) if padding == "left" else slice(TOKENS - cut, TOKENS)] = 0
    ids = ids.masked_fill(mask == 0, config.pad_token_id)
    batch = {"input_ids": ids}
    if padding != "none":
        batch["attention_mask"] = mask
    if task == "sequence-to-sequence":
        batch["labels"] = draw(10, config.vocab_size, BATCH, TARGETS)
        batch["labels"][1, 4:] = -100
        if padding == "right":
            batch["decoder_input_ids"] = draw(10, config.vocab_size, BATCH, TARGETS)
            batch["decoder_attention_mask"] = torch.ones(BATCH, TARGETS, dtype=torch.long)
            batch["decoder_attention_mask"][2, 5:] = 0
            batch["labels"][2, 5:] = -100
    elif task == "masked-lm":
        batch["labels"] = ids.masked_fill(draw(0, 3, BATCH, TOKENS) > 0, -100)
        if has_blind_padding(config):
            batch["labels"] = batch["labels"].masked_fill(mask == 0, -100)
    elif task == "token-classification":
        batch["labels"] = draw(0, config.num_labels, BATCH, TOKENS).masked_fill(mask == 0, -100)
    elif task == "question-answering":
        batch |= {"start_positions": torch.tensor([1, 3, 99]), "end_positions": torch.tensor([2, 50, 4])}
    elif task == "sequence-classification":
        batch["labels"] = draw(0, config.num_labels, BATCH)
        if TWO_STACKS:  # the last end token of a row speaks for it
            last = torch.where(mask == 1, torch.arange(TOKENS), -1).max(1).values
            ids[torch.arange(BATCH), last] = config.eos_token_id
            ids[torch.arange(BATCH), last - 2] = config.eos_token_id
    if not TWO_STACKS and getattr(config, "type_vocab_size", 0) > 1 and padding != "left":
        batch["token_type_ids"] = draw(0, config.type_vocab_size, BATCH, TOKENS)
    return batch


@unittest.skipIf(FAMILY in ODD_CONFIGS, "a decoder")
class EncoderParity(unittest.TestCase):
    """Encoders and encoder-decoders: every output under transformers' name, the loss and every gradient."""

    LOADERS = {"sequence-to-sequence": AutoModelForSeq2SeqLM, "masked-lm": AutoModelForMaskedLM,
               "token-classification": AutoModelForTokenClassification, "question-answering": AutoModelForQuestionAnswering,
               "sequence-classification": AutoModelForSequenceClassification}

    def compare(self, ours: dict, theirs, batch: dict) -> dict[str, float]:
        """What transformers returned, with padding left out of what has a row for each token."""
        masks = {"encoder": batch.get("attention_mask"), "decoder": batch.get("decoder_attention_mask")}
        errors = {}
        for name, value in theirs.items():
            if value is None or name == "past_key_values":
                continue
            side = "decoder" if TWO_STACKS and not name.startswith("encoder_") else "encoder"
            for i, tensor in enumerate(value if isinstance(value, tuple) else [value]):
                full = f"{name}.{i}" if isinstance(value, tuple) else name
                self.assertIn(full, ours)
                keep = masks[side] if tensor.dim() == 3 else None
                if name.endswith("attentions") and keep is not None:
                    self.fail("unreachable")
                if name.endswith("attentions") and masks[side] is not None:  # the rows of padding say nothing
                    keep = masks[side].bool()
                    ours[full], tensor = ours[full].transpose(1, 2), tensor.transpose(1, 2)
                errors[full] = error_of(ours[full], tensor, None if keep is None else keep.bool())
        return errors

    def check(self, settings: dict, task: str, padding: str, *args: str) -> None:
        model = make_model(settings | {"num_labels": 2 if task == "question-answering" else 3}, self.LOADERS[task], 0)
        batch = encoder_batch(model.config, padding, task)
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            model.save_pretrained(directory)
            ours = easydel(directory, batch, "--hidden-states", "--grad", "--task", task, *args)
            theirs = model(**batch, output_hidden_states=True)
            errors = self.compare(ours, theirs, batch)
            theirs.loss.backward()
            gradients = reference_gradients(model, directory)
            self.assertEqual({k[5:] for k in ours if k.startswith("grad.")}, set(gradients))
            largest = max(g.abs().max().item() for g in gradients.values())
            for name, gradient in gradients.items():
                # What is zero but for rounding (a bias on keys) is compared at the scale of the others.
                least = largest if name in ZERO_GRADIENTS or f"{name} of {task}" in ZERO_GRADIENTS else 1e-3 * largest
                scale = max(gradient.abs().max().item(), least)
                errors[f"grad.{name}"] = (ours[f"grad.{name}"] - gradient).abs().max().item() / scale
            wrong = {k: v for k, v in errors.items() if not v < TOLERANCE}
            self.assertFalse(wrong, f"{settings} {task} {padding} {args}")

    def tasks(self) -> list[str]:
        config = type(AutoConfig.for_model(FAMILY))
        tasks = [task for task, loader in self.LOADERS.items() if config in loader._model_mapping]
        return [task for task in tasks if task != "masked-lm" or "sequence-to-sequence" not in tasks]

    def test_tasks(self):
        main = self.tasks()[0]
        for number, (name, settings) in enumerate(ENCODER_CONFIGS[FAMILY].items()):
            for task in self.tasks():
                blind = has_blind_padding(AutoConfig.for_model(FAMILY, **settings))
                if blind and task == "question-answering":
                    continue  # padding is among the places where an answer may begin
                for padding in ("none", "left", "right") if task == main else (("right", "left")[number % 2],):
                    with self.subTest(config=name, task=task, padding=padding):
                        self.check(settings, task, padding)

    def test_mechanisms_and_checkpointing(self):
        settings = next(iter(ENCODER_CONFIGS[FAMILY].values()))
        for change in ("attn_mechanism=vanilla", "attn_mechanism=sdpa", "attn_mechanism=blockwise", "blocksize_q=4",
                       "gradient_checkpointing=nothing_saveable"):
            with self.subTest(change=change):
                extra = ("--set", "attn_mechanism=blockwise", "--set", "blocksize_k=5") if change == "blocksize_q=4" else ()
                self.check(settings, self.tasks()[0], "left", "--set", change, *extra)

    def test_attentions_and_the_base_model(self):
        settings = next(iter(ENCODER_CONFIGS[FAMILY].values()))
        model = make_model(settings, AutoModel, 1)
        batch = encoder_batch(model.config, "right", "base-module")
        if TWO_STACKS:
            batch["decoder_input_ids"] = batch["input_ids"][:, :TARGETS].clone()
        with tempfile.TemporaryDirectory() as name:
            model.save_pretrained(name)
            ours = easydel(pathlib.Path(name), batch, "--hidden-states", "--attentions")
            with torch.no_grad():
                theirs = model(**batch, output_hidden_states=True, output_attentions=True)
                self.assertEqual([], [k for k, v in self.compare(ours, theirs, batch).items() if not v < TOLERANCE])
                if TWO_STACKS:  # an encoder that ran before does not run again
                    del batch["input_ids"]
                    batch["encoder_outputs"] = theirs.encoder_last_hidden_state + 1
                    again = easydel(pathlib.Path(name), batch)
                    expected = model(**batch | {"encoder_outputs": (batch["encoder_outputs"],)})
                    self.assertLess(error_of(again["last_hidden_state"], expected.last_hidden_state), TOLERANCE)

    def test_embeddings_in_place_of_ids(self):
        model = make_model(next(iter(ENCODER_CONFIGS[FAMILY].values())), AutoModel, 2)
        generator = torch.Generator().manual_seed(5)
        batch = {"inputs_embeds": torch.randn(2, 9, 32, generator=generator)}
        if TWO_STACKS:
            batch["decoder_inputs_embeds"] = torch.randn(2, 5, 32, generator=generator)
        with tempfile.TemporaryDirectory() as name, torch.no_grad():
            model.save_pretrained(name)
            ours = easydel(pathlib.Path(name), batch)
            self.assertLess(error_of(ours["last_hidden_state"], model(**batch).last_hidden_state), TOLERANCE)

    @unittest.skipUnless(TWO_STACKS, "no second embedding")
    def test_a_head_that_differs_from_the_table_is_its_own(self):
        """flan-t5's files: the config says that the two are one, and the values say otherwise."""
        model = make_model(next(iter(ENCODER_CONFIGS[FAMILY].values())), AutoModelForSeq2SeqLM, 3)
        batch = encoder_batch(model.config, "none", "sequence-to-sequence")
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            model.save_pretrained(directory)
            tensors = load_file(directory / "model.safetensors")
            table = next(k for k in tensors if k.endswith("shared.weight"))
            tensors |= {"lm_head.weight": tensors[table] * 1.5 + 0.1,
                        table.replace("shared", "encoder.embed_tokens"): tensors[table].clone(),
                        table.replace("shared", "decoder.embed_tokens"): tensors[table] * 0.5}
            save_file(tensors, directory / "model.safetensors", {"format": "pt"})
            theirs = AutoModelForSeq2SeqLM.from_pretrained(directory, attn_implementation="eager")
            ours = easydel(directory, batch, "--grad")
            out = theirs(**batch)
            out.loss.backward()
            self.assertLess(error_of(ours["logits"], out.logits), TOLERANCE)
            for name in ("lm_head.weight", table, table.replace("shared", "decoder.embed_tokens")):
                self.assertLess(error_of(ours[f"grad.{name}"], theirs.get_parameter(name).grad), TOLERANCE, name)

    @unittest.skipUnless(FAMILY in ("bart", "mbart"), "its tables are always one")
    def test_files_with_one_table_for_both_stacks_and_another_head(self):
        """As transformers 4 wrote them without tie_word_embeddings."""
        settings = next(iter(ENCODER_CONFIGS[FAMILY].values())) | {"tie_word_embeddings": False}
        model = make_model(settings, AutoModelForSeq2SeqLM, 3)
        batch = encoder_batch(model.config, "none", "sequence-to-sequence")
        with tempfile.TemporaryDirectory() as name, torch.no_grad():
            directory = pathlib.Path(name)
            for stack in (model.model.encoder, model.model.decoder):
                stack.embed_tokens.weight.copy_(model.model.shared.weight)
            model.save_pretrained(directory)
            tensors = load_file(directory / "model.safetensors")
            tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith("embed_tokens.weight")}
            save_file(tensors, directory / "model.safetensors", {"format": "pt"})
            self.assertLess(error_of(easydel(directory, batch)["logits"], model(**batch).logits), TOLERANCE)


def attends(settings: dict) -> bool:
    """Whether some layer has attention, for mechanisms to differ in."""
    return set(getattr(AutoConfig.for_model(FAMILY, **settings), "layer_types", None) or []) != {"linear_attention"}


@unittest.skipIf(FAMILY not in ODD_CONFIGS, "not a decoder")
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
            largest = max(gradient.abs().max().item() for gradient in gradients.values())
            for name, gradient in gradients.items():
                self.assertEqual(ours[f"grad.{name}"].shape, gradient.shape)
                least = 1e-4 * largest if name.endswith(IGNORED.get(FAMILY, "/")) else 0.0
                errors[f"grad.{name}"] = error_of(ours[f"grad.{name}"], gradient, least=least)
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

                if change.endswith("sdpa") and attends(settings) and not has_sdpa(settings) and FAMILY not in BEFORE_SDPA:
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
            # Llama 4 says "language_model" of a child that is called model.
            theirs = (model.model if model.base_model is model else model.base_model)(**batch)
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
