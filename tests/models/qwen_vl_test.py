"""Tiny random vision-language models of Qwen's families, made by transformers, and the same files run by easydel: logits,
loss, gradients, positions, files, and tokens of images and prompts. usage: qwen_vl_test.py EASYDEL RESAVE_PROGRAM"""

import json
import pathlib
import tempfile
import unittest

from seeing_peer import (TOLERANCE, compare, draw_files, error_of, in_half_precision, in_memory, load_file, resave, run,
                         same_answer_about_a_video, same_answers, save_file, spread, sys, torch, transformers, word_tokenizer)
from vision_configs import QWEN_VL_CONFIGS
import seeing_peer

PAD, START, END = 0, 7, 8
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "what", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>", "is", "this", "a", "cat",
         "USER:", "ASSISTANT:", "?"]
CASES = [(family, name, settings) for family, configs in QWEN_VL_CONFIGS.items() for name, settings in configs.items()]


def make(family: str, settings: dict, seed: int = 0):
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(family, **json.loads(json.dumps(settings)))
    config._attn_implementation = "eager"
    return spread(transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="eager"))


def draw_patches(vision, grids: list, seed: int) -> torch.Tensor:
    features = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    return torch.randn(sum(t * h * w for t, h, w in grids), features, generator=torch.Generator().manual_seed(seed))


def make_batch(model, side: str = "left", videos: bool = False) -> dict[str, torch.Tensor]:
    """A row with two images of different sizes, one without, one with one (and a video)."""
    vision, image, video = model.config.vision_config, model.config.image_token_id, model.config.video_token_id
    m = vision.spatial_merge_size
    grids = [[1, 2 * m, 3 * m], [1, m, 2 * m], [1, 5 * m, 3 * m]]
    clips = [[3, m, 2 * m]] if videos else []

    def seen(grid: list, token: int) -> list[int]:
        return [START] + [token] * (grid[0] * grid[1] * grid[2] // m**2) + [END]

    rows = [[9] + seen(grids[0], image) + [10, 11] + seen(grids[1], image) + [12], [13, 14, 15, 16], [9] + seen(grids[2], image) + [17, 18]]
    for clip in clips:
        if model.config.model_type == "qwen3_vl":  # a frame has text before it
            rows[1] += [part for _ in range(clip[0]) for part in [19, *seen([1, *clip[1:]], video)]] + [20]
        else:
            rows[1] += seen(clip, video) + [20]
    length = max(map(len, rows)) + 1
    pad = [[PAD] * (length - len(row)) for row in rows]
    ids = torch.tensor([p + row if side == "left" else row + p for p, row in zip(pad, rows)])
    mask = ids.ne(PAD).long()
    labels = ids.masked_fill((ids == PAD) | (ids == image) | (ids == video), -100)
    for row, line in enumerate(rows):
        labels[row, length - len(line) if side == "left" else 0] = -100  # predicted by padding
    types_of = (ids == image).long() + 2 * (ids == video).long()
    batch = {"input_ids": ids, "attention_mask": mask, "labels": labels, "mm_token_type_ids": types_of,
             "pixel_values": draw_patches(vision, grids, 3), "image_grid_thw": torch.tensor(grids)}
    if clips:
        batch |= {"pixel_values_videos": draw_patches(vision, clips, 4), "video_grid_thw": torch.tensor(clips)}
    return batch


def forward(directory: pathlib.Path, batch: dict, *args: str, task: str = "image-text-to-text") -> dict[str, torch.Tensor]:
    return seeing_peer.forward(directory, batch, "--task", task, *args)


def write_processor(model, directory: pathlib.Path, old: bool = False):
    """Beside the model; `old`: as files of the hub have it, the image processor alone."""
    words = {w: i for i, w in enumerate(WORDS)} | {"<|image_pad|>": model.config.image_token_id, "<|video_pad|>": model.config.video_token_id}
    tokenizer = word_tokenizer(words, WORDS[5:9], begins=False)
    vision = model.config.vision_config
    sizes = dict(patch_size=vision.patch_size, merge_size=vision.spatial_merge_size, temporal_patch_size=vision.temporal_patch_size)
    least = (vision.patch_size * vision.spatial_merge_size) ** 2
    images = transformers.Qwen2VLImageProcessor(size=dict(shortest_edge=2 * least, longest_edge=12 * least), **sizes)
    kind = {"qwen3_vl": transformers.Qwen3VLProcessor, "qwen2_5_vl": transformers.Qwen2_5_VLProcessor}.get(model.config.model_type, transformers.Qwen2VLProcessor)
    is_third = model.config.model_type == "qwen3_vl"  # whose limits are of all frames together
    clips = (transformers.Qwen3VLVideoProcessor if is_third else transformers.Qwen2VLVideoProcessor)(
        size=dict(shortest_edge=(8 if is_third else 2) * least, longest_edge=(60 if is_third else 12) * least), **sizes)
    processor = kind(images, tokenizer, clips)
    processor.save_pretrained(directory)
    if old:
        (directory / "processor_config.json").unlink()
        settings = sizes | dict(min_pixels=2 * least, max_pixels=12 * least, image_processor_type="Qwen2VLImageProcessor", processor_class=kind.__name__)
        (directory / "preprocessor_config.json").write_text(json.dumps(settings))
    return processor


class QwenVL(unittest.TestCase):
    def compare(self, model, batch: dict, *args: str) -> None:
        features = [model.get_image_features(batch["pixel_values"], batch["image_grid_thw"]).pooler_output]
        if "pixel_values_videos" in batch:
            features.append(model.get_video_features(batch["pixel_values_videos"], batch["video_grid_thw"]).pooler_output)
        compare(self, model, batch, *args, forward=forward, features=torch.cat([one for some in features for one in some]))

    def test_logits_loss_gradients_and_deltas(self):
        for family, name, settings in CASES:
            for side, videos in (("left", False), ("right", True)):
                with self.subTest(family=family, config=name, side=side):
                    model = make(family, settings)
                    self.compare(model, make_batch(model, side, videos))

    def test_half_precision(self):
        for family, configs in QWEN_VL_CONFIGS.items():
            with self.subTest(family=family):
                model = make(family, next(iter(configs.values())))
                in_half_precision(self, model, make_batch(model), forward)

    def test_a_mesh_gives_the_same(self):
        for mesh, (family, name, settings) in zip(("2,1,1,2,1", "1,4,1,1,1", "1,2,1,2,1", "4,1,1,1,1", "1,2,1,2,1"), CASES):
            with self.subTest(family=family, mesh=mesh):
                model = make(family, settings)
                self.compare(model, make_batch(model), "--devices", "4", "--mesh", mesh)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            with self.assertRaisesRegex(AssertionError, "image patches cannot be split over the sequence axes"):
                forward(pathlib.Path(folder), make_batch(model), "--devices", "2", "--mesh", "1,1,1,1,2")

    def test_positions(self):
        family, _, settings = CASES[2]
        model = make(family, settings)
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            for side in ("left", "right"):
                batch = make_batch(model, side, videos=True)
                del batch["labels"]
                counted = forward(directory, batch)["logits"]
                positions, _ = model.model.get_rope_index(batch["input_ids"], batch["mm_token_type_ids"], batch["image_grid_thw"],
                                                          batch["video_grid_thw"], attention_mask=batch["attention_mask"])
                self.assertTrue(torch.equal(forward(directory, batch | {"position_ids": positions})["logits"], counted))
                # Without mm_token_type_ids the ids say what is an image.
                self.assertTrue(torch.equal(forward(directory, {k: v for k, v in batch.items() if k != "mm_token_type_ids"})["logits"], counted))
                # Given ones are taken as they are, for all three.
                keep = batch["attention_mask"].bool()
                plain = torch.arange(keep.shape[1]).expand(*keep.shape)
                ours = forward(directory, batch | {"position_ids": plain})["logits"]
                self.assertLess(error_of(ours[keep], model(**batch, position_ids=plain).logits[keep]), TOLERANCE)
                self.assertGreater(error_of(ours[keep], counted[keep]), 1e-3)
            text = {k: batch[k] for k in ("input_ids", "attention_mask")}
            text["input_ids"] = text["input_ids"].masked_fill(batch["mm_token_type_ids"].bool(), 12)
            self.assertLess(error_of(forward(directory, text)["logits"][keep], model(**text).logits[keep]), TOLERANCE)

    def test_positions_count_seconds(self):
        """Of Qwen2.5-VL's videos: times of steps that are no whole numbers, of two videos in different rows."""
        settings = dict(QWEN_VL_CONFIGS["qwen2_5_vl"]["windows of two tokens"])
        for rate, side in ((25, "left"), (2, "right"), (7, "left")):
            model = make("qwen2_5_vl", settings | {"vision_config": settings["vision_config"] | {"tokens_per_second": rate}})
            batch = make_batch(model, side)
            video, m = model.config.video_token_id, model.config.vision_config.spatial_merge_size
            grids = [[7, m, 2 * m], [4, 2 * m, m]]
            extra = torch.full((3, 16), PAD)
            for row, grid in enumerate(grids):
                count = grid[0] * grid[1] * grid[2] // m**2
                extra[row, -2 - count if side == "left" else 0] = START
                places = slice(-1 - count, -1) if side == "left" else slice(1, 1 + count)
                extra[row, places] = video
                extra[row, -1 if side == "left" else 1 + count] = END
            extra[2] = 21
            order = [extra, batch["input_ids"]] if side == "right" else [batch["input_ids"], extra]
            ids = torch.cat(order, 1)
            given = {"input_ids": ids, "attention_mask": ids.ne(PAD).long(), "pixel_values": batch["pixel_values"],
                     "image_grid_thw": batch["image_grid_thw"], "mm_token_type_ids": (ids == model.config.image_token_id).long() + 2 * (ids == video).long(),
                     "pixel_values_videos": draw_patches(model.config.vision_config, grids, 5), "video_grid_thw": torch.tensor(grids)}
            seen = []
            for seconds in (None, [0.5, 2.0], [1 / 3, 0.7], [2 / 1.7, 2 / 29.97]):
                more = {} if seconds is None else {"second_per_grid_ts": torch.tensor(seconds)}
                with self.subTest(rate=rate, seconds=seconds), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                    model.save_pretrained(folder)
                    ours, keep = forward(pathlib.Path(folder), given | more), given["attention_mask"].bool()
                    theirs = model(**given, **more)
                    self.assertLess(error_of(ours["logits"][keep], theirs.logits[keep]), TOLERANCE)
                    self.assertTrue(torch.equal(ours["rope_deltas"], theirs.rope_deltas))
                    positions, _ = model.model.get_rope_index(ids, given["mm_token_type_ids"], given["image_grid_thw"], given["video_grid_thw"],
                                                              attention_mask=given["attention_mask"], **more)
                    self.assertTrue(torch.equal(forward(pathlib.Path(folder), given | {"position_ids": positions})["logits"], ours["logits"]))
                    seen.append(ours["logits"])
            self.assertGreater(error_of(seen[1], seen[0]), 1e-3)
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            for wrong, message in (([0.5], r"second_per_grid_ts must have a number for each row of video_grid_thw; got \[1\]"),
                                   ([-1.0, 1.0], "second_per_grid_ts must be from 0 to"), ([float("nan"), 1.0], "second_per_grid_ts must be from 0 to")):
                with self.assertRaisesRegex(AssertionError, message):
                    forward(pathlib.Path(folder), given | {"second_per_grid_ts": torch.tensor(wrong)})
            other = make("qwen2_vl", next(iter(QWEN_VL_CONFIGS["qwen2_vl"].values())))
            other.save_pretrained(folder)
            with self.assertRaisesRegex(AssertionError, "does not accept second_per_grid_ts"):
                forward(pathlib.Path(folder), make_batch(other) | {"second_per_grid_ts": torch.tensor([1.0])})

    def test_saved_again_it_is_the_same_model_and_all_names_are_read(self):
        for family, name, settings in CASES:
            model = make(family, settings)
            with self.subTest(family=family, config=name), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                source, target = pathlib.Path(folder) / "theirs", pathlib.Path(folder) / "ours"
                resave(self, model, source, target)
                batch = make_batch(model)
                del batch["labels"]
                expected, keep = model(**batch).logits, batch["attention_mask"].bool()
                memory = in_memory(model)
                hub = {k.replace("model.language_model.", "model.").replace("model.visual.", "visual."): v for k, v in memory.items()}
                base = {k.removeprefix("model."): v for k, v in memory.items() if k.startswith("model.")}
                whole = json.loads((source / "config.json").read_text())
                text = whole.pop("text_config")
                rope = text.pop("rope_parameters")
                del text["model_type"], whole["vision_config"]["model_type"]
                if rope["rope_type"] == "default":
                    text |= {"rope_theta": rope["rope_theta"], "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}}
                else:
                    text["rope_parameters"] = rope
                kinds = [("memory", memory, None)]
                if family != "qwen3_vl":  # whose files never were like that
                    kinds.append(("hub", hub, text | whole))
                for kind, tensors, config in kinds:
                    save_file(tensors, source / "model.safetensors", {"format": "pt"})
                    if config:
                        (source / "config.json").write_text(json.dumps(config))
                    self.assertLess(error_of(forward(source, batch)["logits"][keep], expected[keep]), TOLERANCE, kind)
                model.model.save_pretrained(source)
                self.assertEqual(set(load_file(source / "model.safetensors")), set(base))
                for tensors in (base, memory, hub):
                    save_file(tensors, source / "model.safetensors", {"format": "pt"})
                    hidden = forward(source, batch, task="base-module")["last_hidden_state"]
                    self.assertLess(error_of(hidden[keep], model.model(**batch).last_hidden_state[keep]), TOLERANCE)

    def test_generates_what_transformers_generates(self):
        for i, (family, name, settings) in enumerate(CASES):
            if settings["vision_config"].get("in_channels", 3) != 3:
                continue
            model = make(family, settings, seed=4)
            with self.subTest(family=family, config=name), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                directory = pathlib.Path(folder)
                model.save_pretrained(directory)
                processor = write_processor(model, directory, old=i % 2 == 1)
                seen = "<|vision_start|> <|image_pad|> <|vision_end|>"
                prompt = f"USER: {seen} what is this ? {seen} a cat ? ASSISTANT:"
                # No images in the answer, which transformers would ask pixels for without a cache.
                same_answers(self, model, processor, directory, prompt, draw_files(directory), "--suppress-tokens", "5,6", suppress_tokens=[5, 6])

    def test_answers_about_videos(self):
        for family, configs in QWEN_VL_CONFIGS.items():
            model = make(family, next(iter(configs.values())), seed=4)
            with self.subTest(family=family), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                directory = pathlib.Path(folder)
                model.save_pretrained(directory)
                processor = write_processor(model, directory)
                prompt, fps = "USER: what is <|vision_start|> <|video_pad|> <|vision_end|> ? ASSISTANT:", \
                    {"qwen3_vl": 1.5, "qwen2_5_vl": 0.7}.get(family)
                count = 14 if family == "qwen2_vl" else 5  # times beyond the positions of the text after the video
                same_answer_about_a_video(self, model, processor, directory, prompt, fps, "--suppress-tokens", "5,6", count=count, suppress_tokens=[5, 6])
                frames = str(directory / "frames")
                with self.assertRaisesRegex(AssertionError, "fps has no effect" if fps is None else "has no frame rate"):
                    run("generate", folder, "--prompt", prompt, "--video", frames, *(() if fps else ("--fps", "2")))
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            write_processor(model, directory)
            (directory / "a.mp4").write_bytes(b"\0\0\0\x20ftypisom")
            with self.assertRaisesRegex(AssertionError, "a video must be a folder of frames, or an animated GIF or WebP file; .* ffmpeg -i FILE"):
                run("generate", folder, "--prompt", prompt, "--video", str(directory / "a.mp4"))
            with self.assertRaisesRegex(AssertionError, r"a placeholder <\|video_pad\|> for each video; got 1 for 0"):
                run("generate", folder, "--prompt", prompt + " <|image_pad|>", "--image", draw_files(directory)[0])

    def test_generates_from_padded_rows(self):
        family, _, settings = CASES[0]
        model = make(family, settings, seed=4)
        batch = make_batch(model)
        del batch["labels"]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            theirs = model.generate(**batch, max_new_tokens=7, do_sample=False)[:, batch["input_ids"].shape[1] :].tolist()
            given = {k: v.contiguous() for k, v in batch.items() if k != "mm_token_type_ids"}
            save_file(given, directory / "in.safetensors")
            for more in ((), ("--no-use-cache",), ("--devices", "2", "--mesh", "2,1,1,1,1"), ("--devices", "4", "--mesh", "1,2,1,2,1")):
                ours = json.loads(run("generate", str(directory), "--input", str(directory / "in.safetensors"), "--max-new-tokens", "7", "--json", *more))
                for mine, row in zip(ours["sequences"], theirs):
                    self.assertEqual(mine["ids"], row[: len(mine["ids"])], more)

    def test_adapters_of_peft(self):
        import peft

        family, _, settings = CASES[2]
        model = make(family, settings)
        batch = make_batch(model)
        del batch["labels"]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            keep, before = batch["attention_mask"].bool(), model(**batch).logits
            adapted = peft.get_peft_model(model, peft.LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "down_proj", "qkv", "up_proj"]))
            for name, parameter in adapted.named_parameters():
                if "lora_" in name:
                    parameter.copy_(torch.randn_like(parameter) * 0.1)
            adapted.save_pretrained(directory / "adapter")
            expected = adapted(**batch).logits
            ours = forward(directory, batch, "--adapter", str(directory / "adapter"))["logits"]
            self.assertLess(error_of(ours[keep], expected[keep]), TOLERANCE)
            self.assertGreater(error_of(before[keep], expected[keep]), 1e-2)

    def test_wrong_inputs_are_one_clear_line(self):
        family, _, settings = CASES[0]
        model = make(family, settings)
        batch = make_batch(model)
        grid = batch["image_grid_thw"]
        wrong = (({"image_grid_thw": grid[:2]}, "the grids have 32 patches in all; got pixels of 92"),
                 ({"image_grid_thw": grid + 1}, "height and width in multiples of spatial_merge_size 2; got 2 x 5 x 7"),
                 ({"pixel_values": batch["pixel_values"][:32], "image_grid_thw": grid[:2]}, "the images need 8 placeholders of image_token_id 5; got 23"),
                 ({"pixel_values": batch["pixel_values"][:, :5]}, r"pixel_values must be floats \[patches, 96\]"),
                 ({"image_grid_thw": grid[[2, 1, 0]]}, "tokens must be contiguous in row 0; got fewer"),
                 ({"position_ids": torch.zeros(2, *batch["input_ids"].shape, dtype=torch.long)}, r"position_ids must be \[3, 3, "))
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            for change, message in wrong:
                with self.assertRaisesRegex(AssertionError, message):
                    forward(directory, batch | change)
            for missing in ("pixel_values", "image_grid_thw"):
                with self.assertRaisesRegex(AssertionError, "image_grid_thw and its pixel values must be given together; got one of them"):
                    forward(directory, {k: v for k, v in batch.items() if k != missing})
            with self.assertRaisesRegex(AssertionError, "mm_token_type_ids has tokens of images, which need pixel_values; got none"):
                forward(directory, {k: v for k, v in batch.items() if k not in ("pixel_values", "image_grid_thw")})


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
