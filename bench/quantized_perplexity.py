"""How much the perplexity of held-out text rises when a model is written in each format of `easydel quantize --format`,
beside files that the formats' own quantizers made of the same model: the packages compressed-tensors and hqq, and where
they can be found llmcompressor (GPTQ, AWQ) and llama.cpp's library (see tests/reference/llama_cpp.py). All files are
read by `easydel eval`. Without --model the demo's model is trained first (four minutes on one core).

K types need matrices whose columns 256 divides, so they are shown for a model that is as wide: --hidden 256.

usage: quantized_perplexity.py EASYDEL WORK [--model DIRECTORY] [--group 64] [--steps 1000] [--hidden 192]"""

import argparse
import ctypes
import functools
import json
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BOOK = ROOT / "examples" / "demo" / "pride_and_prejudice.txt"
sys.path.insert(0, str(ROOT / "tests" / "reference"))

GGUF_TYPES = {"Q8_0": 7, "Q4_0": 2, "Q4_K_M": 15, "Q6_K": 18}  # llama.cpp's numbers of file types
WINDOW, CALIBRATION_TOKENS = 512, 8192  # as `easydel quantize` has them


def easydel(program: str, *arguments) -> dict:
    done = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return json.loads(done.stdout)


def size(path: pathlib.Path) -> int:
    files = [path] if path.is_file() else path.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def by_package(name: str, model: pathlib.Path, out: pathlib.Path, group: int) -> pathlib.Path:
    """The same matrices rounded to the nearest by a package, as a dense checkpoint."""
    import packed_formats
    from safetensors.torch import load_file, save_file

    shutil.copytree(model, out, dirs_exist_ok=True)
    state = load_file(model / "model.safetensors")
    for key, weight in state.items():
        if not key.endswith("proj.weight"):
            continue
        if name == "hqq":
            values = packed_formats.hqq(weight.float(), 4, group, 1)[1]
        else:
            values = packed_formats.compressed(weight.float(), "pack-quantized", num_bits=4, type="int", strategy="group",
                                               group_size=group, symmetric=True)[1]  # fmt: skip
        state[key] = values.to(weight.dtype).contiguous()
    save_file(state, out / "model.safetensors", metadata={"format": "pt"})
    return out


def by_llmcompressor(method: str, symmetric: bool, model: pathlib.Path, out: pathlib.Path, group: int, text: pathlib.Path):
    import torch
    import transformers
    from datasets import Dataset
    from llmcompressor import oneshot
    from llmcompressor.modifiers.awq import AWQModifier
    from llmcompressor.modifiers.quantization import GPTQModifier

    torch.Tensor.pin_memory = lambda self, *_, **__: self  # which it asks for on machines without a GPU, too
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    ids = tokenizer(text.read_text(), add_special_tokens=False)["input_ids"][:CALIBRATION_TOKENS]
    rows = [{"input_ids": ids[i : i + WINDOW], "attention_mask": [1] * WINDOW} for i in range(0, len(ids) - WINDOW + 1, WINDOW)]
    weights = {"num_bits": 4, "type": "int", "symmetric": symmetric, "strategy": "group", "group_size": group}
    modifier = {"gptq": GPTQModifier, "awq": AWQModifier}[method]
    dense = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    oneshot(model=dense, tokenizer=tokenizer, dataset=Dataset.from_list(rows), max_seq_length=WINDOW,
            num_calibration_samples=len(rows), shuffle_calibration_samples=False,
            recipe=[modifier(config_groups={"all": {"targets": ["Linear"], "weights": weights}}, ignore=["lm_head"])])  # fmt: skip
    dense.save_pretrained(out, save_compressed=True)
    tokenizer.save_pretrained(out)
    return out


class QuantizeParameters(ctypes.Structure):
    """llama_model_quantize_params: the fields at its beginning, and room for the others."""
    _fields_ = [("nthread", ctypes.c_int32), ("ftype", ctypes.c_int32), ("others", ctypes.c_char * 1016)]


@functools.cache
def llama_library():
    import llama_cpp

    load = lambda name: ctypes.CDLL(str(sorted(llama_cpp.DIRECTORY.glob(name))[0]), mode=ctypes.RTLD_GLOBAL)  # noqa: E731
    load("libggml-base*.so*")
    ggml, llama = load("libggml.*so*"), load("libllama.*so*")
    ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    ggml.ggml_backend_load_all_from_path(str(llama_cpp.DIRECTORY).encode())
    llama.llama_model_quantize_default_params.restype = QuantizeParameters
    llama.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(QuantizeParameters)]
    llama.llama_model_quantize.restype = ctypes.c_uint32
    return llama


def by_llama_cpp(kind: str, given: pathlib.Path, out: pathlib.Path) -> pathlib.Path:
    """llama.cpp's own quantizer, on a file of floats."""
    llama = llama_library()
    parameters = llama.llama_model_quantize_default_params()
    parameters.nthread, parameters.ftype = 1, GGUF_TYPES[kind]
    assert llama.llama_model_quantize(str(given).encode(), str(out).encode(), ctypes.byref(parameters)) == 0, f"llama.cpp did not write {kind}"
    return out


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("easydel")
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--hidden", type=int, default=192)
    options = parser.parse_args()
    work, group = options.work, options.group
    work.mkdir(parents=True, exist_ok=True)
    learned, held_out = BOOK.read_text().split("\nChapter 58\n")  # what the demo learns from, and what it holds out
    text, calibration = work / "held_out.txt", work / "learned.txt"
    text.write_text(held_out)
    calibration.write_text(learned[-60000:])
    model = options.model or pathlib.Path(easydel(options.easydel, "demo", "--corpus", BOOK, "--output", work / "demo", "--steps",
                                                  options.steps, "--hidden", options.hidden, "--mesh", "1,1,1,1,1")["checkpoint"])  # fmt: skip
    floats = work / "floats.gguf"
    easydel(options.easydel, "quantize", model, floats, "--format", "gguf", "--type", "F32", "--overwrite")

    dense = work / "bf16"
    subprocess.run([options.easydel, "convert", str(model), str(dense), "--dtype", "bf16", "--overwrite"], check=True, stdout=subprocess.DEVNULL)
    perplexity = lambda path: easydel(options.easydel, "eval", path, "--text", text)["perplexity"]  # noqa: E731
    before = perplexity(dense)
    print(f"bf16: perplexity {before:.4f}, {size(dense)} bytes")

    def show(name: str, path: pathlib.Path) -> None:
        after = perplexity(path)
        print(f"| {name} | {after:.4f} | {100 * (after / before - 1):+.3f} % | {size(path) / size(dense):.3f} |", flush=True)

    def ours(name: str, *arguments) -> None:
        out = work / (f"{name.replace(' ', '-')}.gguf" if "gguf" in arguments else f"ours-{name.replace(' ', '-')}")
        easydel(options.easydel, "quantize", model, out, "--overwrite", *arguments)
        show(f"easydel, {name}", out)

    def theirs(name: str, make) -> None:
        try:
            path = make(work / name.replace(" ", "-").replace(",", ""))
        except (ImportError, IndexError) as error:
            return print(f"| {name} | not here: {error} | | |")
        show(name, path)

    groups, calibrated = ["--group-size", group], ["--calibrate", calibration]
    ours("gptq", "--format", "gptq", *groups, *calibrated)
    theirs("llmcompressor, gptq", lambda out: by_llmcompressor("gptq", True, model, out, group, calibration))
    ours("awq", "--format", "awq", *groups, *calibrated)
    theirs("llmcompressor, awq", lambda out: by_llmcompressor("awq", False, model, out, group, calibration))
    ours("compressed-tensors int4", "--format", "compressed-tensors", *groups)
    theirs("compressed-tensors, int4", lambda out: by_package("compressed-tensors", model, out, group))
    theirs("hqq, 4 bits", lambda out: by_package("hqq", model, out, group))
    ours("bitsandbytes nf4", "--format", "bitsandbytes")
    ours("compressed-tensors int8", "--format", "compressed-tensors", "--type", "int8")
    ours("bitsandbytes 8bit", "--format", "bitsandbytes", "--method", "8bit")
    ours("compressed-tensors fp8", "--format", "compressed-tensors", "--type", "fp8")
    ours("fp8", "--format", "fp8")
    for kind in GGUF_TYPES:
        ours(f"gguf {kind}", "--format", "gguf", "--type", kind)
        theirs(f"llama.cpp, {kind}", lambda out, kind=kind: by_llama_cpp(kind, floats, out.with_name(f"llama-cpp-{kind}.gguf")))


if __name__ == "__main__":
    main()
