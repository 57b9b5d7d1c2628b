"""Decoding on the CPU with each kind of weights against llama.cpp, alternating in one run.
usage: quantized_bench.py [--easydel PROGRAM] [--llama-cpp DIRECTORY] [--threads N] [--rounds N] [--batches N...]
                          [--only METHOD...] [--cpu KIND|all] [--processor-time]

DIRECTORY has llama.cpp's shared libraries (llama_cpp.py says where to get them). Without one only our own figures are
printed.

Both sides get random weights of one shape, with packed types all matrices packed, the embedding too: F32 and BF16 against
fp32 and bf16, Q8_0 against 8bit, Q4_0 against int4 and nf4; both read the same Q4_K file, whose shape is wider because
its blocks have 256 weights. --batches decodes so many sequences at once (default: 1).
Prints the best decode and prefill tokens per second of each and the ratios.

--processor-time is for a machine that others use: the processor's time of one thread, and the median of the rounds. Ours is
that of whole processes which differ in how much they decode and in how many prompts they read."""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

import cpu_kinds
import llama_cpp
import processor_time
from generate_bench import SHAPE

PROMPT, NEW = 128, 64
ROUNDS = 3  # within a process
METHODS = {"fp32": ["--dtype", "fp32"], "bf16": ["--dtype", "bf16"], "8bit": ["--quantize", "8bit"], "int4": ["--quantize", "int4"],
           "nf4": ["--quantize", "nf4"], "q4_k": []}
PEERS = {"fp32": "F32", "bf16": "BF16", "8bit": "Q8_0", "int4": "Q4_0", "nf4": "Q4_0", "q4_k": "Q4_K"}
WIDE = dict(SHAPE, hidden_size=768, intermediate_size=2048, num_hidden_layers=18, num_attention_heads=12, num_key_value_heads=4)


def write_gguf(path: str, kind: str) -> None:
    import gguf
    import numpy

    quantized = getattr(gguf.GGMLQuantizationType, kind)
    random = numpy.random.default_rng(0)
    shape = WIDE if kind == "Q4_K" else SHAPE
    hidden, inner, layers = shape["hidden_size"], shape["intermediate_size"], shape["num_hidden_layers"]
    heads, kv_heads = shape["num_attention_heads"], shape["num_key_value_heads"]
    kv = hidden // heads * kv_heads
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(shape["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_layer_norm_rms_eps(shape["rms_norm_eps"])
    writer.add_vocab_size(shape["vocab_size"])
    writer.add_tokenizer_model("no_vocab")

    def matrix(name: str, out: int, columns: int) -> None:
        if kind == "Q4_K":  # which the gguf package does not write: two scales of float16 before each block's codes
            blocks = random.integers(256, size=(out, columns // 256, 144), dtype=numpy.uint8)
            blocks[:, :, :4] = numpy.full((out, columns // 256, 2), 1e-4, numpy.float16).view(numpy.uint8)
            writer.add_tensor(name, blocks.reshape(out, -1), raw_dtype=quantized)
            return
        values = random.standard_normal((out, columns), dtype=numpy.float32) * 0.02
        writer.add_tensor(name, gguf.quants.quantize(values, quantized), raw_dtype=quantized)

    def norm(name: str) -> None:
        writer.add_tensor(name, numpy.ones(hidden, numpy.float32))

    matrix("token_embd.weight", shape["vocab_size"], hidden)
    norm("output_norm.weight")
    for layer in range(layers):
        for name, out, columns in (("attn_q", hidden, hidden), ("attn_k", kv, hidden), ("attn_v", kv, hidden),
                                   ("attn_output", hidden, hidden), ("ffn_gate", inner, hidden),
                                   ("ffn_up", inner, hidden), ("ffn_down", hidden, inner)):
            matrix(f"blk.{layer}.{name}.weight", out, columns)
        norm(f"blk.{layer}.attn_norm.weight")
        norm(f"blk.{layer}.ffn_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ours(program: str, model: list[str], threads: int, batch: int) -> dict:
    command = [program, "bench", "generate", *model, "--prompt", str(PROMPT), "--new", str(NEW), "--batch", str(batch),
               "--rounds", str(ROUNDS), "--device", "cpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    report = json.loads(done.stdout)
    return dict(prefill=report["prefill_tokens_per_second"], decode=report["decode_tokens_per_second"])


def compare(a: argparse.Namespace, batch: int, config: pathlib.Path, files: dict[str, str]) -> None:
    results, system = {}, ""
    for _ in range(a.rounds):
        for kind, path in files.items() if a.llama_cpp else ():
            result = llama_cpp.measure(a.llama_cpp, path, a.threads, batch, PROMPT, NEW, ROUNDS, a.processor_time)
            system = result["system"]
            results.setdefault(kind, []).append(result)
        for method in a.only:
            model = [files["Q4_K"]] if method == "q4_k" else ["--config", str(config), *METHODS[method]]
            result = (processor_time.generation(a.easydel, model, batch, PROMPT, NEW, ROUNDS) if a.processor_time
                      else ours(a.easydel, model, a.threads, batch))
            results.setdefault(method, []).append(result)
    of = statistics.median if a.processor_time else max
    best = {name: {key: of(r[key] for r in all) for key in ("prefill", "decode")} for name, all in results.items()}
    for method in a.only:
        own, text = best[method], ""
        if method not in ("fp32", "q4_k") and "fp32" in best:
            text += f"; {own['decode'] / best['fp32']['decode']:.2f} times fp32"
        if PEERS[method] in best:
            theirs = best[PEERS[method]]
            text += (f"; llama.cpp's {PEERS[method]} {theirs['decode']:.1f} and {theirs['prefill']:.0f}: ratios"
                     f" {own['decode'] / theirs['decode']:.2f} and {own['prefill'] / theirs['prefill']:.2f}")
        print(f"batch {batch:2} {method:4} decode {own['decode']:6.1f} tokens/s, prefill {own['prefill']:6.0f}{text}", flush=True)
    if system:
        print(f"llama.cpp: {system}", flush=True)


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--easydel", default=str(root / "build/release/bin/easydel"))
    parser.add_argument("--llama-cpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--processor-time", action="store_true", help="of one thread, whatever --threads says")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=list(METHODS))
    cpu_kinds.add_argument(parser)
    a = parser.parse_args()
    if a.processor_time:
        a.threads = 1
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(SHAPE))
        files = {}
        for kind in dict.fromkeys(PEERS[method] for method in a.only if a.llama_cpp or method == "q4_k"):
            files[kind] = os.path.join(folder, kind + ".gguf")
            write_gguf(files[kind], kind)
        for _ in cpu_kinds.chosen(a.cpu, a.easydel):
            for batch in a.batches:
                compare(a, batch, config, files)
    if not a.llama_cpp:
        print("llama.cpp was not measured; llama_cpp.py says where to get it.")


if __name__ == "__main__":
    main()
