"""What the commands in README.md and docs/ are run on: tiny models made by transformers under the names that the pages
use, as files in a working directory and as repositories of a hub that is served on this machine."""

import json
import pathlib
import shutil
import sys

import gguf
import peft
import pyarrow
import pyarrow.parquet
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

sys.path.insert(0, str(pathlib.Path(__file__).parent / "reference"))
import gguf_models

BOOK = pathlib.Path(__file__).parents[1] / "examples" / "demo" / "pride_and_prejudice.txt"
SIZES = dict(vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=0)
TEMPLATE = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}{{ 'assistant: ' }}"


def make_tokenizer(text: str) -> transformers.PreTrainedTokenizerFast:
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=SIZES["vocab_size"], special_tokens=["<pad>", "<s>", "</s>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>",
                                                pad_token="<pad>", chat_template=TEMPLATE)


def write_gguf(path: pathlib.Path, model, tokenizer) -> None:
    """A llama in F32 with a tokenizer of the kind gpt2."""
    file = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(file["vocab"], key=file["vocab"].get)

    def add_tokenizer(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list(tokens)
        writer.add_token_types([gguf.TokenType.CONTROL if i < 3 else gguf.TokenType.NORMAL for i in range(len(tokens))])
        writer.add_token_merges([" ".join(pair) for pair in file["merges"]])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_chat_template(TEMPLATE)

    gguf_models.write(path, model, "llama", more=add_tokenizer)


def make_files(folder: pathlib.Path) -> None:
    """The working directory of a page."""
    text = BOOK.read_text(encoding="utf-8")
    paragraphs = [p.replace("\n", " ")[:200] for p in text.split("\n\n") if len(p) > 150][20:84]
    tokenizer = make_tokenizer(text[:60000])
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    model.generation_config.max_new_tokens = 8
    model.save_pretrained(folder / "MODEL")
    tokenizer.save_pretrained(folder / "MODEL")
    for name in ("BASE", "SRC", "model", "path/to/model"):
        shutil.copytree(folder / "MODEL", folder / name)
    write_gguf(folder / "model.gguf", model, tokenizer)
    shutil.copy(folder / "model.gguf", folder / "llama-3.2-1b-Q8_0.gguf")
    shutil.copy(folder / "MODEL" / "config.json", folder / "config.json")
    for name in ("my-adapter", "one", "other"):
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
        adapted.save_pretrained(folder / name)
        model = adapted.unload()

    rows = "".join(json.dumps({"text": p}) + "\n" for p in paragraphs)
    for name in ("train.jsonl", "data/train.jsonl", "data/test.jsonl"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(rows)
    (folder / "questions.jsonl").write_text("".join(
        json.dumps({"prompt": f"{i} and {i + 1} are", "answer": 2 * i + 1}) + "\n" for i in range(8)))
    (folder / "answers.jsonl").write_text("".join(
        json.dumps({"prompt": f"{i} and {i + 1} are", "completion": f" {2 * i + 1}"}) + "\n" for i in range(8)))
    (folder / "pairs.jsonl").write_text("".join(
        json.dumps({"query": p[:20], "positive": p[20:90]}) + "\n" for p in paragraphs[:8]))
    (folder / "texts.jsonl").write_text("".join(json.dumps(p) + "\n" for p in paragraphs[:4]))
    for name in ("book.txt", "held_out.txt", "a.txt", "b.txt"):
        (folder / name).write_text("\n".join(paragraphs[:24]) + "\n")
    cities = {"Austria": "Vienna", "Italy": "Rome", "Spain": "Madrid", "Norway": "Oslo"}
    for name in ("capitals.jsonl", "more.jsonl"):
        (folder / name).write_text("".join(
            json.dumps({"country": country, "cities": list(cities.values()), "answer": i}) + "\n"
            for i, country in enumerate(cities)))
    for name in ("eval.yaml", "sums.yaml", "sums.jsonl", "sums_train.jsonl"):
        shutil.copy(BOOK.parents[1] / "elarge" / name, folder / name)
    ids = torch.randint(3, 320, (4, 16))
    save_file({"input_ids": ids}, folder / "batch.safetensors")
    save_file({"input_ids": ids, "labels": ids[:, :5].clone()}, folder / "pairs.safetensors")
    save_file({"input_ids": ids, "labels": ids.clone()}, folder / "in.safetensors")


def make_hub(files: pathlib.Path, folder: pathlib.Path) -> None:
    """Repositories under the names that the pages have."""
    for name in ("meta-llama/Llama-2-7b-hf", "org/name", "org/model"):
        shutil.copytree(files / "MODEL", folder / "models" / name)
    qwen = folder / "models" / "Qwen"
    transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**SIZES)).save_pretrained(qwen / "Qwen2.5-0.5B")
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(files / "MODEL" / name, qwen / "Qwen2.5-0.5B" / name)
    shutil.copytree(qwen / "Qwen2.5-0.5B", qwen / "Qwen2.5-0.5B-Instruct")
    small = dict(vocab_size=320, num_layers=1, num_heads=2, d_model=32, d_kv=16, d_ff=64, decoder_start_token_id=0)
    transformers.T5ForConditionalGeneration(transformers.T5Config(**small)).save_pretrained(folder / "models" / "org" / "t5")
    bert = transformers.BertConfig(vocab_size=320, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    transformers.BertForMaskedLM(bert).save_pretrained(folder / "models" / "org" / "bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        for model in ("t5", "bert"):
            shutil.copy(files / "MODEL" / name, folder / "models" / "org" / model / name)
    for name in ("data", "code"):
        parquet = folder / "datasets" / "org" / name / "train" / "0.parquet"
        parquet.parent.mkdir(parents=True)
        pyarrow.parquet.write_table(pyarrow.table({"content": ["one", "two"]}), parquet)
