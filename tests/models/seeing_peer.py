"""What the tests of decoders that see share: transformers with torchvision, and what runs easydel beside it. A program that
imports it has the arguments EASYDEL RESAVE_PROGRAM."""

import json
import pathlib
import sys
import tempfile
import types

# Where scripts/setup.sh puts it. The wheel is a CUDA build, whose operators a CPU torch lacks; none of them is used.
sys.path.insert(0, str(pathlib.Path(sys.prefix) / "torchvision"))
sys.modules["torchvision._meta_registrations"] = types.ModuleType("torchvision._meta_registrations")

import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from model_peer import (EASYDEL, TOLERANCE, error_of, forward, gradients_of, run, spread, warm_start)  # noqa: E402, F401

RESAVE = sys.argv[2]
SPECIAL = dict(bos_token="<s>", eos_token="</s>", unk_token="<unk>", pad_token="<pad>")


def gradient_errors(ours: dict[str, torch.Tensor], loss: torch.Tensor, model, directory: pathlib.Path) -> dict[str, float]:
    """Of every parameter, under the names that saving writes. It overwrites the model."""
    loss.backward()
    theirs = gradients_of(model, directory)
    assert {k[5:] for k in ours if k.startswith("grad.")} == set(theirs)
    errors = {}
    for name, gradient in theirs.items():
        mine = ours[f"grad.{name}"]
        # A bias of all keys changes no softmax: its gradient is zero but for rounding.
        is_zero = name.endswith("k_proj.bias") and "vision" in name
        errors[f"grad.{name}"] = (mine - gradient).abs().max().item() if is_zero else error_of(mine, gradient)
    return errors


def compare(case, model, batch: dict, *args: str, forward=forward, features: torch.Tensor | None = None) -> None:
    """Loss, logits, every gradient, and the features of images: the model's own answer has them unless they are given."""
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        model.save_pretrained(directory)
        ours = forward(directory, batch, "--grad", *args)
        theirs = model(**batch)
        keep = batch["attention_mask"].bool()
        errors = {"loss": error_of(ours["loss"], theirs.loss), "logits": error_of(ours["logits"][keep], theirs.logits[keep])}
        seen = theirs.image_hidden_states if features is None else features
        if isinstance(seen, torch.Tensor):
            errors["image_hidden_states"] = error_of(ours["image_hidden_states"], seen)
        if getattr(theirs, "rope_deltas", None) is not None:
            case.assertTrue(torch.equal(ours["rope_deltas"], theirs.rope_deltas))
        errors |= gradient_errors(ours, theirs.loss, model, directory)
        case.assertFalse({k: v for k, v in errors.items() if not v < TOLERANCE}, args)


def in_memory(model) -> dict[str, torch.Tensor]:
    """The weights under the names of the model's memory; a tied head is not a weight of its own."""
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    return {k: v.contiguous() for k, v in model.state_dict().items() if k not in tied}


def resaves_and_reads_all_names(case, model, batch: dict, name_on_hub) -> None:
    """`name_on_hub` makes the name in files of the hub from that of transformers' files."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        source, target = pathlib.Path(folder) / "theirs", pathlib.Path(folder) / "ours"
        resave(case, model, source, target)
        expected, keep = model(**batch).logits[batch["attention_mask"].bool()], batch["attention_mask"].bool()
        hub = {name_on_hub(k): v for k, v in load_file(source / "model.safetensors").items()}
        for kind, tensors in (("hub", hub), ("memory", in_memory(model))):
            save_file(tensors, source / "model.safetensors", {"format": "pt"})
            case.assertLess(error_of(forward(source, batch)["logits"][keep], expected), TOLERANCE, kind)


def word_tokenizer(words: list[str] | dict[str, int], special: list[str], begins: bool = True, **tokens):
    """A token for each word, behind <s> if it `begins` so."""
    ids = words if isinstance(words, dict) else {w: i for i, w in enumerate(words)}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    if begins:
        inner.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    inner.add_special_tokens(special)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, **SPECIAL, **tokens)


def resave(case, model, source: pathlib.Path, target: pathlib.Path) -> None:
    """What easydel makes of transformers' files is the same model to transformers, with the same config."""
    model.save_pretrained(source)
    done = warm_start.run([RESAVE, str(source), str(target)], text=True)
    case.assertEqual((done.returncode, done.stderr), (0, ""))
    again, info = type(model).from_pretrained(target, output_loading_info=True)
    case.assertFalse({k: v for k, v in info.items() if v})
    case.assertTrue(all(torch.equal(v, model.state_dict()[k]) for k, v in again.state_dict().items()))
    case.assertEqual(json.loads((target / "config.json").read_text()), json.loads((source / "config.json").read_text()))


def draw_files(directory: pathlib.Path) -> list[str]:
    """Two images of different sizes."""
    draw, files = np.random.default_rng(1), []
    for i, (height, width) in enumerate(((30, 20), (9, 33))):
        files.append(str(directory / f"{i}.png"))
        Image.fromarray(draw.integers(0, 255, (height, width, 3), dtype=np.uint8)).save(files[-1])
    return files


def draw_frames(directory: pathlib.Path, count: int = 5) -> str:
    """A folder of frames."""
    draw, folder = np.random.default_rng(2), directory / "frames"
    folder.mkdir()
    for i in range(count):
        Image.fromarray(draw.integers(0, 255, (24, 33, 3), dtype=np.uint8)).save(folder / f"{i:02}.png")
    return str(folder)


def same_answer_about_a_video(case, model, processor, directory: pathlib.Path, prompt: str, fps: float | None, *flags: str, count: int = 5, **kept) -> None:
    """The tokens of transformers, greedy, by beams and without a cache."""
    folder = draw_frames(directory, count)
    frames = torch.stack([torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1) for file in sorted(pathlib.Path(folder).iterdir())])
    metadata = transformers.video_utils.VideoMetadata(total_num_frames=len(frames), fps=fps, duration=fps and len(frames) / fps,
                                                      frames_indices=list(range(len(frames))))
    # SmolVLM's wants those of each text.
    videos = [[frames]] if model.config.model_type == "smolvlm" else [frames]
    inputs = processor(videos=videos, video_metadata=[metadata], text=prompt, return_tensors="pt")
    if model.config.model_type.startswith("qwen"):
        inputs.pop("token_type_ids", None)
    length, rate = inputs["input_ids"].shape[1], ("--fps", str(fps)) if fps else ()
    for options, more in (({}, ()), ({"num_beams": 3}, ("--num-beams", "3")), ({"use_cache": False}, ("--no-use-cache",))):
        theirs = model.generate(**inputs, max_new_tokens=9, do_sample=False, **kept, **options)[0, length:].tolist()
        ours = json.loads(run("generate", str(directory), "--prompt", prompt, "--video", folder, *rate, "--max-new-tokens", "9", *flags, "--json", *more))
        case.assertEqual(ours["prompt_length"], length)
        case.assertEqual(ours["sequences"][0]["ids"], theirs, more)


def in_half_precision(case, model, batch: dict, forward) -> None:
    """The logits are as near to those in float32 as transformers' are. The median token: a near tie falls either way."""
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        batch = {k: v for k, v in batch.items() if k != "labels"}
        model.to(torch.bfloat16).save_pretrained(folder)
        ours = forward(pathlib.Path(folder), batch, "--dtype", "bf16")["logits"].float()
        in_type = lambda dtype: {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()}  # noqa: E731
        exact, rounded = (type(model).from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()(**in_type(dtype)).logits.float()
                          for dtype in (torch.float32, torch.bfloat16))
        keep = batch["attention_mask"].bool()
        mine, theirs = ((x - exact)[keep].pow(2).mean(-1).sqrt().median().item() for x in (ours, rounded))
        # Both are rounding noise of one size; a quarter more is chance, a missing float32 would be twice.
        case.assertLess(mine, 1.25 * theirs)


def same_scores(case, model, inputs, directory: pathlib.Path, *flags: str, **kept) -> None:
    """Sampling chooses the first token among the same ones, with the same scores."""
    options = dict(temperature=0.7, top_k=6, top_p=0.9)
    theirs = model.generate(**inputs, max_new_tokens=1, do_sample=True, output_scores=True, return_dict_in_generate=True, **options, **kept).scores[0]
    run("generate", str(directory), *flags, "--max-new-tokens", "2", "--do-sample", "--temperature", "0.7", "--top-k", "6", "--top-p", "0.9",
        "--output-scores", "--output", str(directory / "out.safetensors"))
    ours = load_file(directory / "out.safetensors")["scores.0"]
    case.assertTrue(torch.equal(ours.isinf(), theirs.isinf()))
    case.assertLess((ours - theirs)[~theirs.isinf()].abs().max().item(), TOLERANCE)


def same_answers(case, model, processor, directory: pathlib.Path, prompt: str, files: list[str], *flags: str, **kept) -> None:
    """Greedy, by beams, without a cache and sampled: the tokens of transformers, or their scores."""
    inputs = processor(images=[Image.open(f) for f in files], text=prompt, return_tensors="pt")
    if model.config.model_type.startswith("qwen"):
        inputs.pop("token_type_ids", None)
    length = inputs["input_ids"].shape[1]
    images = [part for file in files for part in ("--image", file)]
    for options, more in (({}, ()), ({"num_beams": 3}, ("--num-beams", "3")), ({"use_cache": False}, ("--no-use-cache",))):
        theirs = model.generate(**inputs, max_new_tokens=9, do_sample=False, **kept, **options)[0, length:].tolist()
        ours = json.loads(run("generate", str(directory), "--prompt", prompt, *images, "--max-new-tokens", "9", *flags, "--json", *more))
        case.assertEqual(ours["prompt_length"], length)
        case.assertEqual(ours["sequences"][0]["ids"], theirs, more)
    same_scores(case, model, inputs, directory, "--prompt", prompt, *images, *flags, **kept)
