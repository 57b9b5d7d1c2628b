"""The engine and the server on the CPU against llama.cpp's library, alternating in one run.
usage: serve_bench.py [--easydel PROGRAM] [--llama-cpp DIRECTORY] [--threads N] [--rounds N] [--only peer|ours] [--no-http] [--cpu KIND|all]

DIRECTORY has llama.cpp's shared libraries (llama_cpp.py says where to get them). Without one only our own figures are printed.

Both sides get random 8-bit weights of SmolLM-135M's shape, the embedding packed too, prompts of 128 tokens and answers of
128. llama.cpp decodes 1, 4 and 16 sequences in one batch with llama_decode, prefills all prompts in one call, and
chooses no tokens. Ours runs `easydel bench serve` with as many requests at once, in the process and over HTTP. Prints
tokens per second of whole runs (prompts included) and of decoding alone, the ratios, what the engine and HTTP cost
compared with `easydel bench generate`, which is a bare decode loop, and the time to first token of a 1,000-token
prefix when it is new and when it is known. Figures are the best of all rounds."""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import cpu_kinds
import llama_cpp
from generate_bench import SHAPE
from quantized_bench import write_gguf

PROMPT, NEW, COUNTS = 128, 128, (1, 4, 16)
PREFIX, AFTER_PREFIX = 1000, 16
REPEATS = 3  # within a process
GOALS = dict(peer=1.05, prefix=0.2, overhead=0.05)


def write_model(program: str, folder: pathlib.Path) -> pathlib.Path:
    """Random weights as a checkpoint with 8-bit matrices, the embedding too, and a tokenizer whose ids are all printable."""
    import numpy
    from safetensors.numpy import save_file

    random, dense, packed = numpy.random.default_rng(0), folder / "dense", folder / "packed"
    dense.mkdir()
    hidden, inner = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    kv = hidden // SHAPE["num_attention_heads"] * SHAPE["num_key_value_heads"]
    matrix = lambda out, columns: random.standard_normal((out, columns), dtype=numpy.float32) * numpy.float32(0.02)
    tensors = {"model.embed_tokens.weight": matrix(SHAPE["vocab_size"], hidden), "model.norm.weight": numpy.ones(hidden, numpy.float32)}
    for layer in range(SHAPE["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        for name, out, columns in (("self_attn.q_proj", hidden, hidden), ("self_attn.k_proj", kv, hidden), ("self_attn.v_proj", kv, hidden),
                                   ("self_attn.o_proj", hidden, hidden), ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden),
                                   ("mlp.down_proj", hidden, inner)):
            tensors[f"{at}{name}.weight"] = matrix(out, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = numpy.ones(hidden, numpy.float32)
    save_file(tensors, dense / "model.safetensors", metadata={"format": "pt"})
    (dense / "config.json").write_text(json.dumps(SHAPE | {"architectures": ["LlamaForCausalLM"]}))
    run([program, "quantize", dense, packed, "--method", "8bit", "--target", "kernel,embedding", "--json"])
    (dense / "model.safetensors").unlink()
    letters = [chr(c) for c in (*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324))]  # the 256 of byte-level BPE
    names = letters + [f"w{i}" for i in range(len(letters), SHAPE["vocab_size"])]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    (packed / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": {name: i for i, name in enumerate(names)}, "merges": []}}))
    (packed / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return packed


def run(command: list, threads: int = 2) -> str:
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def served(program: str, model: pathlib.Path, threads: int):
    """`easydel serve` of the model; the address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([program, "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    try:
        while True:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=10).close()
                break
            except (urllib.error.URLError, OSError):
                if process.poll() is not None:
                    raise SystemExit(f"easydel serve ended:\n{process.stderr.read()}")
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait()


def load(program: str, target: list, threads: int, sequences: int) -> dict:
    """So many requests at once, several times over."""
    best = dict(whole=0.0, decode=0.0)
    for seed in range(REPEATS):
        report = json.loads(run([program, "bench", "serve", *target, "--num-prompts", sequences, "--random-input-len", PROMPT,
                                 "--random-output-len", NEW, "--ignore-eos", "--seed", seed, "--json"], threads))
        assert report["failed"] == 0 and report["total_output_tokens"] == sequences * NEW, report
        keep_best(best, dict(whole=report["output_throughput"], decode=sequences * 1e3 / report["median_itl_ms"]))
    return best


def bare(program: str, config: pathlib.Path, threads: int, sequences: int) -> dict:
    report = json.loads(run([program, "bench", "generate", "--config", config, "--quantize", "8bit", "--batch", sequences, "--prompt", PROMPT,
                             "--new", NEW, "--rounds", REPEATS, "--device", "cpu", "--json"], threads))
    seconds = report["first_token_seconds"] + sequences * (NEW - 1) / report["decode_tokens_per_second"]
    return dict(whole=sequences * NEW / seconds, decode=report["decode_tokens_per_second"])


def prefix(program: str, target: list, threads: int, seed: int) -> tuple[float, float]:
    """Milliseconds to the first token of a prompt that is new, and the median of those that begin as it does."""
    with tempfile.TemporaryDirectory() as folder:
        saved = pathlib.Path(folder) / "result.json"
        run([program, "bench", "serve", *target, "--num-prompts", 6, "--max-concurrency", 1, "--random-prefix-len", PREFIX,
             "--random-input-len", AFTER_PREFIX, "--random-output-len", 2, "--ignore-eos", "--seed", seed, "--save-result", saved], threads)
        first, *others = json.loads(saved.read_text())["ttfts"]
    return 1e3 * first, 1e3 * statistics.median(others)


def keep_best(best: dict, result: dict) -> None:
    for key, value in result.items():
        best[key] = max(best.get(key, value), value)


def measure(arguments, folder: pathlib.Path) -> tuple[dict, list]:
    """The best of each side by its name and number of sequences, and times to first token."""
    best, firsts = {}, []

    def take(name: str, count: int, result: dict) -> None:
        print(f"{name}, {count} sequences: {result['whole']:.1f} tokens/s with prompts", file=sys.stderr, flush=True)
        keep_best(best.setdefault((name, count), {}), result)

    gguf, config = folder / "Q8_0.gguf", folder / "config.json"
    config.write_text(json.dumps(SHAPE))
    ours = arguments.only != "peer"
    if arguments.llama_cpp:
        write_gguf(str(gguf), "Q8_0")
    model = write_model(arguments.easydel, folder) if ours else None
    engine = [model, "--in-process", "--device", "cpu"]
    for number in range(arguments.rounds):
        for count in COUNTS:
            if arguments.llama_cpp:
                take("llama.cpp", count, llama_cpp.measure(arguments.llama_cpp, gguf, arguments.threads, count, PROMPT, NEW, REPEATS))
            if ours:
                take("engine", count, load(arguments.easydel, engine, arguments.threads, count))
                take("bare loop", count, bare(arguments.easydel, config, arguments.threads, count))
            if ours and arguments.http:
                with served(arguments.easydel, model, arguments.threads) as url:
                    take("HTTP", count, load(arguments.easydel, ["--base-url", url], arguments.threads, count))
        if ours:
            firsts.append(prefix(arguments.easydel, engine, arguments.threads, seed=100 + number))
    return best, firsts


def print_results(best: dict, firsts: list) -> None:
    for (name, count), result in sorted(best.items(), key=lambda item: (item[0][1], item[0][0])):
        print(f"{count:2} sequences, {name:9} {result['whole']:7.1f} tokens/s with prompts, {result['decode']:7.1f} decoding"
              + (f", prefill {result['prefill']:7.0f}" if "prefill" in result else ""))
    for count in COUNTS:
        if ("engine", count) in best and ("llama.cpp", count) in best:
            ratio = {key: best["engine", count][key] / best["llama.cpp", count][key] for key in ("whole", "decode")}
            print(f"{count:2} sequences: the engine is {ratio['whole']:.2f} times llama.cpp with prompts (wanted: {GOALS['peer']}),"
                  f" {ratio['decode']:.2f} times decoding")
        for name in ("engine", "HTTP"):
            if (name, count) in best:
                cost = 1 - best[name, count]["whole"] / best["bare loop", count]["whole"]
                print(f"{count:2} sequences: {name} costs {100 * cost:.1f} % of the bare loop (wanted: {100 * GOALS['overhead']:.0f} at most)")
    if firsts:
        cold, warm = min(first for first, _ in firsts), min(rest for _, rest in firsts)
        print(f"a prefix of {PREFIX} tokens: {cold:.1f} ms to the first token when it is new, {warm:.1f} when it is known: {warm / cold:.3f}"
              f" (wanted: {GOALS['prefix']} at most)")


def main() -> None:
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--easydel", default=str(root / "build/release/bin/easydel"))
    parser.add_argument("--llama-cpp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("peer", "ours"))
    parser.add_argument("--no-http", dest="http", action="store_false")
    cpu_kinds.add_argument(parser)
    arguments = parser.parse_args()
    if arguments.only == "peer" and not arguments.llama_cpp:
        parser.error("--only peer needs --llama-cpp DIRECTORY")
    if arguments.only == "ours":
        arguments.llama_cpp = None

    for _ in cpu_kinds.chosen(arguments.cpu, arguments.easydel):
        with tempfile.TemporaryDirectory() as folder:
            best, firsts = measure(arguments, pathlib.Path(folder))
        system = {result.pop("system", None) for result in best.values()} - {None}
        print_results(best, firsts)
        processor = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
        print(f"{processor[0] if processor else 'unknown processor'}, {arguments.threads} threads, load {os.getloadavg()[0]:.1f}")
        print(f"llama.cpp: {', '.join(system)}" if system else "llama.cpp was not measured; llama_cpp.py says where to get it.")


if __name__ == "__main__":
    main()
