"""The other side of the tests of image processors: draws pictures, and what transformers' torchvision backend makes of them.

usage: images_peer.py write DIRECTORY COUNT SEED

DIRECTORY/pictures has the files; DIRECTORY/NAME, for each processor, a preprocessor_config.json (or processor_config.json) and
expected.safetensors with the pixel_values of every file, under the file's name, but of those that transformers cannot resize; decoded.safetensors the RGB colours of every
file as Pillow sees them: upright, over white."""

import json
import os
import pathlib
import random
import sys
import types

os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Where scripts/setup.sh puts it. The wheel is a CUDA build, whose operators a CPU torch lacks; none of them is used.
sys.path.insert(0, str(pathlib.Path(sys.prefix) / "torchvision"))
sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")

import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image, ImageOps  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from transformers.image_transforms import convert_to_rgb  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()

CROPS = {"pan_and_scan_min_crop_size": 20, "pan_and_scan_max_num_crops": 3, "pan_and_scan_min_ratio_to_activate": 1.3}
PROCESSORS = {
    "clip": ("CLIPImageProcessor", {}),
    "clip-small": ("CLIPImageProcessor", {"size": {"shortest_edge": 40}, "crop_size": {"height": 48, "width": 36}}),
    "siglip": ("SiglipImageProcessor", {"size": {"height": 56, "width": 72}}),
    "vit": ("ViTImageProcessor", {"size": {"height": 32, "width": 32}}),
    "vit-plain": ("ViTImageProcessor", {"size": 24, "resample": 3, "do_normalize": False}),
    "vit-raw": ("ViTImageProcessor", {"size": {"height": 20, "width": 30}, "resample": 0, "do_rescale": False}),
    "dinov2": ("BitImageProcessor", {"size": {"shortest_edge": 64}, "crop_size": 56, "image_mean": [0.485, 0.456, 0.406],
                                     "image_std": [0.229, 0.224, 0.225]}),
    "llava": ("LlavaImageProcessor", {"size": {"shortest_edge": 42}, "crop_size": 42}),
    "llava-square": ("LlavaImageProcessor", {"size": {"shortest_edge": 42}, "crop_size": 42, "do_pad": True}),
    "gemma3": ("Gemma3ImageProcessor", {"size": {"height": 42, "width": 42}}),
    "gemma3-crops": ("Gemma3ImageProcessor", {"size": {"height": 28, "width": 28}, "do_pan_and_scan": True, **CROPS}),
    "pixtral": ("PixtralImageProcessor", {"patch_size": 14}),
    "pixtral-small": ("PixtralImageProcessor", {"size": {"longest_edge": 90}, "patch_size": {"height": 8, "width": 6}}),
    "pixtral-edges": ("PixtralImageProcessor", {"size": {"height": 60, "width": 120}, "patch_size": 10}),
    "smolvlm": ("SmolVLMImageProcessor", {"size": {"longest_edge": 96}, "max_image_size": {"longest_edge": 32}}),
    "smolvlm-whole": ("SmolVLMImageProcessor", {"size": {"longest_edge": 80}, "max_image_size": {"longest_edge": 40}, "do_image_splitting": False}),
    "qwen": ("Qwen2VLImageProcessor", {"size": {"shortest_edge": 5000, "longest_edge": 20000}}),
    "qwen-pixels": ("Qwen2VLImageProcessor", {"min_pixels": 1000, "max_pixels": 4000, "patch_size": 6, "merge_size": 3, "temporal_patch_size": 1,
                                              "image_mean": [0.5, 0.4, 0.3], "image_std": [0.5, 0.5, 0.25]}),
    "bit-edges": ("BitImageProcessor", {"size": {"shortest_edge": 30, "longest_edge": 300}, "crop_size": 32}),
}


def whole_processors() -> dict:
    """With a tokenizer: they say what pictures are in a text."""
    extra = {"boi_token": "<begin>", "eoi_token": "<end>", "image_token": "<soft>"}
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    make = lambda **more: transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", **more)  # noqa: E731
    smolvlm = transformers.models.smolvlm.processing_smolvlm
    smolvlm.num2words = smolvlm.num2words or str  # of videos alone
    return {
        "gemma3": (transformers.Gemma3Processor(transformers.Gemma3ImageProcessor(), make(extra_special_tokens=extra), image_seq_length=3),
                   {"do_pan_and_scan": True, **CROPS}),
        "mistral3": (transformers.PixtralProcessor(transformers.PixtralImageProcessor(size={"longest_edge": 300}), make(), patch_size=7, spatial_merge_size=2),
                     {"patch_size": 14}),
        "smolvlm": (transformers.SmolVLMProcessor(
            transformers.SmolVLMImageProcessor(size={"longest_edge": 96}, max_image_size={"longest_edge": 32}), make(),
            transformers.SmolVLMVideoProcessor(), image_seq_len=2), {"return_row_col_info": True}),
    }


def write_prompts(directory: pathlib.Path, pictures: dict) -> None:
    """DIRECTORY/prompts/NAME has a processor's files, and texts.json what each picture becomes."""
    for name, (processor, options) in whole_processors().items():
        processor.save_pretrained(directory / "prompts" / name)
        texts = {}
        for file, image in pictures.items():
            texts[file] = processor.replace_image_token(processor.image_processor(image, return_tensors="pt", **options), 0)
        (directory / "prompts" / name / "texts.json").write_text(json.dumps(texts))


def pixels(rng: random.Random, height: int, width: int, channels: int) -> np.ndarray:
    """Smooth enough for a codec, uneven enough to tell two resamplings apart."""
    draw = np.random.default_rng(rng.getrandbits(32))
    y, x = np.mgrid[0:height, 0:width]
    waves = [127 + 90 * np.sin(x * draw.uniform(0.01, 0.7) + y * draw.uniform(0.01, 0.7) + draw.uniform(0, 6)) for _ in range(channels)]
    return np.clip(np.stack(waves, -1) + draw.normal(0, 18, (height, width, channels)), 0, 255).astype(np.uint8)


def draw(rng: random.Random, path: pathlib.Path, i: int) -> str:
    height, width = (rng.choice([1, 2, 5, 17, 30, 42, 64, 101, 150, rng.randint(3, 260)]) for _ in range(2))
    kind = rng.choice(["jpeg", "jpeg", "jpeg", "png", "png", "png", "webp", "webp", "gif", "bmp"])
    mode = rng.choice({"jpeg": ["RGB", "RGB", "L", "CMYK"], "png": ["RGB", "RGBA", "L", "LA", "P", "1", "I;16", "P+", "L+", "RGB+"],
                       "webp": ["RGB", "RGBA"], "gif": ["P", "P+", "L"], "bmp": ["RGB", "L", "P", "1", "RGBA"]}[kind])
    base = {"1": "L", "P": "RGB", "P+": "RGB", "L+": "L", "RGB+": "RGB", "LA": "LA"}.get(mode, mode)
    options: dict = {}
    if mode == "I;16":
        values = pixels(rng, height, width, 1)[..., 0].astype(np.uint16) * 256 + rng.randrange(256)
        image = Image.fromarray(values)
    else:
        channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[base]
        values = pixels(rng, height, width, channels)
        image = Image.fromarray(values[..., 0] if channels == 1 else values, base)
    if mode in ("P", "P+"):
        image = image.quantize(rng.choice([2, 5, 16, 100, 256]))
    if mode == "1":
        image = image.convert("1")
    if mode == "P+":
        options["transparency"] = rng.randrange(2) if kind == "gif" or rng.random() < 0.5 else bytes(rng.randrange(256) for _ in range(2))
    if mode == "L+":
        options["transparency"] = int(values[0, 0, 0])
    if mode == "RGB+":
        options["transparency"] = tuple(int(v) for v in values[0, 0])
    if kind == "jpeg":
        options |= {"quality": rng.choice([30, 75, 95]), "progressive": rng.random() < 0.3}
        if mode == "RGB":
            options["subsampling"] = rng.choice([0, 1, 2])
    if kind == "webp":
        options |= {"lossless": rng.random() < 0.4, "quality": rng.choice([30, 80])}
    if kind == "gif":
        options["interlace"] = rng.random() < 0.5
        if rng.random() < 0.3:  # an animation
            options |= {"save_all": True, "append_images": [image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)]}
    if kind in ("jpeg", "png", "webp") and rng.random() < 0.5:
        exif = Image.Exif()
        exif[0x010F] = "somebody"
        exif[0x0112] = rng.randint(1, 8)
        options["exif"] = exif
    name = f"{i:03d}-{mode.replace(';', '').replace('+', '-clear')}.{kind}"
    image.save(path / name, **options)
    return name


def write(directory: pathlib.Path, count: int, seed: int) -> None:
    rng = random.Random(seed)
    pictures = directory / "pictures"
    pictures.mkdir(parents=True)
    names = [draw(rng, pictures, i) for i in range(count)]
    upright = {name: ImageOps.exif_transpose(Image.open(pictures / name)) for name in names}
    rgb = {name: torch.from_numpy(convert_to_rgb(image, return_numpy=True)).permute(2, 0, 1) for name, image in upright.items()}
    save_file({name: tensor.contiguous() for name, tensor in rgb.items()}, directory / "decoded.safetensors")
    for number, (folder, (kind, settings)) in enumerate(PROCESSORS.items()):
        processor = getattr(transformers, kind)(**settings)
        assert processor.backend == "torchvision", processor.backend
        processor.save_pretrained(directory / folder)
        file = directory / folder / "preprocessor_config.json"
        saved = json.loads(file.read_text())
        if number % 3 == 1:  # nested, as processors with a tokenizer are saved
            (directory / folder / "processor_config.json").write_text(json.dumps({"image_processor": saved}))
            file.unlink()
        elif number % 3 == 2:  # as it was given: what is not said is the class's
            file.write_text(json.dumps({"image_processor_type": kind + "Fast", **settings}))
        expected = {}
        for name in names:
            # What takes pictures as they are is given them as pipelines do, by load_image.
            image = upright[name] if processor.do_convert_rgb else upright[name].convert("RGB")
            if kind == "Qwen2VLImageProcessor":
                if max(image.size) <= 200 * min(image.size):  # it refuses the others
                    out = processor(image, return_tensors="pt")
                    expected |= {name: out["pixel_values"].contiguous(), f"{name}.grid": out["image_grid_thw"]}
                continue
            try:
                pixel_values = processor(image, return_tensors="pt")["pixel_values"]
                expected[name] = (pixel_values[0] if pixel_values.dim() == 5 else pixel_values).contiguous()
            except ValueError:
                assert kind == "PixtralImageProcessor", (kind, name)  # a side of nothing: a file without what is expected
        save_file(expected, directory / folder / "expected.safetensors")
    write_prompts(directory, dict(list(upright.items())[:30]))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
