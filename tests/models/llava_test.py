"""Tiny random LLaVA models, made by transformers, and the same files run by easydel: logits, loss, gradients, files, and
the tokens that `easydel generate --image` gives. usage: llava_test.py EASYDEL RESAVE_PROGRAM"""

import json
import os
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
# Where scripts/setup.sh puts it. The wheel is a CUDA build, whose operators a CPU torch lacks; none of them is used.
sys.path.insert(0, str(pathlib.Path(sys.prefix) / "torchvision"))
sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")

import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from vision_configs import LLAVA_CONFIGS as CONFIGS  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

EASYDEL, RESAVE = sys.argv[1:3]
TOLERANCE = 1e-4
WORDS = ["<pad>", "<s>", "</s>", "<unk>", "what", "<image>", "is", "this", "a", "cat", "USER:", "ASSISTANT:", "?"]


def make(settings: dict, seed: int = 0):
    torch.manual_seed(seed)
    config = transformers.LlavaConfig(**settings)
    config._attn_implementation = "eager"
    model = transformers.LlavaForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model.eval()


def features(model) -> int:
    vision = model.config.vision_config
    count = (vision.image_size // vision.patch_size) ** 2 + (vision.model_type == "clip_vision_model")
    return count - (model.config.vision_feature_select_strategy == "default")


def make_batch(model) -> dict[str, torch.Tensor]:
    """A row with two pictures, one without, one with one; padding on the left."""
    draw = torch.Generator().manual_seed(3)
    image = model.config.image_token_index
    picture = [image] * features(model)
    rows = [[7] + picture + [8, 9] + picture + [10], [11, 12, 13, 14], picture + [15, 16]]
    length = max(map(len, rows)) + 1
    ids = torch.tensor([[0] * (length - len(row)) + row for row in rows])
    mask = ids.ne(0).long()
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    labels = ids.masked_fill((ids == 0) | (ids == image), -100)
    for row, line in enumerate(rows):
        labels[row, length - len(line)] = -100  # predicted by padding
    pixels = torch.randn(3, 3, model.config.vision_config.image_size, model.config.vision_config.image_size, generator=draw)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "labels": labels, "pixel_values": pixels}


def run(*command: str) -> str:
    done = warm_start.run([EASYDEL, "--log", "error", *command], text=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def forward(directory: pathlib.Path, batch: dict, *args: str) -> dict[str, torch.Tensor]:
    save_file({name: tensor.contiguous() for name, tensor in batch.items()}, directory / "in.safetensors")
    run("forward", str(directory), "--input", str(directory / "in.safetensors"), "--output", str(directory / "out.safetensors"), *args)
    return load_file(directory / "out.safetensors")


def error_of(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    scale = theirs.double().abs().max().item() or 1.0
    return (ours.double() - theirs.double()).abs().max().item() / scale


def write_processor(model, directory: pathlib.Path) -> transformers.LlavaProcessor:
    words = [w for w in WORDS if w != "<image>"]
    words.insert(model.config.image_token_index, "<image>")
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    inner.add_special_tokens(["<image>"])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")
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
        batch = make_batch(model)
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            ours = forward(directory, batch, "--grad", *args)
            theirs = model(**batch)
            keep = batch["attention_mask"].bool()
            errors = {"loss": error_of(ours["loss"], theirs.loss), "logits": error_of(ours["logits"][keep], theirs.logits[keep]),
                      "image_hidden_states": error_of(ours["image_hidden_states"], theirs.image_hidden_states)}
            theirs.loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.copy_(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
            model.save_pretrained(directory / "grads")
            gradients = load_file(directory / "grads" / "model.safetensors")
            self.assertEqual({k[5:] for k in ours if k.startswith("grad.")}, set(gradients))
            for name, gradient in gradients.items():
                # A bias of all keys changes no softmax: its gradient is zero but for rounding.
                is_zero = name.endswith("k_proj.bias") and "vision_tower" in name
                mine = ours[f"grad.{name}"]
                errors[f"grad.{name}"] = (mine - gradient).abs().max().item() if is_zero else error_of(mine, gradient)
            self.assertFalse({k: v for k, v in errors.items() if not v < TOLERANCE}, args)

    def test_logits_loss_and_gradients(self):
        for name, settings in CONFIGS.items():
            with self.subTest(config=name):
                self.compare(settings)

    def test_a_mesh_gives_the_same(self):
        for mesh, settings in zip(("2,1,1,2,1", "1,4,1,1,1"), CONFIGS.values()):
            with self.subTest(mesh=mesh):
                self.compare(settings, "--devices", "4", "--mesh", mesh)

    def test_saved_again_it_is_the_same_model_and_all_names_are_read(self):
        for name, settings in CONFIGS.items():
            model = make(settings)
            with self.subTest(config=name), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                source, target = pathlib.Path(folder) / "theirs", pathlib.Path(folder) / "ours"
                model.save_pretrained(source)
                done = warm_start.run([RESAVE, str(source), str(target)], text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                again, info = transformers.LlavaForConditionalGeneration.from_pretrained(target, output_loading_info=True)
                self.assertFalse({k: v for k, v in info.items() if v})
                self.assertTrue(all(torch.equal(v, model.state_dict()[k]) for k, v in again.state_dict().items()))
                self.assertEqual(json.loads((target / "config.json").read_text()), json.loads((source / "config.json").read_text()))
                batch = make_batch(model)
                expected = model(**batch).logits
                saved = load_file(source / "model.safetensors")
                hub = {k.replace("vision_tower.", "vision_tower.vision_model."): v for k, v in saved.items()}
                memory = {k: v.contiguous() for k, v in model.state_dict().items() if not (k == "lm_head.weight" and model.config.tie_word_embeddings)}
                for kind, tensors in (("hub", hub), ("memory", memory)):
                    save_file(tensors, source / "model.safetensors", {"format": "pt"})
                    ours = forward(source, batch)["logits"]
                    keep = batch["attention_mask"].bool()
                    self.assertLess(error_of(ours[keep], expected[keep]), TOLERANCE, kind)

    def test_generates_what_transformers_generates(self):
        for name, settings in CONFIGS.items():
            model = make(settings, seed=4)
            with self.subTest(config=name), tempfile.TemporaryDirectory() as folder, torch.no_grad():
                directory = pathlib.Path(folder)
                model.save_pretrained(directory)
                processor = write_processor(model, directory)
                draw = np.random.default_rng(1)
                files = []
                for i, (height, width) in enumerate(((30, 20), (9, 33))):
                    files.append(str(directory / f"{i}.png"))
                    Image.fromarray(draw.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(files[-1])
                prompt = "USER: <image> what is this ? <image> a cat ? ASSISTANT:"
                inputs = processor(images=[Image.open(f) for f in files], text=prompt, return_tensors="pt")
                for options, more in (({}, ()), ({"num_beams": 3}, ("--num-beams", "3")), ({"use_cache": False}, ("--no-use-cache",))):
                    theirs = model.generate(**inputs, max_new_tokens=9, do_sample=False, **options)[0, inputs["input_ids"].shape[1] :].tolist()
                    ours = json.loads(run("generate", str(directory), "--prompt", prompt, "--image", files[0], "--image", files[1],
                                          "--max-new-tokens", "9", "--json", *more))
                    self.assertEqual(ours["prompt_length"], inputs["input_ids"].shape[1])
                    self.assertEqual(ours["sequences"][0]["ids"], theirs, more)

    def test_wrong_counts_are_one_clear_line(self):
        model = make(CONFIGS["llama behind clip"])
        with tempfile.TemporaryDirectory() as folder:
            directory = pathlib.Path(folder)
            model.save_pretrained(directory)
            write_processor(model, directory)
            Image.new("RGB", (20, 20)).save(directory / "a.png")
            with self.assertRaisesRegex(AssertionError, "the text must have a placeholder <image> for each picture; got 0 for 1"):
                run("generate", folder, "--prompt", "what is this", "--image", str(directory / "a.png"))
            with self.assertRaisesRegex(AssertionError, "--image needs --prompt or --prompt-file"):
                run("generate", folder, "--input-ids", "1,2", "--image", str(directory / "a.png"))
            batch = make_batch(model)
            batch["pixel_values"] = batch["pixel_values"][:2]
            with self.assertRaisesRegex(AssertionError, "each picture needs 9 placeholders of image_token_index 5, 18 for 2; got 27"):
                forward(directory, batch)


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
