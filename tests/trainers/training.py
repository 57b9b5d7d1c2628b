"""Tiny models and data for the trainers' tests, and what runs our trainer on them."""

import json
import os
import pathlib
import random
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
os.environ.setdefault("WANDB_DISABLED", "true")

import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoModelForTokenClassification, PreTrainedTokenizerFast

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

LETTERS = "abcdefghijklmnopqrstuvwxyz .?!"
VOCAB = ["<pad>", "<s>", "</s>", "<unk>", *LETTERS]
SIZES = dict(vocab_size=len(VOCAB), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128, tie_word_embeddings=False)
MIXTRAL = dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=None)


def make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(VOCAB)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
                                   unk_token="<unk>")


def make_model(directory: pathlib.Path, family: str = "llama", seed: int = 0, task: str = "lm", **changes):
    """A random model whose outputs differ from token to token, and its tokenizer, as files."""
    torch.manual_seed(seed)
    extra = MIXTRAL if family == "mixtral" else {}
    config = AutoConfig.for_model(family, **{**SIZES, **extra, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
                                             "num_labels": 1 if task == "reward" else 2, **changes})
    config._attn_implementation = "eager"
    loader = {"reward": AutoModelForSequenceClassification, "tokens": AutoModelForTokenClassification}.get(task, AutoModelForCausalLM)
    model = loader.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(directory)
    make_tokenizer().save_pretrained(directory)
    return model


def words(generator: random.Random, low: int, high: int) -> str:
    return "".join(generator.choice(LETTERS[:27]) for _ in range(generator.randint(low, high))).strip() or "a"


def make_pairs(count: int, seed: int = 0, **extra) -> list[dict]:
    generator = random.Random(seed)
    rows = []
    for _ in range(count):
        rows.append({"prompt": words(generator, 3, 12), "chosen": " " + words(generator, 2, 20),
                     "rejected": " " + words(generator, 2, 20), **{k: f(generator) for k, f in extra.items()}})
    return rows


def write_rows(path: pathlib.Path, rows: list[dict]) -> pathlib.Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run_ours(program: str, directory: pathlib.Path, **job) -> tuple[list[dict], dict[str, torch.Tensor]]:
    """The metrics of each step and the final weights of train_program."""
    output = pathlib.Path(tempfile.mkdtemp(dir=directory))
    arguments = {"save_directory": None, "verbose": False, "progress_bar_type": "none", "use_tensorboard": False,
                 **job.pop("arguments")}
    job = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in job.items()}
    (output / "job.json").write_text(json.dumps({**job, "arguments": arguments, "output": str(output)}))
    done = warm_start.run([program, str(output / "job.json")], text=True)
    if done.returncode != 0:
        raise AssertionError(f"{job}\n{done.stdout}{done.stderr}")
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return steps, load_file(output / "model.safetensors")


def weights_of(model) -> dict[str, torch.Tensor]:
    """Under the names that files have."""
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        return load_file(pathlib.Path(directory) / "model.safetensors")


def largest_difference(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> float:
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    return max((ours[name].double() - theirs[name].double()).abs().max().item() for name in ours)
