"""Rows tokenized by trl's own code on tiny tokenizers.

usage: data_trl_peer.py DIRECTORY SEED COUNT. Writes a directory for each tokenizer, and cases.jsonl with COUNT cases of
each kind: {"tokenizer", "method", "options", "rows", "expected": what trl makes of them, "batch": what its collator
makes of the first few, "pad"}.
"""

import json
import os
import pathlib
import random
import sys
import types

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
import datasets
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from trl.data_utils import maybe_apply_chat_template, maybe_extract_prompt
from trl.experimental.orpo.orpo_trainer import ORPOTrainer
from trl.experimental.utils import DPODataCollatorWithPadding
from trl.trainer import dpo_trainer, reward_trainer, sft_trainer

datasets.disable_progress_bars()

CHATML = ("{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.role == 'assistant' %}{% generation %}"
          "{{ message.content }}<|im_end|>{% endgeneration %}{% else %}{{ message.content }}<|im_end|>{% endif %}\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
# A generation prompt that a whole conversation does not have.
THINKING = ("{% if tools %}tools: {{ tools | tojson }}\n{% endif %}{% for message in messages %}[{{ message.role }}]"
            "{% if message.role == 'assistant' %}{% generation %}{{ message.content | trim }}{{ eos_token }}{% endgeneration %}"
            "{% else %}{{ message.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]<think>{{ mood }}{% endif %}")
WORDS = ["the", " sky", " is", " blue", "é", "日本", " 🙂", "\n", "a", "b", "  ", " ab", "c", "<|im_end|>", "</s>", "?", "!!", "is", " th"]


def make_tokenizers(directory: pathlib.Path) -> dict:
    text = ["the sky is blue and the sea is green, what is it?", "ab abc abcd the this that", "日本 é 🙂 !! ??", "user assistant system"] * 3
    made = {}
    for name, special, template, bos in (("chatml", ["<|im_start|>", "<|im_end|>", "<pad>"], CHATML, None),
                                         ("thinking", ["<s>", "</s>", "<pad>"], THINKING, "<s>")):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name == "chatml")
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.train_from_iterator(text, trainers.BpeTrainer(
            vocab_size=420, show_progress=False, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        if bos:
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{bos} $A", pair=f"{bos} $A {bos} $B", special_tokens=[(bos, tokenizer.token_to_id(bos))])
        fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=special[1], bos_token=bos, pad_token="<pad>")
        fast.chat_template = template
        fast.save_pretrained(directory / name)
        if name == "thinking":  # what the file says about lengths does not count
            document = json.loads((directory / name / "tokenizer.json").read_text())
            document["truncation"] = dict(direction="Right", max_length=8, strategy="LongestFirst", stride=0)
            document["padding"] = dict(strategy={"Fixed": 8}, direction="Right", pad_to_multiple_of=None, pad_id=0, pad_type_id=0, pad_token="<pad>")
            (directory / name / "tokenizer.json").write_text(json.dumps(document))
        made[name] = PreTrainedTokenizerFast.from_pretrained(directory / name)
    return made


def text(draw, least=0):
    return "".join(draw.choice(WORDS) for _ in range(draw.randint(least, 12)))


def answer(draw):
    return [{"role": "assistant", "content": text(draw, 1)}]


def question(draw):
    turns = [{"role": "system", "content": text(draw)}] if draw.random() < 0.4 else []
    for _ in range(draw.randint(0, 2)):
        turns += [{"role": "user", "content": text(draw)}] + answer(draw)
    return turns + [{"role": "user", "content": text(draw)}]


def rows_of(draw, kind):
    count = draw.randint(1, 5)
    with_tools = draw.random() < 0.3
    rows = []
    for _ in range(count):
        if kind == "text":
            row = {"text": text(draw)}
        elif kind == "messages":
            row = {"messages": question(draw) + answer(draw)}
        elif kind == "conversations":
            row = {"conversations": [{"from": m["role"], "value": m["content"]} for m in question(draw) + answer(draw)]}
        elif kind == "prompt_text":
            row = {"prompt": text(draw), "completion": text(draw)}
        elif kind == "prompt_messages":
            row = {"prompt": question(draw), "completion": answer(draw)}
        elif kind == "instructions":
            # A data set has the columns of its first row.
            row = {"instruction": text(draw), "output": text(draw), "input": text(draw) if draw.random() < 0.5 else "",
                   "system": text(draw) if draw.random() < 0.3 else "",
                   "history": [[text(draw), text(draw)] for _ in range(draw.choice([0, 0, 1, 2]))]}
        elif kind == "ids":
            length = draw.randint(1, 12)
            row = {"input_ids": [draw.randint(0, 300) for _ in range(length)],
                   "completion_mask": [draw.randint(0, 1) for _ in range(length - 1)] + [1]}
        elif kind == "pair_text":
            row = {"prompt": text(draw), "chosen": text(draw), "rejected": text(draw)}
        elif kind == "pair_messages":
            row = {"prompt": question(draw), "chosen": answer(draw), "rejected": answer(draw)}
        elif kind == "pair_continued":
            row = {"prompt": question(draw) + [{"role": "assistant", "content": "the sky"}], "chosen": answer(draw), "rejected": answer(draw)}
        elif kind == "implicit_text":
            start = "a" + text(draw)
            row = {"chosen": start + text(draw, 1), "rejected": start + text(draw, 1)}
        else:
            start = question(draw)
            row = {"chosen": start + answer(draw), "rejected": start + answer(draw)}
        if with_tools and kind != "ids":
            row["tools"] = json.dumps([{"type": "function", "function": {"name": text(draw, 1)}}])
            row["chat_template_kwargs"] = {"mood": text(draw)}
        rows.append(row)
    return rows


def as_messages(row):
    """What LLaMA-Factory makes of Alpaca's columns, with an empty line between instruction and input."""
    say = lambda role, content: {"role": role, "content": content}
    prompt = [say("system", row["system"])] if row.get("system") else []
    for asked, answered in row.get("history", []):
        prompt += [say("user", asked), say("assistant", answered)]
    asked = row["instruction"] + ("\n\n" + row["input"] if row.get("input") else "")
    kept = {k: row[k] for k in ("tools", "chat_template_kwargs") if k in row}
    return {"prompt": prompt + [say("user", asked)], "completion": [say("assistant", row["output"])], **kept}


def sft(tokenizer, rows, options):
    rows = [as_messages(row) if "instruction" in row else row for row in rows]
    args = types.SimpleNamespace(dataset_num_proc=None, dataset_text_field="text", shuffle_dataset=False, seed=0,
                                 assistant_only_loss=options["assistant_only_loss"], max_length=options["max_length"],
                                 truncation_mode=options["truncation_mode"])
    trainer = types.SimpleNamespace(_tokenizer=tokenizer, chat_template=None, completion_only_loss=options["completion_only_loss"])
    made = sft_trainer.SFTTrainer._prepare_dataset(trainer, datasets.Dataset.from_list(rows), tokenizer, args, False, None, "train")
    examples = [{"input_ids": e["input_ids"], "labels": e["labels"]} for e in made]
    return examples, sft_trainer.DataCollatorForLanguageModeling(pad_token_id=tokenizer.pad_token_id)


def dpo(tokenizer, rows, options):
    args = types.SimpleNamespace(dataset_num_proc=None, max_length=options["max_length"], truncation_mode=options["truncation_mode"])
    trainer = types.SimpleNamespace(_tokenizer=tokenizer)
    made = dpo_trainer.DPOTrainer._prepare_dataset(trainer, datasets.Dataset.from_list(rows), tokenizer, args, "train")
    examples = [{k: e[k] for k in ("prompt_ids", "chosen_ids", "rejected_ids")} for e in made]
    return examples, dpo_trainer.DataCollatorForPreference(
        pad_token_id=tokenizer.pad_token_id, max_length=options["max_length"], truncation_mode=options["truncation_mode"])


def reward(tokenizer, rows, options):
    args = types.SimpleNamespace(dataset_num_proc=None, max_length=options["max_length"])
    made = reward_trainer.RewardTrainer._prepare_dataset(
        types.SimpleNamespace(), datasets.Dataset.from_list(rows), tokenizer, args, "train")
    keys = ("chosen_ids", "rejected_ids") + (("margin",) if "margin" in rows[0] else ())
    return [{k: e[k] for k in keys} for e in made], reward_trainer.DataCollatorForPreference(pad_token_id=tokenizer.pad_token_id)


def orpo(tokenizer, rows, options):
    trainer = types.SimpleNamespace(is_encoder_decoder=False, processing_class=tokenizer, max_length=options["max_length"], padding_value=0)
    trainer.build_tokenized_answer = types.MethodType(ORPOTrainer.build_tokenized_answer, trainer)
    made = datasets.Dataset.from_list(rows).map(maybe_extract_prompt)
    made = made.map(maybe_apply_chat_template, fn_kwargs={"processing_class": tokenizer})
    made = made.map(lambda row: ORPOTrainer.tokenize_row(trainer, row))
    keys = [k for k in made.column_names if k.endswith(("_ids", "_mask", "_labels"))]
    return [{k: e[k] for k in keys} for e in made], DPODataCollatorWithPadding(pad_token_id=tokenizer.pad_token_id)


KINDS = {"sft": ["text", "messages", "conversations", "prompt_text", "prompt_messages", "instructions", "ids"],
         "dpo": ["pair_text", "pair_messages", "implicit_text", "implicit_messages"],
         "orpo": ["pair_text", "pair_messages", "pair_continued", "implicit_text", "implicit_messages"],
         "reward": ["pair_text", "pair_messages", "implicit_text", "implicit_messages"]}


def main() -> None:
    directory, seed, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    tokenizers = make_tokenizers(directory)
    with open(directory / "cases.jsonl", "w", encoding="utf-8") as out:
        for method, kinds in KINDS.items():
            for index in range(count * len(kinds)):
                draw = random.Random(f"{seed} {method} {index}")
                kind = kinds[index % len(kinds)]
                name = draw.choice(list(tokenizers))
                tokenizer = tokenizers[name]
                options = {"max_length": draw.choice([None, draw.randint(1, 12), draw.randint(5, 60)]), "truncation_mode": "keep_start"}
                if method == "orpo":
                    options["max_length"] = options["max_length"] or 1024
                if method in ("sft", "dpo"):
                    options["truncation_mode"] = draw.choice(["keep_start", "keep_end"])
                if method == "sft":
                    options |= {"assistant_only_loss": kind in ("messages", "conversations", "prompt_messages", "instructions") and draw.random() < 0.5,
                                "completion_only_loss": draw.random() < 0.7}
                rows = rows_of(draw, kind)
                if method == "reward" and draw.random() < 0.5:
                    rows = [row | {"margin": draw.choice([0.5, 1.0, -0.25])} for row in rows]
                given = list(datasets.Dataset.from_list(rows))
                case = {"tokenizer": name, "method": method, "kind": kind, "options": options, "rows": given, "pad": tokenizer.pad_token_id}
                try:
                    examples, collator = globals()[method](tokenizer, rows, options)
                except Exception as error:  # a row that it refuses
                    case["error"] = f"{type(error).__name__}: {error}"
                else:
                    case["expected"] = examples
                    if examples:
                        batch = collator(examples[:4])
                        case["batch"] = {k: v.tolist() for k, v in batch.items() if isinstance(v, torch.Tensor)}
                out.write(json.dumps(case) + "\n")


if __name__ == "__main__":
    main()
