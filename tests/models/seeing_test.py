"""Tiny random decoders that see, made by transformers, and the same files run by easydel: logits, loss, gradients, files, and
the tokens that `easydel generate --image` gives. usage: seeing_test.py EASYDEL RESAVE_PROGRAM FAMILY[,FAMILY…]"""

import contextlib
import copy
import json
import pathlib
import sys
import tempfile
import unittest

from seeing_peer import (compare, draw_files, draw_frames, forward, in_half_precision, resaves_and_reads_all_names, run,
                         same_answer_about_a_video, same_answers, spread, torch, transformers, word_tokenizer)
from take_turns import take_turns
from vision_configs import SEEING_CONFIGS

FAMILY = take_turns(sys.argv[3].split(","))
KIND, CONFIGS = SEEING_CONFIGS[FAMILY]
SIZES = [(16, 24), (8, 9), (12, 20)]  # of images that need not be alike
PLACE = {"gemma3": "<start_of_image>", "mistral3": "[IMG]", "smolvlm": "<image>"}[FAMILY]  # of an image, in a prompt
IMAGE_TOKEN = {"gemma3": "<image_soft_token>", "mistral3": "[IMG]", "smolvlm": "<image>"}[FAMILY]
SPECIAL = {"gemma3": ["<start_of_image>", "<end_of_image>"], "mistral3": ["[IMG_BREAK]", "[IMG_END]"],
           "smolvlm": ["<fake_token_around_image>", "<global-img>", *(f"<row_{i}_col_{j}>" for i in (1, 2) for j in (1, 2))]}[FAMILY]


def make(settings: dict, seed: int = 0):
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(FAMILY, **copy.deepcopy(settings))
    config._attn_implementation = "eager"
    return spread(getattr(transformers, KIND)(config))


def image_token(model) -> int:
    return model.config.image_token_id


def images_of(model, count: int) -> tuple[dict[str, torch.Tensor], list[int]]:
    """What a model takes of so many images, and how many features each has."""
    draw = torch.Generator().manual_seed(3)
    vision = model.config.vision_config
    if FAMILY == "gemma3":
        side = vision.image_size // vision.patch_size
        pooled = side // int(model.config.mm_tokens_per_image**0.5)
        pixels = torch.randn(count, 3, vision.image_size, vision.image_size, generator=draw)
        return {"pixel_values": pixels}, [(side // pooled) ** 2] * count
    if FAMILY == "smolvlm":
        edge = vision.image_size
        pixels, mask = torch.zeros(3, 2, 3, edge, edge), torch.zeros(3, 2, edge, edge, dtype=torch.long)
        for i, (row, column) in enumerate(((0, 0), (0, 1), (2, 0))[:count]):
            high, wide = ((edge, edge), (edge - 7, edge - 4), (edge, edge))[i]
            pixels[row, column, :, :high, :wide] = torch.randn(3, high, wide, generator=draw)
            mask[row, column, :high, :wide] = 1
        features = (edge // vision.patch_size // model.config.scale_factor) ** 2
        return {"pixel_values": pixels, "pixel_attention_mask": mask}, [features] * count
    sizes = torch.tensor(SIZES[:count])
    pixels = torch.randn(count, 3, 16, 24, generator=draw)
    merged = model.config.spatial_merge_size
    return {"pixel_values": pixels, "image_sizes": sizes}, [(h // vision.patch_size // merged) * (w // vision.patch_size // merged) for h, w in SIZES[:count]]


def make_batch(model, side: str = "left", typed: bool = True) -> dict[str, torch.Tensor]:
    """A row with two images, one without, one with one, padded on a side."""
    images, counts = images_of(model, 3)
    image = image_token(model)
    one, two, three = ([image] * count for count in counts)
    rows = [[7] + one + [8, 9] + two + [10], [11, 12, 13, 14], three + [15, 16, 17]]
    length = max(map(len, rows)) + 1
    fill = lambda row: [0] * (length - len(row))  # noqa: E731
    ids = torch.tensor([fill(row) + row if side == "left" else row + fill(row) for row in rows])
    mask = ids.ne(0).long()
    labels = ids.masked_fill((ids == 0) | (ids == image), -100)
    if side == "left":
        for row, line in enumerate(rows):
            labels[row, length - len(line)] = -100  # predicted by padding
    batch = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0), "labels": labels, **images}
    if FAMILY == "gemma3" and typed:
        batch["token_type_ids"] = ids.eq(image).long()
    return batch


def words_of(image: int) -> list[str]:
    words = ["<pad>", "<s>", "</s>", "<unk>", "what", "is", "this", "a", "cat", "?", "USER:", "ASSISTANT:", *SPECIAL]
    words.insert(image, IMAGE_TOKEN)
    return words


def write_processor(model, directory: pathlib.Path):
    image = image_token(model)
    words = words_of(image)
    special = [*SPECIAL, IMAGE_TOKEN]
    vision = model.config.vision_config
    if FAMILY == "gemma3":
        extra = dict(boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>")
        tokenizer = word_tokenizer(words, special, extra_special_tokens=extra)
        images = transformers.Gemma3ImageProcessor(size={"height": vision.image_size, "width": vision.image_size}, do_pan_and_scan=True)
        processor = transformers.Gemma3Processor(images, tokenizer, image_seq_length=images_of(model, 1)[1][0])
    elif FAMILY == "smolvlm":
        smolvlm = transformers.models.smolvlm.processing_smolvlm
        smolvlm.num2words = smolvlm.num2words or str  # of videos alone
        tokenizer = word_tokenizer(words, special)
        edge = vision.image_size
        images = transformers.SmolVLMImageProcessor(size={"longest_edge": 2 * edge}, max_image_size={"longest_edge": edge})
        processor = transformers.SmolVLMProcessor(images, tokenizer, transformers.SmolVLMVideoProcessor(size={"longest_edge": 2 * edge}, max_image_size={"longest_edge": edge}),
                                                  image_seq_len=images_of(model, 1)[1][0])
    else:
        tokenizer = word_tokenizer(words, special)
        processor = transformers.PixtralProcessor(transformers.PixtralImageProcessor(size={"longest_edge": 40}), tokenizer, patch_size=vision.patch_size,
                                                  spatial_merge_size=model.config.spatial_merge_size)
    processor.save_pretrained(directory)
    return processor


class Seeing(unittest.TestCase):
    def compare(self, settings: dict, *args: str, **options) -> None:
        model = make(settings)
        compare(self, model, make_batch(model, **options), *args)

    def test_logits_loss_and_gradients(self):
        for name, settings in CONFIGS.items():
            for side in ("left", "right"):
                with self.subTest(config=name, side=side):
                    self.compare(settings, side=side)

    def test_mechanisms_and_checkpointing(self):
        settings = next(iter(CONFIGS.values()))
        for change in ("attn_mechanism=vanilla", "attn_mechanism=blockwise", "gradient_checkpointing=nothing_saveable"):
            with self.subTest(change=change):
                self.compare(settings, "--set", change)

    def test_without_types_of_tokens(self):
        if FAMILY != "gemma3":
            self.skipTest("gemma3's tokens of images see each other where token_type_ids say so")
        self.compare(next(iter(CONFIGS.values())), typed=False)

    def test_half_precision(self):
        model = make(next(iter(CONFIGS.values())))
        in_half_precision(self, model, make_batch(model), forward)

    def test_a_mesh_gives_the_same(self):
        for mesh, settings in zip(("2,1,1,2,1", "1,4,1,1,1"), CONFIGS.values()):
            with self.subTest(mesh=mesh):
                self.compare(settings, "--devices", "4", "--mesh", mesh)

    def test_a_split_sequence_is_refused_by_name(self):
        with self.assertRaisesRegex(AssertionError, "image patches cannot be split over the sequence axes"):
            self.compare(next(iter(CONFIGS.values())), "--devices", "2", "--mesh", "1,1,1,1,2")

    def test_saved_again_it_is_the_same_model_and_all_names_are_read(self):
        for name, settings in CONFIGS.items():
            model = make(settings)
            with self.subTest(config=name):
                resaves_and_reads_all_names(
                    self, model, make_batch(model),
                    lambda k: k.replace("vision_tower.", "vision_tower.vision_model.") if FAMILY == "gemma3" else k)

    def test_generates_what_transformers_generates(self):
        for name, settings in CONFIGS.items():
            model = make(settings, seed=4)
            if image_token(model) >= model.config.text_config.vocab_size:
                continue  # no tokenizer has it
            with self.subTest(config=name), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                directory = pathlib.Path(folder)
                model.save_pretrained(directory)
                processor = write_processor(model, directory)
                files = draw_files(directory)
                prompt = f"{PLACE} what is this ? {PLACE} a cat ?"
                same_answers(self, model, processor, directory, prompt, files)
                text = json.loads(run("generate", str(directory), "--prompt", "what is this ?", "--max-new-tokens", "5", "--json"))
                ids = processor.tokenizer("what is this ?", return_tensors="pt")["input_ids"]
                self.assertEqual(text["sequences"][0]["ids"], model.generate(ids, max_new_tokens=5, do_sample=False)[0, ids.shape[1] :].tolist())

    def test_answers_about_videos(self):
        model = make(next(iter(CONFIGS.values())), seed=4)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            processor = write_processor(model, directory)
            if FAMILY == "smolvlm":
                return same_answer_about_a_video(self, model, processor, directory, "what is this <video> ?", 2.0)
            with self.assertRaisesRegex(AssertionError, "supports only images. Videos: qwen2_vl, qwen2_5_vl, qwen3_vl, smolvlm."):
                run("generate", folder, "--task", "image-text-to-text", "--prompt", "what", "--video", draw_frames(directory))

    def test_wrong_counts_are_one_clear_line(self):
        model = make(next(iter(CONFIGS.values())))
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            write_processor(model, directory)
            files = draw_files(directory)
            with self.assertRaisesRegex(AssertionError, "the text must have a placeholder .* for each image; got 0 for 1"):
                run("generate", folder, "--prompt", "what is this", "--image", files[0])
            with self.assertRaisesRegex(AssertionError, "does not accept images") if FAMILY != "smolvlm" else contextlib.nullcontext():
                run("generate", folder, "--task", "causal-lm", "--prompt", PLACE, "--image", files[0])
            batch = make_batch(model)
            counts = images_of(model, 3)[1]
            for name in ("pixel_values", "image_sizes", "pixel_attention_mask"):
                if name in batch:
                    batch[name] = batch[name][:2]
            with self.assertRaisesRegex(AssertionError, f"one placeholder token 5 for each of the {sum(counts[:2])} features; got {sum(counts)}"):
                forward(directory, batch)
            if "image_sizes" in batch:
                batch["image_sizes"] = torch.tensor([[16, 25], [8, 8]])
                with self.assertRaisesRegex(AssertionError, "image_sizes must be from 4 x 4, a patch, to 16 x 24, as pixel_values are; got 16 x 25"):
                    forward(directory, batch)


if __name__ == "__main__":
    del sys.argv[1:4]
    unittest.main()
