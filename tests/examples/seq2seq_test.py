"""Runs examples/seq2seq.cpp on a tiny T5 that learns to repeat words backwards. usage: seq2seq_test.py PROGRAM"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import T5Config, T5ForConditionalGeneration

with tempfile.TemporaryDirectory() as directory:
    root = pathlib.Path(directory)
    words = ["<pad>", "</s>", "<unk>", "the", "cat", "dog", "sat", "ran"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<pad>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    torch.manual_seed(0)
    T5ForConditionalGeneration(T5Config(vocab_size=len(words), d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0,
                                        decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)).save_pretrained(root / "model")
    tokenizer.save(str(root / "model/tokenizer.json"))
    (root / "model/tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "pad_token": "<pad>"}))
    draw = random.Random(0)
    rows = [[draw.choice(words[3:]) for _ in range(draw.randint(1, 3))] for _ in range(200)]
    (root / "data.jsonl").write_text("".join(
        json.dumps({"prompt": " ".join(row), "completion": " ".join(reversed(row))}) + "\n" for row in rows))
    done = subprocess.run([sys.argv[1], root / "model", root / "data.jsonl", root / "out", "400", "cat dog ran"], capture_output=True,
                          text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    first, answer = done.stdout.splitlines()
    assert first.endswith(" after 400 steps") and float(first.split()[1]) < 1, done.stdout  # log 8 without learning
    assert answer == "ran dog cat", done.stdout
    T5ForConditionalGeneration.from_pretrained(root / "out/run-400")  # a checkpoint for transformers too
