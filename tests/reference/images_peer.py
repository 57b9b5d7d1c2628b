"""The other side of the tests of image processors: draws images, and what transformers' torchvision backend makes of them.

usage: images_peer.py write|videos DIRECTORY COUNT SEED

DIRECTORY/images has the files; DIRECTORY/NAME, for each processor, a preprocessor_config.json (or processor_config.json) and
expected.safetensors with the pixel_values of every file, under the file's name, but of those that transformers cannot resize; decoded.safetensors the RGB colours of every
file as Pillow sees them: upright, over white. DIRECTORY/videos has folders of frames and animations, cases.json what frames each video
processor picks and what the text becomes, and expected.safetensors the frames and the pixels; DIRECTORY/videos/animations has GIF files alone."""

import json
import os
import pathlib
import random
import struct
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
    """With a tokenizer: they say what images are in a text."""
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


def write_prompts(directory: pathlib.Path, images: dict) -> None:
    """DIRECTORY/prompts/NAME has a processor's files, and texts.json what each image becomes."""
    for name, (processor, options) in whole_processors().items():
        processor.save_pretrained(directory / "prompts" / name)
        texts = {}
        for file, image in images.items():
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
    images = directory / "images"
    images.mkdir(parents=True)
    names = [draw(rng, images, i) for i in range(count)]
    upright = {name: ImageOps.exif_transpose(Image.open(images / name)) for name in names}
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
            # What takes images as they are is given them as pipelines do, by load_image.
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


def words_of(number: int) -> str:
    """num2words, which is not installed, of the counts that are drawn."""
    known = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve",
             13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen", 17: "seventeen", 18: "eighteen", 19: "nineteen"}
    tens = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 70: "seventy", 80: "eighty", 90: "ninety"}
    if number < 20:
        return known[number]
    return tens[number // 10 * 10] + (f"-{known[number % 10]}" if number % 10 else "")


SMALL = dict(patch_size=4, merge_size=2)
VIDEOS = {  # a processor, its video processor, and settings
    "qwen2": ("Qwen2VLProcessor", "Qwen2VLVideoProcessor", dict(size={"shortest_edge": 300, "longest_edge": 900}, **SMALL)),
    "qwen2-sampled": ("Qwen2VLProcessor", "Qwen2VLVideoProcessor", dict(do_sample_frames=True, fps=3, min_frames=2, max_frames=9, min_pixels=200,
                                                                          max_pixels=2000, cap_pixels_per_frame=True, max_video_tokens=90, **SMALL)),
    "qwen2-count": ("Qwen2VLProcessor", "Qwen2VLVideoProcessor", dict(do_sample_frames=True, num_frames=3, size={"shortest_edge": 64, "longest_edge": 4000}, **SMALL)),
    "qwen2.5": ("Qwen2_5_VLProcessor", "Qwen2VLVideoProcessor", dict(size={"shortest_edge": 300, "longest_edge": 900}, **SMALL)),
    "qwen2.5-sampled": ("Qwen2_5_VLProcessor", "Qwen2VLVideoProcessor", dict(do_sample_frames=True, fps=1.7, min_frames=2, max_frames=9,
                                                                            size={"shortest_edge": 64, "longest_edge": 4000}, **SMALL)),
    "qwen3": ("Qwen3VLProcessor", "Qwen3VLVideoProcessor", dict(size={"shortest_edge": 3000, "longest_edge": 9000}, **SMALL)),
    "qwen3-capped": ("Qwen3VLProcessor", "Qwen3VLVideoProcessor", dict(size={"shortest_edge": 400, "longest_edge": 3000}, max_frames=5, fps=4.5,
                                                                      cap_pixels_per_frame=True, max_video_tokens=4, **SMALL)),
    "smolvlm": ("SmolVLMProcessor", "SmolVLMVideoProcessor", dict(size={"longest_edge": 50}, max_image_size={"longest_edge": 24})),
    "smolvlm-sampled": ("SmolVLMProcessor", "SmolVLMVideoProcessor", dict(do_sample_frames=True, max_image_size={"longest_edge": 16}, video_sampling=dict(
        fps=1.5, max_frames=4, video_size={"longest_edge": 40}))),
}


def draw_gif(rng: random.Random) -> bytes:
    """An animation of parts that are cleared, restored or kept, with colours of their own or not, as no encoder at hand writes it."""
    colors = lambda: bytes(rng.randrange(256) for _ in range(3 * 128))  # noqa: E731
    wide, high = rng.randint(3, 20), rng.randint(3, 20)
    out = b"GIF89a" + struct.pack("<HHBBB", wide, high, 0x86, rng.choice([0, rng.randrange(16)]), 0) + colors()
    for i in range(rng.randint(2, 6)):
        w, h = (wide, high) if i == 0 and rng.random() < 0.5 else (rng.randint(1, wide), rng.randint(1, high))
        if rng.random() < 0.85:
            is_clear = rng.random() < 0.5
            out += b"!\xf9\x04" + struct.pack("<BHBB", rng.choice([0, 1, 2, 3]) << 2 | is_clear, 10, rng.randrange(16), 0)
        is_local, is_interlaced = rng.random() < 0.3, rng.random() < 0.3
        out += b"," + struct.pack("<HHHHB", rng.randint(0, wide - w), rng.randint(0, high - h), w, h, 0x86 * is_local | 0x40 * is_interlaced)
        out += colors() * is_local
        # Codes of eight bits, as long as the table is cleared in time.
        codes = b"".join(b"\x80" + bytes(rng.randrange(16) for _ in range(min(100, w * h - at))) for at in range(0, w * h, 100)) + b"\x81"
        out += b"\x07" + b"".join(bytes([len(codes[at:at + 255])]) + codes[at:at + 255] for at in range(0, len(codes), 255)) + b"\0"
    return out + b";"


def frames_of(path: pathlib.Path) -> list:
    """As Pillow shows them."""
    opened, images = Image.open(path), []
    for n in range(opened.n_frames):
        opened.seek(n)
        images.append(opened.convert("RGB"))
    return images


def stacked(images: list) -> torch.Tensor:
    return torch.from_numpy(np.stack([np.asarray(image) for image in images])).permute(0, 3, 1, 2).contiguous()


def write_videos(directory: pathlib.Path, count: int, seed: int) -> None:
    rng, root = random.Random(seed), directory / "videos"
    root.mkdir(parents=True)
    videos, tensors = {}, {}
    (root / "animations").mkdir()
    for i in range(100):
        path = root / "animations" / f"{i}.gif"
        path.write_bytes(draw_gif(rng))
        tensors[f"animations/{i}.gif"] = stacked(frames_of(path))
    for i in range(count):
        frames, high, wide = rng.choice([2, 4, 5, 8, 13, 26]), rng.randint(20, 60), rng.randint(20, 60)
        images = [Image.fromarray(pixels(rng, high, wide, 3)) for _ in range(frames)]
        kind = ("folder", "gif", "webp")[i % 3]
        if kind == "folder":
            name, fps = f"{i}", rng.choice([1.0, 4.0, 7.5, 24.0, 29.97])
            (root / name).mkdir()
            for n, image in enumerate(images):
                image.save(root / name / f"frame{n + 1}.png")
        else:
            name, stays = f"{i}.{kind}", [10 * rng.randint(1, 60) for _ in images]
            fps = frames / (sum(stays) / 1000)
            if kind == "gif":  # images of which only a part changes, or that leave what was there
                kept = images[0].copy()
                for n, image in enumerate(images):
                    kept.paste(image.crop((0, 0, wide // 2, high // 3)), (rng.randrange(wide // 2), rng.randrange(high // 2)))
                    images[n] = kept.copy()
                images = [image.quantize(200) for image in images]
            # All colours differ: no frame is joined with the one before it.
            images[0].save(root / name, save_all=True, append_images=images[1:], duration=stays, loop=0,
                             **({"disposal": rng.choice([0, 1, 2, 3])} if kind == "gif" else {"lossless": True}))
            images = frames_of(root / name)
            assert len(images) == frames, (name, len(images), frames)
        video = stacked(images)
        videos[name] = (video, fps)
        tensors[name] = video
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    transformers.models.smolvlm.processing_smolvlm.num2words = words_of
    cases = {}
    for folder, (kind, video_kind, settings) in VIDEOS.items():
        images = transformers.SmolVLMImageProcessor() if kind == "SmolVLMProcessor" else transformers.Qwen2VLImageProcessor(**SMALL)
        more = {"image_seq_len": 2} if kind == "SmolVLMProcessor" else {}
        processor = getattr(transformers, kind)(images, tokenizer, getattr(transformers, video_kind)(**json.loads(json.dumps(settings))), **more)
        processor.save_pretrained(root / "processors" / folder)
        if folder == "qwen2-sampled":  # as files of the hub have it
            saved = json.loads((root / "processors" / folder / "processor_config.json").read_text())
            (root / "processors" / folder / "video_preprocessor_config.json").write_text(json.dumps(saved.pop("video_processor")))
            (root / "processors" / folder / "processor_config.json").write_text(json.dumps(saved))
        for name, (video, fps) in videos.items():
            metadata = transformers.video_utils.VideoMetadata(total_num_frames=len(video), fps=fps, duration=len(video) / fps,
                                                              frames_indices=list(range(len(video))))
            try:
                out = processor.video_processor(video, video_metadata=[metadata], return_metadata=True, return_tensors="pt")
            except ValueError:  # it has fewer frames than are asked for
                cases.setdefault(folder, {})[name] = None
                continue
            indices = [int(i) for i in metadata.frames_indices]  # the text may repeat the last one
            text = processor.replace_video_token(out, 0)
            if folder.startswith("qwen2.5"):
                metadata.frames_indices = list(range(len(video)))  # which the processor has changed
                whole, _ = processor._process_videos([video], video_metadata=[metadata], return_metadata=True, return_tensors="pt")
                tensors[f"{folder}.{name}.seconds"] = torch.tensor(whole["second_per_grid_ts"])
            pixel_values = out["pixel_values_videos"] if "pixel_values_videos" in out else out["pixel_values"][0]
            tensors[f"{folder}.{name}"] = pixel_values.contiguous()
            if "video_grid_thw" in out:
                tensors[f"{folder}.{name}.grid"] = out["video_grid_thw"]
            cases.setdefault(folder, {})[name] = {"fps": fps, "text": text, "indices": indices}
    (root / "cases.json").write_text(json.dumps(cases))
    save_file(tensors, root / "expected.safetensors")


if __name__ == "__main__":
    {"write": write, "videos": write_videos}[sys.argv[1]](pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
