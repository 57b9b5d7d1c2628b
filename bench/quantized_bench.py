"""Decoding with packed weights on the CPU against float32 and against llama.cpp, alternating in one run.
usage: quantized_bench.py [--easydel PROGRAM] [--llama-cpp DIRECTORY] [--threads N] [--rounds N]

DIRECTORY has llama.cpp's shared libraries (libllama*.so next to libggml*.so). Without one only our own figures
are printed. Prebuilt ones with a kernel for each kind of CPU:
    npm pack @node-llama-cpp/linux-x64 && tar xzf node-llama-cpp-linux-x64-*.tgz    # then package/bins/linux-x64

Both sides get random weights of one shape, all matrices packed, the embedding too: Q8_0 against 8bit, and Q4_0 against
int4 and nf4. Prints the best decode and prefill tokens per second of each and the ratios."""

import argparse
import ctypes
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from generate_bench import SHAPE

PROMPT, NEW = 128, 64
METHODS = {"8bit": ["--quantize", "8bit"], "int4": ["--quantize", "int4"], "nf4": ["--quantize", "nf4"]}
PEER_TYPES = {"Q8_0": ["8bit"], "Q4_0": ["int4", "nf4"]}
GOALS = {"8bit": 2.2, "int4": 3.0, "nf4": 3.0}


def write_gguf(path: str, kind: str) -> None:
    import gguf
    import numpy

    quantized = getattr(gguf.GGMLQuantizationType, kind)
    random = numpy.random.default_rng(0)
    hidden, inner, layers = SHAPE["hidden_size"], SHAPE["intermediate_size"], SHAPE["num_hidden_layers"]
    heads, kv_heads = SHAPE["num_attention_heads"], SHAPE["num_key_value_heads"]
    kv = hidden // heads * kv_heads
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_rope_dimension_count(hidden // heads)
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    writer.add_vocab_size(SHAPE["vocab_size"])
    writer.add_tokenizer_model("no_vocab")

    def matrix(name: str, out: int, columns: int) -> None:
        values = random.standard_normal((out, columns), dtype=numpy.float32) * 0.02
        writer.add_tensor(name, gguf.quants.quantize(values, quantized), raw_dtype=quantized)

    def norm(name: str) -> None:
        writer.add_tensor(name, numpy.ones(hidden, numpy.float32))

    matrix("token_embd.weight", SHAPE["vocab_size"], hidden)
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


class Opaque(ctypes.Structure):
    """A struct of llama.cpp that is passed on by value and not looked into: at least as large as any version's. (On
    x86-64 and arm64 such structs go through memory, where what is too much does no harm.)"""
    _fields_ = [("bytes", ctypes.c_char * 1024)]


def peer(directory: str, path: str, threads: int) -> dict:
    """Times of llama.cpp, in this process. Logits are computed, and no token is chosen from them."""
    load = lambda name: ctypes.CDLL(sorted(glob.glob(os.path.join(directory, name)))[0], mode=ctypes.RTLD_GLOBAL)
    load("libggml-base*.so*")
    ggml = load("libggml.*so*")
    llama = load("libllama.*so*")
    ggml.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    for name in ("llama_model_default_params", "llama_context_default_params", "llama_batch_get_one"):
        getattr(llama, name).restype = Opaque
    llama.llama_model_load_from_file.argtypes, llama.llama_model_load_from_file.restype = [ctypes.c_char_p, Opaque], ctypes.c_void_p
    llama.llama_init_from_model.argtypes, llama.llama_init_from_model.restype = [ctypes.c_void_p, Opaque], ctypes.c_void_p
    llama.llama_batch_get_one.argtypes = [ctypes.POINTER(ctypes.c_int32), ctypes.c_int32]
    llama.llama_decode.argtypes = [ctypes.c_void_p, Opaque]
    llama.llama_set_n_threads.argtypes = [ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32]
    llama.llama_get_memory.argtypes, llama.llama_get_memory.restype = [ctypes.c_void_p], ctypes.c_void_p
    llama.llama_memory_clear.argtypes = [ctypes.c_void_p, ctypes.c_bool]
    llama.llama_print_system_info.restype = ctypes.c_char_p

    ggml.ggml_backend_load_all_from_path(directory.encode())
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    assert model, "llama.cpp did not load the model"
    context = llama.llama_init_from_model(model, llama.llama_context_default_params())
    assert context, "llama.cpp made no context"
    llama.llama_set_n_threads(context, threads, threads)

    def decode(tokens: list[int]) -> None:
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        assert llama.llama_decode(context, llama.llama_batch_get_one(ids, len(tokens))) == 0

    prefill = decoding = 1e30
    for _ in range(3):
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        start = time.perf_counter()
        decode([(7 * i) % SHAPE["vocab_size"] for i in range(PROMPT)])
        middle = time.perf_counter()
        for i in range(NEW - 1):
            decode([(11 * i) % SHAPE["vocab_size"]])
        end = time.perf_counter()
        prefill, decoding = min(prefill, middle - start), min(decoding, end - middle)
    return dict(prefill=PROMPT / prefill, decode=(NEW - 1) / decoding, system=llama.llama_print_system_info().decode())


def ours(program: str, config: pathlib.Path, threads: int, options: list[str]) -> dict:
    command = [program, "bench", "generate", "--config", str(config), "--prompt", str(PROMPT), "--new", str(NEW),
               "--rounds", "3", "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    report = json.loads(done.stdout)
    return dict(prefill=report["prefill_tokens_per_second"], decode=report["decode_tokens_per_second"])


def keep_best(best: dict, name: str, result: dict) -> None:
    known = best.setdefault(name, dict(prefill=0.0, decode=0.0))
    for key in known:
        known[key] = max(known[key], result[key])


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--easydel", default=str(root / "build/release/bin/easydel"))
    parser.add_argument("--llama-cpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--peer", nargs=2, metavar=("DIRECTORY", "GGUF"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:  # a process of its own for each measurement
        print(json.dumps(peer(*arguments.peer, arguments.threads)))
        return

    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(SHAPE))
        files = {}
        if arguments.llama_cpp:
            for kind in PEER_TYPES:
                files[kind] = os.path.join(folder, kind + ".gguf")
                write_gguf(files[kind], kind)
        best, system = {}, ""
        for _ in range(arguments.rounds):
            keep_best(best, "float32", ours(arguments.easydel, config, arguments.threads, []))
            for kind, path in files.items():
                command = [sys.executable, __file__, "--threads", str(arguments.threads), "--peer", arguments.llama_cpp, path]
                result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
                system = result["system"]
                keep_best(best, kind, result)
            for method, options in METHODS.items():
                keep_best(best, method, ours(arguments.easydel, config, arguments.threads, options))

    for name, result in best.items():
        print(f"{name:8} decode {result['decode']:6.1f} tokens/s, prefill {result['prefill']:7.0f} tokens/s")
    for method, goal in GOALS.items():
        print(f"{method:8} decode {best[method]['decode'] / best['float32']['decode']:.2f} times float32 (wanted: {goal})")
    for kind, methods in PEER_TYPES.items():
        for method in methods if kind in best else []:
            print(f"{method:8} decode {best[method]['decode'] / best[kind]['decode']:.2f} times llama.cpp's {kind},"
                  f" prefill {best[method]['prefill'] / best[kind]['prefill']:.2f}")
    if arguments.llama_cpp:
        print(f"llama.cpp: {system}")
    else:
        print("llama.cpp was not measured; --help says where to get it.")


if __name__ == "__main__":
    main()
