"""Tiny random models of speech, made by transformers, and the same files run by easydel: every output, the loss and the
gradient of every parameter must agree; on a mesh too. usage: audio_test.py EASYDEL"""

import pathlib
import sys
import tempfile
import unittest

from model_peer import TOLERANCE, error_of, forward, gradients_of, spread, torch, transformers
from transformers import AutoConfig

from audio_configs import AUDIO_CONFIGS, BASE, SOUNDS, SPEECH

TASKS = {SPEECH: "speech-sequence-to-sequence", SOUNDS: "audio-classification", BASE: "base-module"}


def cases(*wanted: str):
    for family, configs in AUDIO_CONFIGS.items():
        for name, (settings, kinds) in configs.items():
            for kind in kinds:
                if not wanted or kind in wanted:
                    yield family, name, settings, kind


def make(family: str, settings: dict, kind: str, seed: int = 0):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **settings)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind).from_config(config)
    return spread(model)


def make_batch(model, kind: str, rows: int = 3, seed: int = 0) -> dict[str, torch.Tensor]:
    draw, config = torch.Generator().manual_seed(seed), model.config
    batch = {"input_features": torch.randn(rows, config.num_mel_bins, 2 * config.max_source_positions, generator=draw)}
    if kind == SOUNDS:
        return batch | {"labels": torch.randint(0, config.num_labels, (rows,), generator=draw)}
    ids = torch.randint(10, config.vocab_size, (rows, 9), generator=draw)
    if kind == BASE:
        return batch | {"decoder_input_ids": ids}
    ids[0, 5:] = -100
    return batch | {"labels": ids}


class Audio(unittest.TestCase):
    def compare(self, model, batch: dict, directory: pathlib.Path, *args: str, hidden: bool = False) -> None:
        has_loss = "labels" in batch
        ours = forward(directory, batch, *(["--grad"] if has_loss else []), *(["--hidden-states", "--attentions"] if hidden else []), *args)
        theirs = model(**batch, output_hidden_states=hidden, output_attentions=hidden)
        errors = {}
        for name, value in theirs.items():
            if name == "past_key_values" or value is None or name.endswith("hidden_states") and not hidden:
                continue
            for i, tensor in enumerate(value if isinstance(value, tuple) else [value]):
                full = f"{name}.{i}" if isinstance(value, tuple) else name
                if full == "encoder_last_hidden_state" and full not in ours:
                    continue  # on a mesh it is gathered only when it is asked for
                self.assertIn(full, ours)
                errors[full] = error_of(ours[full], tensor.detach())
        if has_loss:
            theirs.loss.backward()
            gradients = gradients_of(model, directory)
            self.assertEqual({k[5:] for k in ours if k.startswith("grad.")}, set(gradients))
            for name, gradient in gradients.items():
                errors[f"grad.{name}"] = error_of(ours[f"grad.{name}"], gradient)
        self.assertGreater(len(errors), 1)
        self.assertFalse({k: v for k, v in errors.items() if not v < TOLERANCE}, args)

    def each(self, chosen, *args: str, rows: int = 3, hidden: bool = False) -> None:
        for family, name, settings, kind in chosen:
            with self.subTest(config=name, kind=kind, args=args), tempfile.TemporaryDirectory() as folder:
                model = make(family, settings, kind)
                model.save_pretrained(folder)
                self.compare(model, make_batch(model, kind, rows), pathlib.Path(folder), "--task", TASKS[kind], *args, hidden=hidden)

    def test_outputs_loss_and_gradients(self):
        self.each(cases(), hidden=True)

    def test_mechanisms_and_checkpointing(self):
        for change in ("attn_mechanism=sdpa", "attn_mechanism=blockwise", "gradient_checkpointing=nothing_saveable"):
            self.each([next(cases(SPEECH))], "--set", change)

    def test_a_mesh_gives_the_same(self):
        """Five rows and 13 tokens do not divide: some ranks have rows and tokens that fill up."""
        for case, mesh in zip(cases(), ("1,2,1,1,2", "2,1,1,2,1", "1,1,1,2,2", "2,1,1,2,1", "1,2,1,2,1"), strict=True):
            self.each([case], "--devices", "4", "--mesh", mesh, rows=5)

    def test_a_split_mean_is_refused_by_name(self):
        family, name, settings, kind = next(cases(SOUNDS))
        with tempfile.TemporaryDirectory() as folder:
            model = make(family, settings, kind)
            model.save_pretrained(folder)
            with self.assertRaisesRegex(AssertionError, "reads the mean of all tokens, which are not split"):
                forward(pathlib.Path(folder), make_batch(model, kind), "--devices", "2", "--mesh", "1,1,1,1,2")

    def test_the_task_is_that_of_the_architecture_and_padding_is_the_decoders(self):
        family, name, settings, kind = next(cases(SPEECH))
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            directory = pathlib.Path(folder)
            model = make(family, settings, kind)
            model.save_pretrained(directory)
            batch = make_batch(model, BASE)
            batch["decoder_attention_mask"] = torch.ones_like(batch["decoder_input_ids"])
            batch["decoder_attention_mask"][1, 6:] = 0
            ours, theirs = forward(directory, batch), model(**batch)
            keep = batch["decoder_attention_mask"].bool()
            self.assertLess(error_of(ours["logits"][keep], theirs.logits[keep]), TOLERANCE)
            # An encoder that ran before does not run again.
            del batch["input_features"]
            batch["encoder_outputs"] = theirs.encoder_last_hidden_state + 1
            again = forward(directory, batch)
            expected = model(**batch | {"encoder_outputs": (batch["encoder_outputs"],)})
            self.assertLess(error_of(again["logits"][keep], expected.logits[keep]), TOLERANCE)

    def test_wrong_inputs_are_refused_by_name(self):
        family, name, settings, kind = next(cases(SPEECH))
        with tempfile.TemporaryDirectory() as folder:
            model = make(family, settings, kind)
            model.save_pretrained(folder)
            good = make_batch(model, kind)
            sound = good["input_features"]
            for change, message in (
                ({"input_features": sound[:, :9]}, r"input_features must be \[batch, 10, 26\].* got \[3, 9, 26\]"),
                ({"input_features": sound[..., :25]}, r"must be \[batch, 10, 26\].* got \[3, 10, 25\]"),
                ({"input_features": sound[0]}, r"input_features must be floats \[batch, mel features, frames\]; got \[10, 26\]"),
                ({"attention_mask": torch.ones(3, 26)}, "does not accept attention_mask; use input_features, which need no mask"),
                ({"input_ids": torch.ones(3, 5, dtype=torch.long)}, "does not accept input_ids; use input_features, which need no mask"),
                ({"labels": torch.full((3, 25), 9)}, r"a text may have at most 24 tokens \(max_target_positions\); got 25"),
            ):
                with self.subTest(message=message), self.assertRaisesRegex(AssertionError, message):
                    forward(pathlib.Path(folder), good | change)
            with self.assertRaisesRegex(AssertionError, "exactly one of input_features and encoder_outputs is needed; got neither"):
                forward(pathlib.Path(folder), {"decoder_input_ids": torch.ones(3, 5, dtype=torch.long)})


if __name__ == "__main__":
    del sys.argv[1]
    unittest.main()
