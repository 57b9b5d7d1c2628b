"""Tiny random models of images, made by transformers, and the same files run by easydel: every output, the loss and the
gradient of every parameter must agree; on a mesh too; what easydel saves is the same model to transformers.
usage: vision_test.py EASYDEL RESAVE_PROGRAM FAMILY[,FAMILY…]"""

import json
import pathlib
import sys
import tempfile
import unittest

from model_peer import TOLERANCE, forward, gradients_of, save_file, spread, torch, transformers, warm_start
from transformers import AutoConfig

import model_peer
from take_turns import take_turns
from vision_configs import VISION_CONFIGS

RESAVE = sys.argv[2]
FAMILY = take_turns(sys.argv[3].split(","))
ROWS, TOKENS = 3, 11
NAMES = ("last_hidden_state", "pooler_output", "image_embeds", "text_embeds", "logits_per_image", "logits_per_text", "logits", "loss")


def cases():
    for name, (settings, classes) in VISION_CONFIGS[FAMILY].items():
        for kind in classes:
            yield name, settings, kind


def make(settings: dict, kind: str, seed: int = 0):
    torch.manual_seed(seed)
    config = AutoConfig.for_model(FAMILY, **settings)
    config._attn_implementation = "eager"
    model = getattr(transformers, kind)(config)
    return spread(model)


def make_batch(model, seed: int = 0, rows: int = ROWS) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    config, batch = model.config, {}
    vision = getattr(config, "vision_config", config)
    text = getattr(config, "text_config", config)
    if model.main_input_name == "input_ids" or "Model" == type(model).__name__[-5:] and hasattr(config, "text_config"):
        ids = torch.randint(3, 96, (rows, TOKENS), generator=draw)
        mask = torch.ones_like(ids)
        for row, length in enumerate((TOKENS, 7, 4)[:rows]):
            ids[row, length - 1] = 96  # the end, which is the largest too
            mask[row, length:] = 0
        batch |= {"input_ids": ids, "attention_mask": mask}
        del text
    if hasattr(vision, "patch_size"):
        batch["pixel_values"] = torch.randn(rows, vision.num_channels, vision.image_size, vision.image_size, generator=draw)
    if "Classification" in type(model).__name__:
        batch["labels"] = torch.randint(0, config.num_labels, (rows,), generator=draw)
    if hasattr(config, "text_config") and "input_ids" in batch:
        batch["return_loss"] = torch.tensor(1)
    return batch


def theirs_of(model, batch: dict, **more):
    batch = {k: bool(v) if v.dim() == 0 else v for k, v in batch.items()}
    return model(**batch, **more)


def error_of(ours: torch.Tensor, theirs: torch.Tensor, keep: torch.Tensor | None = None) -> float:
    if keep is not None and theirs.shape[:2] == keep.shape and theirs.dim() == 3:
        ours, theirs = ours[keep], theirs[keep]
    return model_peer.error_of(ours, theirs)


class Vision(unittest.TestCase):
    def compare(self, model, batch: dict, directory: pathlib.Path, *args: str) -> None:
        has_loss = "labels" in batch or "return_loss" in batch
        ours = forward(directory, batch, *(["--grad"] if has_loss else []), *args)
        theirs = theirs_of(model, batch)
        keep = batch["attention_mask"].bool() if "attention_mask" in batch else None
        errors = {}
        for name in NAMES:
            expected = getattr(theirs, name, None)
            if expected is None or (name == "last_hidden_state" and "logits" in theirs):
                self.assertNotIn(name, ours)
            else:
                self.assertIn(name, ours)
                errors[name] = error_of(ours[name], expected.detach(), keep)
        if has_loss:
            theirs.loss.backward()
            gradients = gradients_of(model, directory)
            self.assertEqual({k[5:] for k in ours if k.startswith("grad.")}, set(gradients))
            for name, gradient in gradients.items():
                # The softmax takes no notice of a number that all keys add to a query's scores.
                scale = 1.0 if name.endswith("k_proj.bias") or name.endswith("key.bias") else None
                if scale:
                    errors[f"grad.{name}"] = (ours[f"grad.{name}"] - gradient).abs().max().item()
                else:
                    errors[f"grad.{name}"] = error_of(ours[f"grad.{name}"], gradient)
        self.assertFalse({k: v for k, v in errors.items() if not v < TOLERANCE}, args)

    def test_outputs_loss_and_gradients(self):
        for name, settings, kind in cases():
            with self.subTest(config=name, kind=kind), tempfile.TemporaryDirectory() as folder:
                model = make(settings, kind)
                model.save_pretrained(folder)
                self.compare(model, make_batch(model), pathlib.Path(folder))

    def test_hidden_states(self):
        name, settings, kind = next(iter(cases()))
        model = make(settings, kind)
        if hasattr(model.config, "text_config"):
            self.skipTest("two towers have two of them")
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            model.save_pretrained(folder)
            batch = make_batch(model)
            batch.pop("labels", None)
            ours = forward(pathlib.Path(folder), batch, "--hidden-states")
            keep = batch["attention_mask"].bool() if "attention_mask" in batch else None
            for i, hidden in enumerate(theirs_of(model, batch, output_hidden_states=True).hidden_states):
                self.assertLess(error_of(ours[f"hidden_states.{i}"], hidden, keep), TOLERANCE, i)
            self.assertNotIn(f"hidden_states.{i + 1}", ours)

    def test_mechanisms_and_checkpointing(self):
        name, settings, kind = list(cases())[-1]
        for change in ("attn_mechanism=vanilla", "attn_mechanism=blockwise", "gradient_checkpointing=nothing_saveable"):
            with self.subTest(change=change), tempfile.TemporaryDirectory() as folder:
                model = make(settings, kind)
                model.save_pretrained(folder)
                self.compare(model, make_batch(model), pathlib.Path(folder), "--set", change)

    def test_a_mesh_gives_the_same(self):
        """Five rows do not divide: some ranks have rows that fill up."""
        for (name, settings, kind), mesh in zip(reversed(list(cases())), ("2,1,1,2,1", "1,3,1,1,1", "1,2,1,2,1")):
            with self.subTest(config=name, kind=kind, mesh=mesh), tempfile.TemporaryDirectory() as folder:
                model = make(settings, kind)
                model.save_pretrained(folder)
                self.compare(model, make_batch(model, rows=5), pathlib.Path(folder), "--devices", "3" if "3" in mesh else "4", "--mesh", mesh)

    def test_a_split_sequence_is_refused_by_name(self):
        name, settings, kind = next(iter(cases()))
        model = make(settings, kind)
        if not hasattr(getattr(model.config, "vision_config", model.config), "patch_size"):
            self.skipTest("no images")
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            with self.assertRaisesRegex(AssertionError, "image patches cannot be split over the sequence axes"):
                forward(pathlib.Path(folder), make_batch(model), "--devices", "2", "--mesh", "1,1,1,1,2")

    def test_other_sizes_interpolate_the_positions(self):
        name, settings, kind = next(iter(cases()))
        model = make(settings, kind)
        config = getattr(model.config, "vision_config", model.config)
        if not hasattr(config, "patch_size"):
            self.skipTest("no images")
        batch = make_batch(model)
        edge = config.patch_size
        batch["pixel_values"] = torch.randn(ROWS, config.num_channels, 5 * edge, 4 * edge + 1)
        if FAMILY != "dinov2":
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                with self.assertRaisesRegex(AssertionError, "Set interpolate_pos_encoding for other sizes"):
                    forward(pathlib.Path(folder), batch)
            batch["interpolate_pos_encoding"] = torch.tensor(1)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            self.compare(model, batch, pathlib.Path(folder))

    def test_saved_again_it_is_the_same_model(self):
        for name, settings, kind in cases():
            with self.subTest(config=name, kind=kind), tempfile.TemporaryDirectory() as folder:
                model = make(settings, kind)
                source, target = pathlib.Path(folder) / "theirs", pathlib.Path(folder) / "ours"
                model.save_pretrained(source)
                done = warm_start.run([RESAVE, str(source), str(target)], text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                again, info = getattr(transformers, kind).from_pretrained(target, output_loading_info=True)
                self.assertFalse({k: v for k, v in info.items() if v})
                ours, theirs = again.state_dict(), model.state_dict()
                self.assertEqual(ours.keys(), theirs.keys())
                self.assertTrue(all(torch.equal(ours[k], theirs[k]) for k in theirs))
                read = lambda path: json.loads((path / "config.json").read_text())  # noqa: E731
                self.assertEqual(read(target), read(source))

    def test_the_names_of_memory_are_read_too(self):
        for name, settings, kind in cases():
            if settings.get("use_swiglu_ffn"):
                continue  # two matrices in memory are one in files
            with self.subTest(config=name, kind=kind), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                model = make(settings, kind)
                directory = pathlib.Path(folder)
                model.save_pretrained(directory)
                save_file({k: v.contiguous() for k, v in model.state_dict().items()}, directory / "model.safetensors", {"format": "pt"})
                batch = make_batch(model)
                ours, theirs = forward(directory, batch), theirs_of(model, batch)
                for key in ("logits", "pooler_output", "logits_per_image", "image_embeds"):
                    if getattr(theirs, key, None) is not None:
                        self.assertLess(error_of(ours[key], getattr(theirs, key)), TOLERANCE)

    def test_inner_configs_are_changed_by_their_keys(self):
        name, settings, kind = next(iter(cases()))
        if "vision_config" not in settings:
            self.skipTest("no config inside")
        inner = settings["vision_config"]
        changed = {**settings, "vision_config": {**inner, "layer_norm_eps": 0.5, "hidden_act": "relu"}}
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            directory = pathlib.Path(folder)
            make(settings, kind).save_pretrained(directory)
            model = make(changed, kind)
            batch = make_batch(model)
            ours = forward(directory, batch, "--set", "vision_config.layer_norm_eps=0.5", "--set", "vision_config.hidden_act=relu")
            self.assertLess(error_of(ours["logits_per_image"], theirs_of(model, batch).logits_per_image), TOLERANCE)
            with self.assertRaisesRegex(AssertionError, 'got "layer_norm_epz". Did you mean "layer_norm_eps"'):
                forward(directory, batch, "--set", "vision_config.layer_norm_epz=0.5")
            with self.assertRaisesRegex(AssertionError, "hidden_size must be a multiple of num_attention_heads; got 30 and 4"):
                forward(directory, batch, "--set", "vision_config.hidden_size=30")

    def test_configs_of_the_first_versions(self):
        if FAMILY != "clip":
            self.skipTest("of CLIP alone")
        name, settings, kind = next(iter(cases()))
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            directory = pathlib.Path(folder)
            make(settings, kind).save_pretrained(directory)
            config = json.loads((directory / "config.json").read_text())
            config["text_config_dict"] = {**settings["text_config"], "hidden_act": "relu"}
            config["vision_config_dict"] = None
            (directory / "config.json").write_text(json.dumps(config))
            model = getattr(transformers, kind).from_pretrained(directory, attn_implementation="eager")
            self.assertEqual(model.config.text_config.hidden_act, "relu")
            batch = make_batch(model)
            ours = forward(directory, batch)
            self.assertLess(error_of(ours["logits_per_image"], theirs_of(model, batch).logits_per_image), TOLERANCE)


if __name__ == "__main__":
    del sys.argv[1:4]
    unittest.main()
