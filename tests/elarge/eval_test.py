"""`easydel eval --task` and the eval action against lm-evaluation-harness's rules, on tiny models that transformers made.
usage: eval_test.py EASYDEL SOURCE_DIRECTORY. EASYDEL_EVAL_DRAWS: how many sets of random data (1)."""

import importlib.util
import json
import math
import os
import pathlib
import random
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_CACHE", tempfile.mkdtemp())
os.environ.setdefault("DISABLE_MULTIPROC", "1")

import datasets
import torch
import yaml
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, PreTrainedTokenizerFast

SOURCE = pathlib.Path(sys.argv.pop())
EASYDEL = sys.argv.pop()
sys.path.insert(0, str(SOURCE / "tests/reference"))
import eval_peer

torch.set_num_threads(1)
datasets.disable_progress_bars()
LENGTH = 40  # tokens that the models see
WORDS = ["red", "blue", "greens", "über", "sun", "moon", "river's", "stone", "walks", "日本", "fast", "slow", "and", "the", "7", "42"]


def text(draw: random.Random, low: int, high: int) -> str:
    return draw.choice([" ", " ", "  ", "\n"]).join(draw.choice(WORDS) for _ in range(draw.randint(low, high)))


def make_tokenizer(path: pathlib.Path, adds_bos: bool) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    draw = random.Random(3)
    tokenizer.train_from_iterator([text(draw, 5, 40) for _ in range(60)], trainers.BpeTrainer(
        vocab_size=330, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    if adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", **({"bos_token": "<s>"} if adds_bos else {}))
    fast.save_pretrained(path)
    return fast


CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def make_model(path: pathlib.Path, kind: str, length: int = LENGTH, chat: str | None = None):
    tokenizer = make_tokenizer(path, adds_bos=kind == "llama")
    if chat:
        tokenizer.chat_template = chat
        tokenizer.save_pretrained(path)
    torch.manual_seed(5)
    config = (LlamaConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                          num_key_value_heads=2, max_position_embeddings=length, bos_token_id=0, eos_token_id=1)
              if kind == "llama" else
              GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=4, n_positions=length, bos_token_id=1, eos_token_id=1))
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(path)
    return model, tokenizer


def write_rows(path: pathlib.Path, rows: list) -> str:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=draw_ascii) + "\n" for draw_ascii, row in zip([True, False] * len(rows), rows)))
    elif path.suffix == ".csv":
        datasets.Dataset.from_list(rows).to_csv(str(path))
    else:
        datasets.Dataset.from_list(rows).to_parquet(str(path))
    return str(path)


def greedy_word(model, tokenizer, context: str) -> str:
    """A continuation that the model finds likeliest, where it is one that encodes back."""
    ids = tokenizer.encode(context)
    if len(ids) > LENGTH:
        return ""
    with torch.no_grad():
        token = model(torch.tensor([ids])).logits[0, -1].argmax().item()
    word = tokenizer.decode([token])
    return word if tokenizer.encode(context + word) == ids + [token] and not context[-1:].isspace() else ""


def make_tasks(directory: pathlib.Path, seed: int, model, tokenizer) -> list[pathlib.Path]:
    draw = random.Random(seed)
    directory.mkdir()
    question = lambda: {"question": text(draw, 1, 9), "choices": [text(draw, 1, 4) + draw.choice(".!") for _ in range(draw.randint(2, 4))],
                        "label": draw.randrange(2), "é": "ü"}
    questions = {split: write_rows(directory / f"{split}.jsonl", [question() for _ in range(n)]) for split, n in [("train", 30), ("test", 14)]}
    named = [{"q": text(draw, 1, 6), "a": "up " + text(draw, 1, 2), "b": "down's", "key": draw.choice("ab"), "right": draw.randrange(2)}
             for _ in range(11)]
    named += [dict(named[3]), dict(named[3])]  # rows that are there more than once
    blanks = [{"before": text(draw, 1, 5), "options": [text(draw, 1, 2), text(draw, 1, 2)], "after": text(draw, 1, 3), "which": draw.randrange(2)}
              for _ in range(9)]
    stories = []
    for i in range(12):
        context = text(draw, 2, 12)
        word = (greedy_word(model, tokenizer, context) if i % 2 else "") or " " + draw.choice(WORDS)
        stories.append({"context": context, "word": word})
    nasty = lambda: "".join(draw.choice(["a", "'", '"', "\\", "\n", "\t", "\x07", "é", "\u2028", "😀", " ", "]", ","]) for _ in range(draw.randint(1, 6)))
    literals = [{"raw": repr([nasty() + "." for _ in range(3)]) if i % 2 else repr((nasty() + ".", "b", "c")).replace("(", "[").replace(")", ",]")}
                for i in range(10)]
    pages = [{"page": text(draw, 1, 150)} for _ in range(5)] + [{"page": ""}, {"page": "  x\u2003y "}]
    (directory / "lines.txt").write_text("\n".join(text(draw, 1, 9).replace("\n", " ") for _ in range(6)) + "\n")

    files = lambda **splits: {"data_files": splits}
    tasks = [
        {"task": "shots", "dataset_path": "json", "dataset_kwargs": files(**questions), "test_split": "test", "fewshot_split": "train",
         "output_type": "multiple_choice", "doc_to_text": "Q: {{question}}\nA:", "doc_to_choice": "choices", "doc_to_target": "label",
         "num_fewshot": 2, "tag": "ours", "metadata": {"version": 2.0}},
        {"task": "itself", "dataset_path": "csv", "dataset_kwargs": files(test=write_rows(directory / "named.csv", named)),
         "test_split": "test", "fewshot_split": "test", "output_type": "multiple_choice", "description": "Of {{key}}:\n",
         "doc_to_text": "{% if key == 'a' %}\nFirst: {{q}} \n{% else %}{{q}}{% endif %}\n", "doc_to_choice": "{{[a, b]}}",
         "doc_to_target": "{{ {'a': 0, 'b': 1}[key] }}", "target_delimiter": "", "fewshot_delimiter": "\n", "num_fewshot": 3,
         "metric_list": [{"metric": "acc_norm", "aggregation": "mean", "higher_is_better": True}, {"metric": "acc_bytes"}, {"metric": "acc"}]},
        {"task": "first", "dataset_path": "csv", "dataset_kwargs": files(validation=write_rows(directory / "named2.csv", named)),
         "validation_split": "validation", "output_type": "multiple_choice", "doc_to_text": "q", "doc_to_choice": ["up", "down"],
         "doc_to_target": "right", "fewshot_config": {"sampler": "first_n", "doc_to_text": "{{q}}?", "target_delimiter": ": "}, "num_fewshot": 2},
        {"task": "texts", "dataset_path": "json", "dataset_kwargs": files(**questions), "test_split": "test", "output_type": "multiple_choice",
         "doc_to_text": "{{question}}  ", "doc_to_choice": "{{choices}}", "doc_to_target": "{{choices[label]}}",
         "fewshot_config": {"samples": [{"question": "why", "choices": ["so", "no"], "label": 1}]}, "num_fewshot": 1},
        {"task": "several", "dataset_path": "json", "dataset_kwargs": files(**questions), "test_split": "test", "output_type": "multiple_choice",
         "doc_to_text": "", "doc_to_choice": "choices", "doc_to_target": "[0, {{label}}]", "num_fewshot": 0},
        {"task": "literals", "dataset_path": "json", "dataset_kwargs": files(test=write_rows(directory / "literals.jsonl", literals)),
         "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "Which?", "doc_to_choice": "{{raw}}", "doc_to_target": 1},
        {"task": "blanks", "dataset_path": "parquet", "dataset_kwargs": files(test=write_rows(directory / "blanks.parquet", blanks)),
         "test_split": "test", "training_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{which}}",
         "doc_to_choice": "{{[before + ' ' + options[0], before + ' ' + options[1]]}}", "doc_to_target": "after", "num_fewshot": 1},
        {"task": "stories", "dataset_path": "json", "dataset_kwargs": files(test=write_rows(directory / "stories.jsonl", stories)),
         "test_split": "test", "output_type": "loglikelihood", "doc_to_text": "{{context}}", "doc_to_target": "{{word}}"},
        {"task": "pages", "dataset_path": "parquet", "dataset_kwargs": files(test=write_rows(directory / "pages.parquet", pages)),
         "test_split": "test", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "page"},
        {"task": "lines", "dataset_path": "text", "dataset_kwargs": files(train=str(directory / "lines.txt")), "validation_split": "train",
         "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
         "metric_list": [{"metric": "bits_per_byte"}, {"metric": "byte_perplexity"}]},
    ]
    paths = []
    for task in tasks:
        paths.append(directory / f"{task['task']}.yaml")
        paths[-1].write_text(yaml.safe_dump(task, sort_keys=False, allow_unicode=True))
    return paths


def run(*args, ok: bool = True) -> str:
    done = warm_start.run([EASYDEL, "--log", "error", *map(str, args)], text=True, timeout=300)
    assert (done.returncode == 0) == ok, done.stderr
    return done.stdout if ok else done.stderr


class Eval(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp())
        cls.models = {kind: make_model(cls.directory / kind, kind) for kind in ("llama", "gpt2")}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def check(self, ours: dict, theirs: dict, what: str):
        for key, value in theirs.items():
            if not key.endswith(",none"):
                continue
            if isinstance(value, str):
                self.assertEqual(ours[key], value, f"{what} {key}")
            else:
                # A perplexity is exp of a log-likelihood, which is what float32 gives to 1e-6 of its size.
                scale = max(1.0, math.log(theirs["perplexity,none"])) if key.startswith("perplexity") else 1.0
                self.assertAlmostEqual(ours[key] / (value or 1), value / (value or 1), delta=1e-6 * scale, msg=f"{what} {key}: {ours[key]} {value}")
        self.assertEqual({k for k in ours if "," in k}, {k for k in theirs if "," in k}, what)

    def test_results_are_the_harnesss(self):
        has_harness = importlib.util.find_spec("lm_eval") is not None
        for seed in range(int(os.environ.get("EASYDEL_EVAL_DRAWS", "1"))):
            for kind, (model, tokenizer) in self.models.items():
                scorer = eval_peer.Scorer(model, tokenizer, LENGTH)
                tasks = make_tasks(self.directory / f"{kind}{seed}", seed, model, tokenizer)
                names = [arg for task in tasks for arg in ("--task", task)]
                for shots, limit in [(None, None), (1, 5), (None, 0.3)]:
                    options = [*(["--num-fewshot", shots] if shots else []), *(["--limit", limit] if limit else [])]
                    ours = json.loads(run("eval", self.directory / kind, *names, *options, "--json"))
                    for task in tasks:
                        what, name = f"{kind} seed {seed}, {task.stem}, shots {shots}, limit {limit}", task.stem
                        peer = eval_peer.Task(task, shots, limit)
                        self.check(ours["results"][name], peer.results(scorer), what)
                        self.assertEqual(ours["n-samples"][name], {"original": len(peer.rows), "effective": peer.count}, what)
                        if has_harness:
                            theirs = eval_peer.harness_results(self.directory / kind, task, shots, limit)
                            self.check(ours["results"][name], theirs, what + ", the package")
                            self.assertEqual(ours["n-samples"][name], theirs["n-samples"], what)

    def test_ranks_give_one_answer(self):
        model, tokenizer = self.models["llama"]
        tasks = make_tasks(self.directory / "ranks", 11, model, tokenizer)
        names = [arg for task in tasks for arg in ("--task", task)]
        alone = json.loads(run("eval", self.directory / "llama", *names, "--limit", "5", "--json"))
        for mesh in (["--devices", "4", "--mesh", "2,1,1,2,1"], ["--devices", "2", "--mesh", "1,1,1,1,2"]):
            several = json.loads(run("eval", self.directory / "llama", *names, "--limit", "5", "--json", *mesh, "--batch-size", "3"))
            for name, result in alone["results"].items():
                self.check(several["results"][name], result, f"{name} {mesh}")

    def test_the_eval_action_does_the_same_and_writes_it(self):
        model, tokenizer = self.models["llama"]
        make_tasks(self.directory / "action", 12, model, tokenizer)
        config = {"model": {"name_or_path": str(self.directory / "llama")}, "loader": {"dtype": "fp32", "param_dtype": "fp32", "device": "cpu"},
                  "eval": {"limit": 6, "fewshot_random_seed": 7, "include_path": str(self.directory / "action")},
                  "actions": ["validate", {"eval": {"tasks": ["shots", "pages"], "output_path": str(self.directory / "out/results.json")}}]}
        path = self.directory / "run.yaml"
        path.write_text(yaml.safe_dump(config))
        printed = run("elarge", path)
        self.assertRegex(printed, r"Tasks +Version +n-shot +Metric +Value +Stderr\n")
        self.assertRegex(printed, r"shots +2.0 +2 +acc +↑ +\d\.\d{4} +\d\.\d{4}\n +acc_norm +↑")
        ours = json.loads((self.directory / "out/results.json").read_text())
        scorer = eval_peer.Scorer(model, tokenizer, LENGTH)
        for name in ("shots", "pages"):
            peer = eval_peer.Task(self.directory / "action" / f"{name}.yaml", None, 6, seed=7)
            self.check(ours["results"][name], peer.results(scorer), name)
        self.assertEqual(ours["n-shot"], {"shots": 2, "pages": 0})
        self.assertEqual(ours["versions"], {"shots": 2.0, "pages": "Yaml"})
        self.assertEqual(ours["higher_is_better"]["shots"], {"acc": True, "acc_norm": True})
        self.assertEqual(ours["configs"]["shots"]["doc_to_choice"], "choices")
        self.assertEqual(run("elarge", path, "--set", "actions.1.eval.print_results=false"), "the config is valid\n")

    def test_examples_are_valid(self):
        for name in ("sft", "dpo", "kto", "bco", "cpo", "grpo", "gfpo", "rlvr", "rloo", "ppo", "prm", "gkd", "seq_kd", "pretrain", "seq2seq",
                     "embedding", "eval"):
            out = run("elarge", SOURCE / f"examples/elarge/{name}.yaml", "--dry-run")
            self.assertIn("would run: validate\nwould run: " + ("eval" if name == "eval" else "train"), out)
        out = run("eval", self.directory / "llama", "--task", SOURCE / "examples/elarge/capitals.yaml")
        self.assertRegex(out, r"capitals +1.0 +2 +acc ")


HAS_HARNESS = importlib.util.find_spec("lm_eval") is not None
ENDS = {"until": ["Question:", "\n\n\n"], "max_gen_toks": 12, "do_sample": False, "temperature": 0.0}


def make_generated_tasks(directory: pathlib.Path, seed: int) -> dict[str, dict]:
    """Tasks that generate, by name. Their right answers are filled in by `fill_in`."""
    draw = random.Random(seed)
    directory.mkdir()
    row = lambda i: {"question": text(draw, 1, 9), "answer": text(draw, 1, 2) + f" #### {draw.choice(WORDS)}", "answers": [text(draw, 1, 1), "moon"],
                     "options": [text(draw, 1, 2), text(draw, 1, 2)], "right": draw.randrange(2), "number": i}
    data = {split: [row(i) for i in range(n)] for split, n in [("train", 8), ("test", 9)]}
    data["test"][4]["question"] = text(draw, 150, 160)  # the end of it is seen
    files = {split: write_rows(directory / f"{split}.jsonl", rows) for split, rows in data.items()}
    base = {"dataset_path": "json", "dataset_kwargs": {"data_files": files}, "test_split": "test", "fewshot_split": "train",
            "output_type": "generate_until", "doc_to_text": "Question: {{question}}\nAnswer:", "doc_to_target": "{{answer}}",
            "generation_kwargs": ENDS}
    word = "([a-z]+)"
    pick = lambda name, *functions: {"name": name, "filter": [f if isinstance(f, dict) else {"function": f} for f in functions]}
    tasks = {
        # As gsm8k is.
        "sums": {"num_fewshot": 2, "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_case": True,
                                                    "ignore_punctuation": False, "regexes_to_ignore": [",", "\\$", "(?s).*#### ", "\\.$"]}],
                 "filter_list": [pick("strict-match", {"function": "regex", "regex_pattern": word}, "take_first"),
                                 pick("flexible-extract", {"function": "regex", "group_select": -1, "regex_pattern": "([a-zü]{2,})|(\\d+)"}, "take_first")]},
        "plain": {"generation_kwargs": {"max_gen_toks": 5}},
        "several": {"doc_to_target": "answers", "metric_list": [{"metric": "exact_match", "ignore_punctuation": True, "ignore_numbers": True}],
                    "filter_list": [pick("low", "lowercase", {"function": "regex", "regex_pattern": word}, "take_first"),
                                    pick("high", "uppercase", "take_first"), pick("bare", "remove_whitespace", "take_first")]},
        "indexed": {"doc_to_choice": "options", "doc_to_target": "right", "filter_list": [pick("first", {"function": "regex", "regex_pattern": word}, "take_first")]},
        "numbers": {"doc_to_target": "number", "filter_list": [pick("mapped", {"function": "regex", "regex_pattern": word}, "take_first", "take_first")]},
        "votes": {"repeats": 3, "filter_list": [pick("vote", {"function": "regex", "regex_pattern": word}, "majority_vote", "take_first"),
                                                pick("two", {"function": "take_first_k", "k": 2}, "remove_whitespace", "take_first")]},
        "prefixed": {"gen_prefix": "It is {{question[:3]}}", "num_fewshot": 1},
        "likeliest": {"generation_kwargs": {**ENDS, "do_sample": True, "temperature": 0.7, "top_k": 1}},
    }
    tasks["numbers"]["filter_list"][0]["filter"][1] = {"function": "map", "mapping_dict": {"red": "1", "stone": "2", "the": "4"}, "default_value": "0"}
    return {name: base | {"task": name} | task for name, task in tasks.items()}


def fill_in(rows: list[dict], samples: list[dict]) -> list[dict]:
    """Every second row gets a right answer that the model gives, in some form."""
    answers = {s["doc_id"]: s["resps"][0][0] for s in samples}
    for i, row in enumerate(rows):
        words = "".join(c if c.isascii() and c.islower() else " " for c in answers[i]).split()
        if i % 2 == 0 and words:
            row["answer"] = "so #### " + words[0].upper() + "."
            row["answers"] = ["never", words[0]]
            row["options"][row["right"]] = words[0]
        if i % 2 == 1:
            row["answer"] = row["answers"][0] = answers[i]
    return rows


@unittest.skipUnless(HAS_HARNESS, "lm_eval is not installed")
class Generated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp())
        cls.path = cls.directory / "model"
        cls.model, cls.tokenizer = make_model(cls.path, "llama", length=96, chat=CHAT)
        cls.tasks = make_generated_tasks(cls.directory / "tasks", 21)
        first = cls.write(cls.tasks["several"] | {"task": "first"})
        samples = eval_peer.harness_results(cls.path, first, log_samples=True)["samples"]
        file = cls.directory / "tasks/test.jsonl"
        write_rows(file, fill_in([json.loads(line) for line in file.read_text().splitlines()], samples))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    @classmethod
    def write(cls, task: dict) -> pathlib.Path:
        path = cls.directory / "tasks" / f"{task['task']}.yaml"
        path.write_text(yaml.safe_dump(task, sort_keys=False, allow_unicode=True))
        return path

    def ours(self, *paths, options=()) -> dict:
        return json.loads(run("eval", self.path, *(arg for path in paths for arg in ("--task", path)), *options, "--json"))["results"]

    def same(self, path: pathlib.Path, ours: dict, what: str, **options) -> dict:
        theirs = eval_peer.harness_results(self.path, path, **options)
        keys = {key for key in theirs if "," in key}
        self.assertEqual({key for key in ours if "," in key}, keys, what)
        for key in keys:
            if isinstance(theirs[key], str):
                self.assertEqual(ours[key], theirs[key], f"{what} {key}")
            else:
                self.assertAlmostEqual(ours[key], theirs[key], delta=1e-9, msg=f"{what} {key}")
        return theirs

    def test_results_are_the_harnesss(self):
        paths = {name: self.write(task) for name, task in self.tasks.items()}
        results = self.ours(*paths.values())
        right = 0.0
        for name, path in paths.items():
            theirs = self.same(path, results[name], name)
            right += sum(value for key, value in theirs.items() if key.startswith("exact_match,"))
        self.assertGreater(right, 2.0)  # or else nothing was compared
        self.assertGreater(results["sums"]["exact_match,strict-match"], results["plain"]["exact_match,none"])

    def test_chat_templates(self):
        names = ("sums", "plain", "prefixed")
        paths = [self.write(self.tasks[name]) for name in names]
        for flags, options in [(["--apply-chat-template"], {"apply_chat_template": True}),
                               (["--apply-chat-template", "--fewshot-as-multiturn", "--system-instruction", "Be brief."],
                                {"apply_chat_template": True, "fewshot_as_multiturn": True, "system_instruction": "Be brief."}),
                               (["--system-instruction", "Be brief.", "--num-fewshot", "1"], {"system_instruction": "Be brief.", "shots": 1})]:
            results = self.ours(*paths, options=flags)
            for name, path in zip(names, paths):
                self.same(path, results[name], f"{name} {flags}", **options)

    def test_log_likelihoods_with_a_chat_template(self):
        path = self.write({"task": "scored", "dataset_path": "json", "dataset_kwargs": self.tasks["sums"]["dataset_kwargs"], "test_split": "test",
                           "fewshot_split": "train", "num_fewshot": 1, "output_type": "multiple_choice", "doc_to_text": "{{question[:20]}}?",
                           "doc_to_choice": "options", "doc_to_target": "right"})
        results = self.ours(path, options=["--apply-chat-template"])
        self.same(path, results["scored"], "scored", apply_chat_template=True, fewshot_as_multiturn=False)

    def test_gen_kwargs_win_over_the_tasks(self):
        path = self.write(self.tasks["several"])
        results = self.ours(path, options=["--gen-kwargs", "max_gen_toks=2,temperature=0"])
        self.same(path, results["several"], "gen_kwargs", gen_kwargs="max_gen_toks=2,temperature=0")

    def test_batches_do_not_change_answers(self):
        path = self.write(self.tasks["sums"])
        self.assertEqual(self.ours(path), self.ours(path, options=["--batch-size", "1"]))

    def test_instructions(self):
        eval_peer.load_ifeval()
        draw = random.Random(5)
        kinds = [("keywords:existence", {"keywords": ["the"]}), ("keywords:frequency", {"keyword": "the", "frequency": 1, "relation": "less than"}),
                 ("length_constraints:number_words", {"num_words": 4, "relation": "at least"}), ("punctuation:no_comma", {}),
                 ("startend:quotation", {}), ("detectable_format:title", {}), ("keywords:letter_frequency", {"letter": "s", "let_frequency": 2, "let_relation": "at least"})]
        rows = []
        for i in range(12):
            chosen = draw.sample(kinds, 2)
            empty = {key: None for _, kwargs in kinds for key in kwargs}  # a column of objects has one form for all
            rows.append({"key": i, "prompt": text(draw, 1, 6), "instruction_id_list": [k for k, _ in chosen], "kwargs": [empty | v for _, v in chosen]})
        file = write_rows(self.directory / "tasks/instructions.jsonl", rows)
        names = [f"{level}_level_{kind}_acc" for level in ("prompt", "inst") for kind in ("strict", "loose")]
        task = {"task": "instructions", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": file}}, "test_split": "test",
                "output_type": "generate_until", "num_fewshot": 0, "doc_to_text": "prompt", "doc_to_target": 0,
                "generation_kwargs": {"until": [], "do_sample": False, "temperature": 0.0, "max_gen_toks": 16},
                "metric_list": [{"metric": name, "higher_is_better": True} for name in names]}
        ours = self.ours(self.write(task))["instructions"]
        (self.directory / "tasks/ifeval_utils.py").write_text("from lm_eval.tasks.ifeval.utils import agg_inst_level_acc, process_results\n")
        lines = yaml.safe_dump({k: v for k, v in task.items() if k != "metric_list"}, sort_keys=False)
        lines += "process_results: !function ifeval_utils.process_results\nmetric_list:\n"
        for name in names:
            aggregation = "!function ifeval_utils.agg_inst_level_acc" if name.startswith("inst") else "mean"
            lines += f"  - {{metric: {name}, higher_is_better: true, aggregation: {aggregation}}}\n"
        theirs = self.directory / "tasks/instructions.yaml"
        theirs.write_text(lines)
        found = self.same(theirs, ours, "instructions")
        self.assertTrue(0 < found["inst_level_strict_acc,none"] < 1, found)

    def code_task(self) -> dict:
        code = {"good": "def f(a):\n    return a + 1\n", "endless": "def f(a):\n    while True: pass\n", "leaves": "import sys\ndef f(a):\n    sys.exit(0)\n",
                "wrong": "def f(a):\n    return a\n"}
        rows = [{"prompt": body + "# ", "test": "def check(g):\n    assert g(1) == 2", "entry_point": "f"} for body in code.values()]
        file = write_rows(self.directory / "tasks/code.jsonl", rows)
        return {"task": "code", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": file}}, "test_split": "test", "unsafe_code": True,
                "output_type": "generate_until", "doc_to_text": "{{prompt}}", "doc_to_target": "{{test}}\ncheck({{entry_point}})",
                "metric_list": [{"metric": "pass_at_k", "k": [1]}], "generation_kwargs": {"until": ["\n"], "max_gen_toks": 6, "do_sample": False},
                "filter_list": [{"name": "create_test", "filter": [{"function": "custom", "filter_fn": "build_predictions"}]}]}

    def test_code(self):
        path = self.write(self.code_task())
        self.assertIn("runs model-generated Python code with the user's permissions and without a sandbox. Confirm it with "
                      "--confirm-run-unsafe-code or eval.confirm_run_unsafe_code.", run("eval", self.path, "--task", path, ok=False))
        results = self.ours(path, options=["--confirm-run-unsafe-code"])["code"]
        self.assertEqual(results["pass@1,create_test"], 0.25)

    def test_the_table_has_filters(self):
        out = run("eval", self.path, "--task", self.write(self.tasks["sums"]))
        self.assertRegex(out, r"Tasks +Version +Filter +n-shot +Metric +Value +Stderr\n")
        self.assertRegex(out, r"sums +Yaml +strict-match +2 +exact_match +↑ +\d\.\d{4} +\d\.\d{4}\n +flexible-extract +exact_match")

    def refused(self, message: str, options=(), **changes):
        error = run("eval", self.path, "--task", self.write(self.tasks["plain"] | {"task": "bad"} | changes), *options, ok=False)
        self.assertIn(message, error)

    def test_what_is_refused(self):
        self.refused('metric_list: "bleu" is not a metric of this output_type; known: exact_match, ', metric_list=[{"metric": "bleu"}])
        self.refused("generation_kwargs.num_beams is not supported.", generation_kwargs={"num_beams": 2})
        self.refused("generation_kwargs.max_gen_toks must be below 96, the model's maximum length; got 96.", generation_kwargs={"max_gen_toks": 96})
        self.refused('filter_list: "format_span" is not a filter; known: regex, ', filter_list=[{"name": "a", "filter": [{"function": "format_span"}]}])
        self.refused('"a" must have take_first as its last function.',
                     filter_list=[{"name": "a", "filter": [{"function": "take_first"}, {"function": "lowercase"}]}])
        self.refused("regex_pattern is not a valid regular expression: ", filter_list=[{"name": "a", "filter": [{"function": "regex", "regex_pattern": "("}]}])
        self.refused("[eval] fewshot_as_multiturn needs apply_chat_template.", options=["--fewshot-as-multiturn"])
        self.refused("is an lm-evaluation-harness key that is not supported here.", process_results="f")

    def test_examples(self):
        out = run("eval", self.path, "--task", SOURCE / "examples/elarge/sums.yaml", "--task", SOURCE / "examples/elarge/instructions.yaml",
                  "--gen-kwargs", "max_gen_toks=8")
        self.assertRegex(out, r"sums +1.0 +strict-match +3 +exact_match")
        self.assertRegex(out, r"instructions +1.0 +none +0 +prompt_level_strict_acc")
        out = run("eval", self.path, "--task", SOURCE / "examples/elarge/functions.yaml", "--gen-kwargs", "max_gen_toks=8", "--confirm-run-unsafe-code")
        self.assertRegex(out, r"functions +1.0 +create_test +0 +pass@1")


GOOD = {"task": "t", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}}, "test_split": "test",
        "output_type": "multiple_choice", "doc_to_text": "{{q}}", "doc_to_choice": "c", "doc_to_target": "a"}
ROWS = [{"q": "one", "c": ["x", "y"], "a": 0}, {"q": "two", "c": ["x", "y"], "a": 1}, {"q": "three", "c": ["x", "y"], "a": 1}]


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp())
        make_model(cls.directory / "model", "llama")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def refused(self, message: str, rows=None, options=(), raw: str | None = None, **changes):
        task = {key: value for key, value in (GOOD | changes).items() if value is not None}
        (self.directory / "t.yaml").write_text(raw if raw is not None else yaml.safe_dump(task, sort_keys=False))
        (self.directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (ROWS if rows is None else rows)))
        error = run("eval", self.directory / "model", "--task", self.directory / "t.yaml", *options, ok=False)
        self.assertEqual(error.replace(str(self.directory) + "/", "").splitlines()[-1], "easydel: " + message)

    def test_task_files(self):
        error = run("eval", self.directory / "model", "--task", "nothing", "--include-path", "/there", ok=False)
        self.assertEqual(error, 'easydel: [eval] there is no task file "nothing.yaml"; looked in the working directory, /there. The tasks of '
                                "lm-evaluation-harness are not built in: give a file.\n")
        self.refused("[eval] t.yaml must be a mapping of keys; got an array.", raw="[1, 2]")
        self.refused("[eval] t.yaml: task is missing; it must be the name of the task.", task=None)
        self.refused("[eval] t.yaml: dataset_path is missing; it must be json, csv, parquet, arrow, text or a directory.", dataset_path=None)
        self.refused("[eval] t.yaml: doc_to_target is missing.", doc_to_target=None)
        self.refused('[eval] t.yaml:11: doc_to_txt is not a key of a task. Did you mean "doc_to_text"?', doc_to_txt="q")
        self.refused("[eval] t.yaml:7: output_type must be multiple_choice, loglikelihood, loglikelihood_rolling or generate_until; "
                     'got "generate".', output_type="generate")
        self.refused("[eval] t.yaml:11: process_docs is an lm-evaluation-harness key that is not supported here.", process_docs="f")
        self.refused('[eval] t.yaml:11: metric_list: "f1" is not a metric of this output_type; known: acc, acc_norm, acc_bytes.',
                     metric_list=[{"metric": "f1"}])
        self.refused("[eval] t.yaml:11: fewshot_config.sampler must be default or first_n; got \"balanced\".", fewshot_config={"sampler": "balanced"})
        self.refused('[eval] t.yaml:2: dataset_path must be json, csv, parquet, arrow, text or a local directory; got "user/set". '
                     "Download the data set and list its files.", dataset_path="user/set")
        self.refused('[eval] t.yaml:3: dataset_kwargs.data_files has no files for the split "tests"; it has test. Did you mean "test"?',
                     test_split="tests")
        self.refused("[eval] t.yaml:8: doc_to_text is not a valid template: line 1: unexpected end of template, expected 'end of print statement'.", doc_to_text="{{q")

    def test_rows(self):
        broken = lambda **changes: ROWS[:1] + [{key: value for key, value in (ROWS[1] | changes).items() if value is not None}] + ROWS[2:]
        self.refused('[eval] t.yaml:10: doc_to_target: rows.jsonl, line 2 has no field "a"; it has q, c.', rows=broken(a=None))
        self.refused("[eval] t.yaml:8: doc_to_text fails on rows.jsonl, line 2: line 1 of the template: 'q' is undefined.", rows=broken(q=None))
        self.refused("[eval] t.yaml:10: doc_to_target gives 2 for rows.jsonl, line 2, which has 2 choices: an index from 0 to 1.", rows=broken(a=2))
        self.refused('[eval] t.yaml:10: doc_to_target gives "z" for rows.jsonl, line 2, which is not one of its 2 choices.', rows=broken(a="z"))
        self.refused("[eval] t.yaml:9: doc_to_choice must give a list of strings; got 3 among them for rows.jsonl, line 2.", rows=broken(c=["x", 3]))
        self.refused('[eval] t.yaml:9: doc_to_choice: "d" is not a field of the data. Did you mean "a"? To use it as literal text, write '
                     "{{ 'd' }}.", doc_to_choice="d")
        self.refused('[eval] t.yaml:9: doc_to_choice must give a list; got "one, two" for rows.jsonl, line 1. A list of the data prints as one: '
                     "{{ choices }}.", doc_to_choice="{{q}}, two")
        self.refused("[eval] t.yaml: num_fewshot is 4; there are 3 rows to draw from.", options=["--num-fewshot", "4"])
        self.refused('[eval] rows.jsonl, line 1: the continuation "" has no token of its own.', doc_to_choice=["", "x"], target_delimiter="")


if __name__ == "__main__":
    unittest.main(verbosity=2)
