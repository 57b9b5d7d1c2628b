"""lm-evaluation-harness's rules in short, with log-likelihoods from transformers' logits, for tests/elarge/eval_test.py.
The same results come from the package itself where it is installed: see `harness_results`."""

import ast
import copy
import json
import math
import pathlib
import random
import re

import datasets
import jinja2
import torch
import yaml

ENVIRONMENT = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
DEFAULT_METRICS = {"multiple_choice": ["acc", "acc_norm"], "loglikelihood": ["perplexity", "acc"],
                   "loglikelihood_rolling": ["word_perplexity", "byte_perplexity", "bits_per_byte"]}


def mean(values):
    return sum(values) / len(values)


def deviation(values):
    middle = mean(values)
    return math.sqrt(sum((v - middle) ** 2 for v in values) / (len(values) - 1))


class Scorer:
    def __init__(self, model, tokenizer, max_length):
        self.model, self.tokenizer, self.max_length = model, tokenizer, max_length
        self.prefix = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id

    def encode(self, text, **options):
        if not options and text.startswith(self.tokenizer.decode(self.prefix)):
            options = {"add_special_tokens": False}
        return self.tokenizer.encode(text, **options)

    def tokens(self, context, continuation):
        """The log-likelihood of tokens, and whether each is the likeliest."""
        assert context and continuation
        ids = (context + continuation)[-(self.max_length + 1):]
        with torch.no_grad():
            logits = self.model(torch.tensor([ids[:-1]])).logits[0].double().log_softmax(-1)[-len(continuation):]
        wanted = torch.tensor(continuation)
        return logits.gather(1, wanted[:, None]).sum().item(), bool((logits.argmax(-1) == wanted).all())

    def pair(self, context, continuation):
        if not context:
            ids = self.encode(continuation, add_special_tokens=False)
            return self.tokens([self.prefix], ids) if ids[0] != self.prefix else self.tokens(ids[:1], ids[1:])
        kept = context.rstrip()
        continuation = context[len(kept):] + continuation
        first = self.encode(kept)
        return self.tokens(first, self.encode(kept + continuation)[len(first):])

    def rolling(self, text):
        ids, total, done = self.encode(text), 0.0, 0
        while done < len(ids):
            end = min(done + self.max_length, len(ids))
            context = [self.prefix] if done == 0 else ids[max(0, end - self.max_length - 1):done]
            total += self.tokens(context, ids[done:end])[0]
            done = end
        return total


class Task:
    def __init__(self, path, shots=None, limit=None, seed=1234):
        self.c = {"target_delimiter": " ", "fewshot_delimiter": "\n\n", "description": "", "doc_to_choice": None}
        self.c |= yaml.safe_load(path.read_text())
        self.data = datasets.load_dataset(self.c["dataset_path"], **self.c.get("dataset_kwargs", {}))
        self.rows = self.data[self.c.get("test_split") or self.c["validation_split"]]
        self.shots = self.c.get("num_fewshot") if shots is None or self.c.get("num_fewshot") == 0 else shots
        self.few = {k: self.c[k] for k in ("doc_to_text", "doc_to_target", "doc_to_choice", "target_delimiter", "fewshot_delimiter")}
        self.few |= {"split": self.c.get("fewshot_split"), "sampler": "default"} | (self.c.get("fewshot_config") or {})
        self.count = len(self.rows) if limit is None else math.ceil(len(self.rows) * limit) if limit < 1 else int(limit)
        self.random = random.Random(seed)
        self.indexed = self.c["output_type"] == "multiple_choice" and isinstance(self.text(self.rows[0]), int)

    def field(self, given, row):
        if not isinstance(given, str):
            return list(given.values()) if isinstance(given, dict) else given
        if given in self.rows.features:
            return row[given]
        text = ENVIRONMENT.from_string(given).render(**row)
        if text.isdigit() and self.c["doc_to_choice"] is not None:
            return int(text)
        try:
            return ast.literal_eval(text) if text[:1] == "[" and text[-1:] == "]" else text
        except (SyntaxError, ValueError):
            return text

    def text(self, row):
        return self.field(self.c["doc_to_text"], row)

    def examples(self, row):
        if not self.shots:
            return []
        splits = [self.few["split"], self.c.get("training_split"), self.c.get("validation_split"), self.c.get("test_split")]
        pool = self.few.get("samples") if not self.few["split"] else None
        pool = pool or list(self.data[next(s for s in splits if s)])
        itself = self.few["split"] == self.c.get("test_split")
        if self.few["sampler"] == "first_n":
            return [r for r in pool if not itself or r != row][:self.shots]
        drawn = self.random.sample(pool, self.shots + itself)
        drawn = [r for r in drawn if r != row][:self.shots] if itself else drawn
        return drawn if len(drawn) == self.shots else self.random.sample([r for r in pool if r != row], self.shots)

    def context(self, row):
        out = ENVIRONMENT.from_string(self.c["description"]).render(**row)
        for shot in self.examples(row):
            question, answer = self.field(self.few["doc_to_text"], shot), self.field(self.few["doc_to_target"], shot)
            choices = self.few["doc_to_choice"] and self.field(self.few["doc_to_choice"], shot)
            if self.indexed:
                question = choices[question]
            elif isinstance(answer, int) and choices:
                answer = choices[answer]
            answer = answer[0] if isinstance(answer, list) else answer
            out += question + (self.few["target_delimiter"] + answer + self.few["fewshot_delimiter"] if answer else "")
        return out

    def values(self, scorer):
        """Of each row, by metric."""
        kind, rows = self.c["output_type"], []
        for i in range(self.count):
            row = self.rows[i]
            before, target = self.context(row), self.field(self.c["doc_to_target"], row)
            if kind == "loglikelihood_rolling":
                rows.append((scorer.rolling(target), len(re.split(r"\s+", target)), len(target.encode())))
            elif kind == "loglikelihood":
                likelihood, greedy = scorer.pair(before + self.text(row), target)
                rows.append({"perplexity": likelihood, "acc": int(greedy)})
            else:
                choices, delimiter = self.field(self.c["doc_to_choice"], row), self.c["target_delimiter"]
                if self.indexed:
                    scores, gold = [scorer.pair(before + c, delimiter + target)[0] for c in choices], self.text(row)
                else:
                    scores, gold = [scorer.pair(before + self.text(row), delimiter + c)[0] for c in choices], target
                gold = gold if isinstance(gold, list) else [choices.index(gold) if isinstance(gold, str) else int(gold)]
                best = lambda lengths: float(max(range(len(scores)), key=lambda k: scores[k] / lengths[k]) in gold)
                rows.append({"acc": best([1.0] * len(choices)), "acc_norm": best([len(c) for c in choices]),
                             "acc_bytes": best([len(c.encode()) for c in choices])})
        return rows

    def results(self, scorer):
        rows, out = self.values(scorer), {}
        names = [m["metric"] for m in self.c.get("metric_list") or []] or DEFAULT_METRICS[self.c["output_type"]]
        for name in names:
            error = "N/A"
            if self.c["output_type"] == "loglikelihood_rolling":
                weight = sum(row[1 if name == "word_perplexity" else 2] for row in rows)
                rate = -sum(row[0] for row in rows) / weight
                value = rate / math.log(2) if name == "bits_per_byte" else math.exp(rate)
            elif name == "perplexity":
                scores = [row[name] for row in rows]
                value, draws = math.exp(-mean(scores)), []
                for seed in range(100):
                    draw = random.Random(seed)
                    draws += [math.exp(-mean(draw.choices(scores, k=len(scores)))) for _ in range(1000)]
                error = deviation(draws) if len(scores) > 1 else error
            else:
                scores = [row[name] for row in rows]
                value = mean(scores)
                error = deviation(scores) / math.sqrt(len(scores)) if len(scores) > 1 else error
            out[f"{name},none"], out[f"{name}_stderr,none"] = value, error
        return out


def harness_results(model_path: pathlib.Path, task: pathlib.Path, shots=None, limit=None, **options) -> dict:
    """What the package computes; with log_samples also the samples. ImportError without it."""
    from lm_eval import evaluator
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(task.parent), include_defaults=False)
    model = HFLM(pretrained=str(model_path), device="cpu", batch_size=3, dtype="float32")
    name = re.search(r"^task: (\S+)$", task.read_text(), re.M)[1]  # a file with !function is no plain YAML
    out = evaluator.simple_evaluate(model=model, tasks=[name], task_manager=manager, num_fewshot=shots, limit=limit,
                                    **({"log_samples": False} | options))
    found = json.loads(json.dumps(copy.deepcopy(out["results"][name]), default=float)) | {"n-samples": out["n-samples"][name]}
    return found | ({"samples": out["samples"][name]} if options.get("log_samples") else {})


def load_ifeval():
    """lm_eval.tasks.ifeval.utils, whose imports are there or stand-ins: no instruction of the tests needs them."""
    import sys
    import types

    import nltk
    for name, attributes in {"langdetect": {"LangDetectException": ValueError}, "immutabledict": {"immutabledict": dict}}.items():
        try:
            __import__(name)
        except ImportError:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__dict__.update(attributes)
    find, nltk.data.find = nltk.data.find, lambda *_, **__: None  # or else it downloads
    try:
        from lm_eval.tasks.ifeval import utils
    finally:
        nltk.data.find = find
    return utils
