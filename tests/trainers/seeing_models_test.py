"""Decoders that see, trained beside a plain loop over transformers' models on rows with images; the labels of trl's
collator; from YAML; and after a kill.

usage: seeing_models_test.py EASYDEL
"""

import copy
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "models"))

import other_models_test
import transformers
from other_models_test import (BATCH, MESHES, RATE, TEMPLATE, AutoConfig, AutoModelForImageTextToText, Image, numpy)
from tiny_run import *
from vision_configs import QWEN_VL_CONFIGS, SEEING_CONFIGS

PARTS = {  # of a text: where an image stands, what its features stand in for, and other tokens around them
    "gemma3": ("<start_of_image>", "<image_soft_token>", ["<end_of_image>"]),
    "mistral3": ("[IMG]", "[IMG]", ["[IMG_BREAK]", "[IMG_END]"]),
    "smolvlm": ("<image>", "<image>", ["<fake_token_around_image>", "<global-img>", *(f"<row_{i}_col_{j}>" for i in (1, 2) for j in (1, 2))]),
    "qwen": ("<|image_pad|>", "<|image_pad|>", ["<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]),
}


class SeeingFamilies(other_models_test.OtherModels):
    """Decoders that are given more of images than pixels: sizes, masks, grids, and which tokens are an image's."""
    loader = AutoModelForImageTextToText
    TOWER = re.compile(r"vision_tower\.|vision_model\.|visual\.(patch_embed|pos_embed|blocks)\.")
    FAMILIES = ("gemma3", "mistral3", "smolvlm", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")

    def make(self, family, trains_tower=False):
        self.place, self.feature, more = PARTS["qwen" if family.startswith("qwen") else family]
        raw = Tokenizer.from_file(str(self.folder / "model" / "tokenizer.json"))
        raw.add_special_tokens([*dict.fromkeys((self.place, self.feature)), *more])
        id_of = raw.token_to_id
        configs = QWEN_VL_CONFIGS[family] if family.startswith("qwen") else SEEING_CONFIGS[family][1]
        settings = copy.deepcopy(next(iter(configs.values())))
        settings["text_config"] |= dict(vocab_size=320, max_position_embeddings=256)
        for key, token in (("image_token_index", self.feature), ("image_token_id", self.feature), ("boi_token_index", "<start_of_image>"),
                           ("eoi_token_index", "<end_of_image>"), ("video_token_id", "<|video_pad|>"),
                           ("vision_start_token_id", "<|vision_start|>"), ("vision_end_token_id", "<|vision_end|>")):
            if key in settings:
                settings[key] = id_of(token)
        self.feature_id, self.images_alone = id_of(self.feature), {id_of(self.place), id_of(self.feature)}
        torch.manual_seed(1)
        model = self.loader.from_config(AutoConfig.for_model(family, **settings))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
                parameter.requires_grad_(trains_tower or not self.TOWER.search(name))
        self.remove(family)
        model.save_pretrained(self.folder / family)
        extra = dict(extra_special_tokens=dict(boi_token=self.place, eoi_token=more[0], image_token=self.feature)) if family == "gemma3" else {}
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>", **extra)
        tokenizer.chat_template = TEMPLATE
        self.processor = self.make_processor(family, model.config, tokenizer)
        self.processor.save_pretrained(self.folder / family)
        tokenizer.save_pretrained(self.folder / family)
        return model.train()

    def make_processor(self, family, config, tokenizer):
        vision = config.vision_config
        if family == "gemma3":
            side = {"height": vision.image_size, "width": vision.image_size}
            return transformers.Gemma3Processor(transformers.Gemma3ImageProcessor(size=side), tokenizer, image_seq_length=config.mm_tokens_per_image)
        if family == "mistral3":
            return transformers.PixtralProcessor(transformers.PixtralImageProcessor(size={"longest_edge": 24}), tokenizer,
                                                 patch_size=vision.patch_size, spatial_merge_size=config.spatial_merge_size)
        if family == "smolvlm":
            smolvlm = transformers.models.smolvlm.processing_smolvlm
            smolvlm.num2words = smolvlm.num2words or str  # of videos alone
            sizes = dict(size={"longest_edge": 2 * vision.image_size}, max_image_size={"longest_edge": vision.image_size})
            return transformers.SmolVLMProcessor(transformers.SmolVLMImageProcessor(**sizes), tokenizer, transformers.SmolVLMVideoProcessor(**sizes),
                                                 image_seq_len=(vision.image_size // vision.patch_size // config.scale_factor) ** 2)
        least = (vision.patch_size * vision.spatial_merge_size) ** 2
        sizes = dict(patch_size=vision.patch_size, merge_size=vision.spatial_merge_size, temporal_patch_size=vision.temporal_patch_size,
                     size=dict(shortest_edge=2 * least, longest_edge=12 * least))
        third = family == "qwen3_vl"
        videos = (transformers.Qwen3VLVideoProcessor if third else transformers.Qwen2VLVideoProcessor)(**sizes)
        return (transformers.Qwen3VLProcessor if third else transformers.Qwen2VLProcessor)(transformers.Qwen2VLImageProcessor(**sizes), tokenizer, videos)

    def write(self):
        """seen.jsonl: rows with an image, with two of other sizes, and with none."""
        draw = numpy.random.default_rng(0)
        rows, self.rows = [], []
        for i in range(12):
            files = []
            for j in range((1, 2, 0)[i % 3]):
                values = draw.integers(0, 255, (int(draw.integers(9, 40)), int(draw.integers(9, 40)), 3), dtype=numpy.uint8)
                files.append(f"seen{i}_{j}.png")
                Image.fromarray(values).save(self.folder / files[-1])
            said, answer = self.texts[i][:24], self.texts[i][24:40]
            if i % 3 == 1:
                parts = [{"type": "image"}, {"type": "text", "text": said}, {"type": "image"}]
                rows.append({"messages": [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}], "images": files})
                self.rows.append(("", f"user: {self.place}\n{said}\n{self.place}\nassistant: {answer}\n", files))
            else:
                rows.append({"prompt": self.place * len(files) + said, "completion": answer} | ({"image": files[0]} if files else {}))
                self.rows.append((self.place * len(files) + said, answer + "</s>", files))
        write_rows(self.folder / "seen.jsonl", rows)

    def processed(self, text, files):
        if not files:
            return {"input_ids": self.processor.tokenizer([text], return_tensors="pt")["input_ids"]}
        images = [Image.open(self.folder / file) for file in files]
        return self.processor(text=[text], images=[images] if self.place == "<image>" else images, return_tensors="pt")

    def loss_of(self, model, indices):
        ids, labels, seen = [], [], {}
        for i in indices:
            before, after, files = self.rows[i]
            given = self.processed(before + after, files)
            ids.append(given["input_ids"][0].tolist())
            prompt = len(os.path.commonprefix([ids[-1], self.processed(before, files)["input_ids"][0].tolist()])) if before else 0
            labels.append([-100 if j < prompt or token in self.images_alone else token for j, token in enumerate(ids[-1])])
            for name in ("pixel_values", "image_sizes", "pixel_attention_mask", "image_grid_thw"):
                if name in given:
                    by_row = model.config.model_type == "smolvlm"
                    seen.setdefault(name, []).append(given[name][0] if by_row else given[name])
        for name, values in seen.items():
            high, wide = (max(v.shape[i] for v in values) for i in (-2, -1))
            if name in ("pixel_values", "pixel_attention_mask") and values[0].dim() > 2:
                values = [torch.nn.functional.pad(v, (0, wide - v.shape[-1], 0, high - v.shape[-2])) for v in values]
            seen[name] = torch.cat(values)[None] if model.config.model_type == "smolvlm" else torch.cat(values)
        width = max(map(len, ids))
        ids = torch.tensor([row + [-1] * (width - len(row)) for row in ids])
        types_of = (ids == self.feature_id).long()
        if model.config.model_type == "gemma3":
            seen["token_type_ids"] = types_of
        elif model.config.model_type.startswith("qwen") and seen:
            seen["mm_token_type_ids"] = types_of
        return model(input_ids=ids.clamp(min=0), attention_mask=(ids >= 0).long(),
                     labels=torch.tensor([row + [-100] * (width - len(row)) for row in labels]), **seen).loss

    def test_the_curve_is_that_of_transformers(self):
        for family, mesh in zip(self.FAMILIES, (*MESHES, *MESHES, *MESHES)):
            model = self.make(family)
            self.write()
            theirs = self.theirs(model, self.loss_of, len(self.rows))
            self.assertLess(theirs[-1], theirs[0])
            for more in ((), mesh):
                with self.subTest(family=family, more=more):
                    self.compare(self.ours(family, "seen", *more), theirs)
                    self.same_model(model)

    def test_the_tower_too(self):
        for family in ("gemma3", "qwen2_5_vl"):
            model = self.make(family, trains_tower=True)
            self.write()
            theirs = self.theirs(model, self.loss_of, len(self.rows), steps=10)
            for more in ((), MESHES[0]):
                with self.subTest(family=family, more=more):
                    self.compare(self.ours(family, "seen", "--set", "freeze_vision_tower=false", *more, steps=10), theirs)

    def test_adapters_leave_the_tower_alone(self):
        for family in ("smolvlm", "qwen3_vl"):
            self.make(family)
            self.write()
            self.ours(family, "seen", "--lora-rank", 2, "--set", "merge_lora_before_save=false", steps=2)
            names = load_file(next((self.folder / "out" / "run-2").rglob("adapter_model.safetensors")))
            with self.subTest(family=family):
                self.assertTrue(any("layers.0.self_attn" in name for name in names))
                self.assertTrue(any("connector" in name or "merger" in name for name in names))
                self.assertFalse([name for name in names if self.TOWER.search(name)])

    def test_killed_and_resumed(self):
        for family in ("qwen2_vl", "smolvlm"):
            with self.subTest(family=family):
                self.make(family)
                self.write()
                self.kill_and_resume(family, "seen")

    def test_from_yaml(self):
        self.make("mistral3")
        self.write()
        for frozen, masks in ((True, True), (False, False)):
            sets = [f"freeze_vision_tower={str(frozen).lower()}", f"mask_image_tokens={str(masks).lower()}"]
            curve = self.ours("mistral3", "seen", *(part for one in sets for part in ("--set", one)), steps=5)
            self.remove("yaml")
            (self.folder / "run.yaml").write_text(json.dumps({
                "model": {"name_or_path": str(self.folder / "mistral3"), "task": "image-text-to-text"},
                "loader": {"device": "cpu"},
                "mixture": {"informs": [{"data_files": str(self.folder / "seen.jsonl")}]},
                "trainer": {"trainer_type": "sft", "save_directory": str(self.folder / "yaml"), "max_training_steps": 5,
                            "total_batch_size": BATCH, "max_length": 128, "learning_rate": RATE, "shuffle_train_dataset": False,
                            "freeze_vision_tower": frozen, "mask_image_tokens": masks, "progress_bar_type": "none"},
                "actions": ["train"]}))
            done = warm_start.run([EASYDEL, "elarge", str(self.folder / "run.yaml")], text=True, timeout=120, env=os.environ | VARIABLES)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.curve("yaml"), curve)

    def test_labels_are_those_of_trls_collator(self):
        """Every token of messages counts, image tokens too unless they are masked."""
        from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

        for family in ("mistral3", "qwen2_5_vl"):
            model = self.make(family)
            place = self.place if family == "mistral3" else f"<|vision_start|>{self.place}<|vision_end|>"
            template = ("{% for m in messages %}{{ m.role }}: {% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}"
                        "{% if part.type == 'image' %}" + place + "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}\n{% endfor %}")
            self.processor.chat_template = self.processor.tokenizer.chat_template = template
            (self.folder / family / "chat_template.jinja").write_text(template)
            draw, rows, seen = numpy.random.default_rng(1), [], []
            for i in range(8):
                files = [f"trl{i}_{j}.png" for j in range(1 + i % 2)]
                for file in files:
                    size = (int(draw.integers(9, 40)), int(draw.integers(9, 40)), 3)
                    Image.fromarray(draw.integers(0, 255, size, dtype=numpy.uint8)).save(self.folder / file)
                messages = [{"role": "user", "content": self.texts[i][:24]}, {"role": "assistant", "content": self.texts[i][24:40]}]
                rows.append({"messages": messages, "images": files})
                seen.append({"messages": messages, "images": [Image.open(self.folder / file) for file in files]})
            write_rows(self.folder / "trl.jsonl", rows)
            collator = DataCollatorForVisionLanguageModeling(self.processor)

            def loss_of(masks):
                def loss(model, indices):
                    batch = dict(collator([copy.deepcopy(seen[i]) for i in indices]))
                    self.assertTrue(all(token in batch["labels"] for token in self.images_alone))
                    for token in self.images_alone if masks else ():
                        batch["labels"][batch["labels"] == token] = -100
                    return model(**batch).loss
                return loss

            start = copy.deepcopy(model.state_dict())
            curves = []
            for masks in (True, False):
                with self.subTest(family=family, masks=masks):
                    model.load_state_dict(start)
                    curves.append(self.theirs(model, loss_of(masks), len(rows), steps=10))
                    self.compare(self.ours(family, "trl", "--set", f"mask_image_tokens={str(masks).lower()}", steps=10), curves[-1])
            self.assertGreater(abs(curves[0][0] - curves[1][0]), 1e-2)


if __name__ == "__main__":
    unittest.main()
