"""The engine and the server on a GPU against transformers' generate, in one run.
usage: serve_gpu_bench.py [--easydel PROGRAM] [--prompts N] [--at-once N] [--no-http]

Llama-3.2-1B's shape with random bf16 weights, prompts of 1,024 random tokens, answers of 128, greedy, the prefix cache
off. transformers runs one static batch, as many rows as requests run at once here. Ours serves N requests, in the
process and over HTTP, where a second process makes the load. Prints output tokens per second, the ratio, and the
percentiles of `easydel bench serve`."""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

PROMPT, NEW = 1024, 128
ROOT = pathlib.Path(__file__).resolve().parent.parent


def write_model(folder: pathlib.Path):
    """The weights, and a tokenizer whose words are the numbers of their ids."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(**json.loads((ROOT / "bench/configs/llama-3.2-1b.json").read_text()))
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    model.save_pretrained(folder)
    vocabulary = {f"Ġ{i}": i for i in range(config.vocab_size)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="Ġ0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return model


def transformers_rate(model, rows: int) -> float:
    import torch
    ids = torch.randint(0, model.config.vocab_size, (rows, PROMPT), device="cuda")
    rates = []
    for _ in range(2):  # the first one warms up
        torch.cuda.synchronize()
        begin = time.perf_counter()
        with torch.inference_mode():
            out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, min_new_tokens=NEW,
                                 do_sample=False, pad_token_id=0)
        torch.cuda.synchronize()
        assert out.shape[1] == PROMPT + NEW
        rates.append(rows * NEW / (time.perf_counter() - begin))
    print(f"transformers: {rates[0]:.0f} output tokens/s in the first run, {rates[1]:.0f} in the second")
    return max(rates)


def load(program: str, target: list[str], arguments) -> dict:
    command = [program, "bench", "serve", *target, "--random-input-len", PROMPT, "--random-output-len", NEW,
               "--num-prompts", arguments.prompts, "--max-concurrency", arguments.at_once, "--ignore-eos",
               "--temperature", 0, "--vocab-size", 128000, "--num-warmups", 2]
    text = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
    print(text)
    rate = next(line for line in text.splitlines() if line.startswith("Output token throughput"))
    return {"rate": float(rate.split()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--easydel", default=str(ROOT / "build/cuda/bin/easydel"))
    parser.add_argument("--prompts", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=256)
    parser.add_argument("--no-http", dest="http", action="store_false")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = write_model(folder)
        peer = transformers_rate(model, arguments.at_once)
        del model
        import torch
        torch.cuda.empty_cache()
        rates = {}
        engine = ["--dtype", "bf16", "--device", "cuda", "--max-num-seqs", str(arguments.at_once), "--no-prefix-caching"]
        print("== in the process")
        rates["engine"] = load(arguments.easydel, [str(folder), "--in-process", *engine], arguments)["rate"]
        if arguments.http:
            server = subprocess.Popen([arguments.easydel, "serve", str(folder), "--port", "0", *engine],
                                      stdout=subprocess.PIPE, text=True)
            try:
                address = server.stdout.readline().split()[-1]
                print("== over HTTP")
                rates["server"] = load(arguments.easydel, ["--base-url", address], arguments)["rate"]
            finally:
                server.terminate()
                server.wait()
        print(f"transformers, one static batch of {arguments.at_once}: {peer:.0f} output tokens/s")
        for what, rate in rates.items():
            print(f"easydel, {what}: {rate:.0f} output tokens/s, {rate / peer:.2f} times transformers")


if __name__ == "__main__":
    main()
