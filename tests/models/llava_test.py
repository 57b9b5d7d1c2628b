"""Tiny random LLaVA models, made by transformers, and the same files run by easydel: logits, loss, gradients, files, and
the tokens that `easydel generate --image` gives. usage: llava_test.py EASYDEL RESAVE_PROGRAM"""

import pathlib
import tempfile
import unittest

from seeing_peer import (compare, draw_files, forward, Image, in_half_precision, resaves_and_reads_all_names, run, same_answers, spread,
                         sys, torch, transformers, word_tokenizer)
from vision_configs import LLAVA_CONFIGS as CONFIGS

WORDS = ["<pad>", "<s>", "</s>", "<unk>", "what", "<image>", "is", "this", "a", "cat", "USER:", "ASSISTANT:", "?"]


def make(settings: dict, seed: int = 0):
    torch.manual_seed(seed)
    config = transformers.LlavaConfig(**settings)
    config._attn_implementation = "eager"
    return spread(transformers.LlavaForConditionalGeneration(config))


def features(model) -> int:
    vision = model.config.vision_config
    count = (vision.image_size // vision.patch_size) ** 2 + (vision.model_type == "clip_vision_model")
    return count - (model.config.vision_feature_select_strategy == "default")


def make_batch(model) -> dict[str, torch.Tensor]:
    """A row with two images, one without, one with one; padding on the left."""
    draw = torch.Generator().manual_seed(3)
    token = model.config.image_token_index
    image = [token] * features(model)
    rows = [[7] + image + [8, 9] + image + [10], [11, 12, 13, 14], image + [15, 16]]
    length = max(map(len, rows)) + 1
    ids = torch.tensor([[0] * (length - len(row)) + row for row in rows])
    mask = ids.ne(0).long()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    labels = ids.masked_fill((ids == 0) | (ids == token), -100)
    for row, line in enumerate(rows):
        labels[row, length - len(line)] = -100  # predicted by padding
    pixels = torch.randn(3, 3, model.config.vision_config.image_size, model.config.vision_config.image_size, generator=draw)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "labels": labels, "pixel_values": pixels}


def write_processor(model, directory: pathlib.Path) -> transformers.LlavaProcessor:
    words = [w for w in WORDS if w != "<image>"]
    words.insert(model.config.image_token_index, "<image>")
    tokenizer = word_tokenizer(words, ["<image>"])
    edge = model.config.vision_config.image_size
    images = transformers.CLIPImageProcessor(size={"shortest_edge": edge}, crop_size=edge)
    is_clip = model.config.vision_config.model_type == "clip_vision_model"
    processor = transformers.LlavaProcessor(images, tokenizer, patch_size=model.config.vision_config.patch_size, num_additional_image_tokens=int(is_clip),
                                            vision_feature_select_strategy=model.config.vision_feature_select_strategy)
    processor.save_pretrained(directory)
    return processor


class Llava(unittest.TestCase):
    def compare(self, settings: dict, *args: str) -> None:
        model = make(settings)
        compare(self, model, make_batch(model), *args)

    def test_logits_loss_and_gradients(self):
        for name, settings in CONFIGS.items():
            with self.subTest(config=name):
                self.compare(settings)

    def test_half_precision(self):
        model = make(next(iter(CONFIGS.values())))
        in_half_precision(self, model, make_batch(model), forward)

    def test_a_mesh_gives_the_same(self):
        for mesh, settings in zip(("2,1,1,2,1", "1,4,1,1,1"), CONFIGS.values()):
            with self.subTest(mesh=mesh):
                self.compare(settings, "--devices", "4", "--mesh", mesh)

    def test_saved_again_it_is_the_same_model_and_all_names_are_read(self):
        for name, settings in CONFIGS.items():
            model = make(settings)
            with self.subTest(config=name):
                resaves_and_reads_all_names(self, model, make_batch(model), lambda k: k.replace("vision_tower.", "vision_tower.vision_model."))

    def test_generates_what_transformers_generates(self):
        for name, settings in CONFIGS.items():
            model = make(settings, seed=4)
            with self.subTest(config=name), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                directory = pathlib.Path(folder)
                model.save_pretrained(directory)
                processor = write_processor(model, directory)
                prompt = "USER: <image> what is this ? <image> a cat ? ASSISTANT:"
                same_answers(self, model, processor, directory, prompt, draw_files(directory))

    def test_wrong_counts_are_one_clear_line(self):
        model = make(CONFIGS["llama behind clip"])
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            write_processor(model, directory)
            Image.new("RGB", (20, 20)).save(directory / "a.png")
            with self.assertRaisesRegex(AssertionError, "the text must have a placeholder <image> for each image; got 0 for 1"):
                run("generate", folder, "--prompt", "what is this", "--image", str(directory / "a.png"))
            with self.assertRaisesRegex(AssertionError, "--image needs --prompt or --prompt-file"):
                run("generate", folder, "--input-ids", "1,2", "--image", str(directory / "a.png"))
            batch = make_batch(model)
            batch["pixel_values"] = batch["pixel_values"][:2]
            with self.assertRaisesRegex(AssertionError, "one placeholder token 5 for each of the 18 features; got 27"):
                forward(directory, batch)


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
