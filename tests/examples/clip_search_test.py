"""Runs examples/clip_search.cpp on a folder of drawn images, with a tiny CLIP that has learned their colours and shapes.
usage: clip_search_test.py PROGRAM"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy
import torch
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import CLIPConfig, CLIPModel

COLOURS, SHAPES = ("red", "green", "blue"), ("square", "circle", "cross")
WORDS = ["<pad>", "<s>", "</s>", "a", *COLOURS, *SHAPES]
MEAN, STD = [0.4, 0.45, 0.5], [0.25, 0.26, 0.27]
torch.set_num_threads(1)


def draw(colour: str, shape: str) -> Image.Image:
    image = Image.new("RGB", (32, 32), "white")
    pen = ImageDraw.Draw(image)
    if shape == "square":
        pen.rectangle((6, 6, 25, 25), fill=colour)
    elif shape == "circle":
        pen.ellipse((4, 4, 27, 27), fill=colour)
    else:
        pen.line((4, 4, 27, 27), fill=colour, width=5)
        pen.line((4, 27, 27, 4), fill=colour, width=5)
    return image


with tempfile.TemporaryDirectory() as directory:
    root = pathlib.Path(directory)
    (root / "images").mkdir()
    things = [(colour, shape) for colour in COLOURS for shape in SHAPES]
    pixels = []
    for colour, shape in things:
        image = draw(colour, shape)
        image.save(root / "images" / f"{colour}_{shape}.png")
        values = torch.from_numpy(numpy.array(image)).permute(2, 0, 1) / 255
        pixels.append((values - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<pad>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)])
    texts = [f"a {colour} {shape}" for colour, shape in things]
    ids = torch.tensor([tokenizer.encode(text).ids for text in texts])

    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)
    model = CLIPModel(CLIPConfig(projection_dim=16,
                                 text_config=dict(**sizes, vocab_size=len(WORDS), max_position_embeddings=8, bos_token_id=1, eos_token_id=2,
                                                  pad_token_id=0),
                                 vision_config=dict(**sizes, image_size=32, patch_size=8)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(200):
        loss = model(input_ids=ids, pixel_values=torch.stack(pixels), return_loss=True).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval().save_pretrained(root / "model")
    tokenizer.save(str(root / "model/tokenizer.json"))
    (root / "model/tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>", "pad_token": "<pad>"}))
    (root / "model/preprocessor_config.json").write_text(json.dumps(
        {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32},
         "image_mean": MEAN, "image_std": STD}))

    done = subprocess.run([sys.argv[1], root / "model", root / "images", *texts], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    names = sorted(f"{colour}_{shape}.png" for colour, shape in things)
    order = [names.index(f"{colour}_{shape}.png") for colour, shape in things]  # of the columns below
    with torch.no_grad():
        scores = model(input_ids=ids, pixel_values=torch.stack(pixels)).logits_per_text.softmax(-1)
    for line, text, (colour, shape), row in zip(done.stdout.splitlines(), texts, things, scores, strict=True):
        found = line.removeprefix(f"{text}: ").split()
        assert found[0] == f"{colour}_{shape}.png", line
        best = sorted(zip(row.tolist(), order), reverse=True)[:3]
        for score, (expected, place) in zip(found[1::2], best, strict=True):
            assert abs(float(score) - expected) < 1e-4, (line, best)
