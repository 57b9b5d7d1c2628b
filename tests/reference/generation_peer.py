"""What transformers does, for tests/generation. usage: generation_peer.py processors|configs|stop_strings DIRECTORY …"""

import json
import os
import pathlib
import random
import sys
import types
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from safetensors.torch import save_file
from transformers.generation.configuration_utils import GenerationConfig
from transformers.utils import logging

torch.set_num_threads(1)
logging.set_verbosity_error()
logging.disable_progress_bar()
warnings.simplefilter("ignore")


OURS = ("presence_penalty", "frequency_penalty")  # which transformers does not have


def single_settings(draw: random.Random, vocab: int) -> dict:
    """One setting of each kind, with values that matter."""
    ids = lambda n: [draw.randrange(vocab) for _ in range(n)]
    unit = lambda: draw.uniform(0.02, 0.98)
    return {
        "temperature": {"do_sample": True, "top_k": 0, "temperature": draw.uniform(0.1, 3.0)},
        "top_k": {"do_sample": True, "top_k": draw.randrange(1, vocab + 5)},
        "top_p": {"do_sample": True, "top_k": 0, "top_p": unit()},
        "min_p": {"do_sample": True, "top_k": 0, "min_p": draw.choice([0.0, 1.0, unit(), 0.1 * unit()])},
        "top_h": {"do_sample": True, "top_k": 0, "top_h": unit()},
        "typical_p": {"do_sample": True, "top_k": 0, "typical_p": unit()},
        "epsilon_cutoff": {"do_sample": True, "top_k": 0, "epsilon_cutoff": draw.choice([1e-3, 0.02, 0.3, 0.9])},
        "eta_cutoff": {"do_sample": True, "top_k": 0, "eta_cutoff": draw.choice([1e-3, 0.02, 0.3, 0.9])},
        "repetition_penalty": {"repetition_penalty": draw.uniform(0.5, 2.5)},
        "no_repeat_ngram_size": {"no_repeat_ngram_size": draw.randrange(1, 5)},
        "encoder_repetition_penalty": {"encoder_repetition_penalty": draw.choice([0.4, 2.5])},
        "encoder_no_repeat_ngram_size": {"encoder_no_repeat_ngram_size": draw.randrange(1, 4)},
        "bad_words_ids": {"bad_words_ids": [ids(draw.randrange(1, 4)) for _ in range(6)] + [[2]]},
        "sequence_bias": {"sequence_bias": [[ids(draw.randrange(1, 4)), draw.uniform(-9, 9)] for _ in range(6)]},
        "forced_bos_token_id": {"forced_bos_token_id": draw.randrange(vocab)},
        "forced_eos_token_id": {"forced_eos_token_id": draw.choice([2, [2, 5]])},
        "min_length": {"min_length": draw.randrange(1, 24)},
        "min_new_tokens": {"min_new_tokens": draw.randrange(1, 12)},
        "suppress_tokens": {"suppress_tokens": ids(7) + [vocab + 3]},
        "begin_suppress_tokens": {"begin_suppress_tokens": ids(7)},
        "exponential_decay_length_penalty": {"exponential_decay_length_penalty": [draw.randrange(6), draw.uniform(1.0, 1.6)]},
        "remove_invalid_values": {"remove_invalid_values": True},
        "renormalize_logits": {"renormalize_logits": True},
        "presence_penalty": {"presence_penalty": draw.uniform(-2, 2)},
        "frequency_penalty": {"frequency_penalty": draw.uniform(-2, 2), "presence_penalty": draw.uniform(-2, 2)},
    }


def openai_penalties(settings: dict, ids: torch.Tensor, scores: torch.Tensor, prompt: int) -> torch.Tensor:
    """The formula of OpenAI's documentation, token by token."""
    scores = scores.clone()
    for row, tokens in enumerate(ids[:, prompt:].tolist()):
        for token in set(tokens):
            scores[row, token] -= settings.get("frequency_penalty", 0.0) * tokens.count(token)
            scores[row, token] -= settings.get("presence_penalty", 0.0)
    return scores


def processors(directory: pathlib.Path, seed: int, rounds: int) -> None:
    from transformers.generation import GenerationMixin

    draw = random.Random(seed)
    torch.manual_seed(seed)
    tensors, cases = {}, []

    def case(name: str, settings: dict) -> None:
        vocab = draw.choice([11, 61, 400])
        rows, length = draw.randrange(1, 5), draw.randrange(1, 20)
        prompt = draw.randrange(1, length + 1)
        ids = torch.randint(0, draw.choice([4, vocab]), (rows, length))
        if name in settings_with_sequences and length > 3:  # so that some sequence does occur
            for entry in settings.get("bad_words_ids", []) + [e[0] for e in settings.get("sequence_bias", [])]:
                row = draw.randrange(rows)
                if 1 < len(entry) <= length + 1:
                    ids[row, length - len(entry) + 1:] = torch.tensor(entry[:-1])
        if name == "forced_bos_token_id" and draw.random() < 0.5:
            ids, prompt = ids[:, :1], 1
        scores = torch.randn(rows, vocab) * draw.choice([0.3, 2.0, 6.0])
        if draw.random() < 0.3:
            scores[:, draw.randrange(vocab)] = -torch.inf
        if name == "remove_invalid_values":
            for value in (torch.nan, torch.inf, -torch.inf):
                scores[draw.randrange(rows), draw.randrange(vocab)] = value
        settings = dict(settings)
        for key in ("suppress_tokens", "begin_suppress_tokens"):
            if key in settings:
                settings[key] = [t for t in settings[key] if t < vocab or t >= 400]
        def inside(entry): return all(t < vocab for t in entry)
        if "bad_words_ids" in settings:
            settings["bad_words_ids"] = [e for e in settings["bad_words_ids"] if inside(e)]
        if "sequence_bias" in settings:
            settings["sequence_bias"] = [e for e in settings["sequence_bias"] if inside(e[0])]
            if not settings["sequence_bias"]:
                del settings["sequence_bias"]
        if settings.get("forced_bos_token_id", 0) >= vocab:
            settings["forced_bos_token_id"] = 3
        if "suppress_tokens" in settings:  # what is forced cannot be suppressed
            settings["suppress_tokens"] = [t for t in settings["suppress_tokens"]
                                           if t not in (2, 5, settings.get("forced_bos_token_id"))]
        settings |= {"eos_token_id": draw.choice([2, [2, 5]]), "max_length": draw.choice([length + 1, length + 9])}
        config = GenerationConfig(**{**GenerationConfig._get_default_generation_params(), **settings})
        config._eos_token_tensor = torch.tensor(config.eos_token_id).reshape(-1)
        fake = types.SimpleNamespace(config=types.SimpleNamespace(is_encoder_decoder=False),
                                     _merge_criteria_processor_list=lambda ours, custom: ours)
        theirs = GenerationMixin._get_logits_processor(fake, config, input_ids_seq_length=prompt, device="cpu",
                                                       encoder_input_ids=ids[:, :prompt])
        expected = theirs(ids, scores.clone())
        if "presence_penalty" in settings:
            expected = openai_penalties(settings, ids, expected, prompt)
        number = len(cases)
        tensors.update({f"{number}.ids": ids.contiguous(), f"{number}.scores": scores, f"{number}.expected": expected.contiguous()})
        cases.append({"name": name, "config": settings, "prompt": prompt, "vocab": vocab,
                      "processors": [type(p).__name__ for p in theirs]})

    settings_with_sequences = ("bad_words_ids", "sequence_bias")
    for _ in range(rounds):
        singles = single_settings(draw, draw.choice([11, 61]))
        for name, settings in singles.items():
            case(name, settings)
            if settings.get("do_sample"):  # with beams more tokens are kept
                case(name, {**settings, "num_beams": 3})
        several = {}  # the order is part of the answer
        for name in draw.sample([n for n in singles if n not in OURS], draw.randrange(2, 9)):
            several |= singles[name]
        case("several", several)
    save_file(tensors, directory / "cases.safetensors")
    (directory / "cases.json").write_text(json.dumps(cases))


def drawn_config(draw: random.Random) -> GenerationConfig:
    singles = single_settings(draw, 61)
    settings = {}
    for name in draw.sample([n for n in singles if n not in OURS], draw.randrange(0, 7)):
        settings |= singles[name]
    settings |= {"eos_token_id": draw.choice([2, [2, 5], None]), "pad_token_id": draw.choice([0, 3, None]),
                 "bos_token_id": draw.choice([1, None]), "max_new_tokens": draw.choice([7, None])}
    if draw.random() < 0.4:
        settings |= {"num_beams": 4, "num_return_sequences": draw.randrange(1, 5), "length_penalty": draw.uniform(-2, 2),
                     "early_stopping": draw.choice([True, False, "never"])}
    if draw.random() < 0.3:
        settings |= {"stop_strings": draw.choice(["end", ["a", "b"]]), "max_time": 2.5}
    if draw.random() < 0.3:
        settings |= {"my_own_key": {"a": [1, 2.5]}, "cache_implementation": "static"}
    config = GenerationConfig()
    if "suppress_tokens" in settings:
        settings["suppress_tokens"] = [t for t in settings["suppress_tokens"] if t > 60]
    for key, value in settings.items():
        if value is not None:
            setattr(config, key, value)
    config.validate()
    return config


def configs(directory: pathlib.Path, seed: int) -> None:
    """Files of transformers, and old ones: settings inside of config.json."""
    draw = random.Random(seed)
    for number in range(80):
        config = drawn_config(draw)
        folder = directory / str(number)
        folder.mkdir()
        if number % 4 == 0:
            values = {**config.to_diff_dict(), "model_type": "gpt2", "n_embd": 8, "vocab_size": 99}
            (folder / "config.json").write_text(json.dumps(values))
        else:
            config.to_json_file(folder / "generation_config.json")


def check_configs(theirs: pathlib.Path, ours: str) -> None:
    same = 0
    for folder in theirs.iterdir():
        if (folder / "config.json").exists():
            expected = GenerationConfig.from_pretrained(folder, config_file_name="config.json", _from_model_config=True)
        else:
            expected = GenerationConfig.from_pretrained(folder)
        actual = GenerationConfig.from_pretrained(pathlib.Path(ours) / folder.name)

        def plain(config):
            values = {k: v for k, v in config.to_dict().items() if v is not None and not k.startswith("_")}
            return {k: v[0] if isinstance(v, list) and len(v) == 1 and k in ("eos_token_id", "forced_eos_token_id") else v
                    for k, v in values.items() if k != "transformers_version"}

        if plain(actual) != plain(expected):
            sys.exit(f"{folder.name}: {plain(actual)} is not {plain(expected)}")
        same += 1
    print(same, "configs mean the same")


def stop_strings(directory: pathlib.Path, seed: int) -> None:
    """Random texts of a few letters, cut into random pieces."""
    from transformers.generation.stopping_criteria import StopStringCriteria

    draw = random.Random(seed)
    word = lambda longest: "".join(draw.choice("ab c") for _ in range(draw.randrange(1, longest + 1)))
    tensors, cases = {}, []
    for number in range(60):
        pieces = sorted({word(4) for _ in range(30)})
        stops = sorted({word(6) for _ in range(draw.randrange(1, 4))})
        criterion = StopStringCriteria.__new__(StopStringCriteria)
        criterion.stop_strings = tuple(stops)
        vectors = StopStringCriteria._stop_string_create_embedding_vec(pieces, tuple(range(len(pieces))), tuple(stops))
        criterion.embedding_vec, criterion.max_valid_positions, criterion.max_valid_end_lens = vectors
        criterion.maximum_token_len = max(len(stop) for stop in stops)
        criterion.num_stop_strings = len(stops)
        criterion.target_lens = torch.tensor([len(stop) for stop in stops], dtype=torch.int32)
        ids = torch.randint(0, len(pieces), (40, draw.randrange(1, 12)))
        tensors |= {f"{number}.ids": ids, f"{number}.done": criterion(ids, None)}
        cases.append({"pieces": pieces, "stops": stops})
    save_file(tensors, directory / "cases.safetensors")
    (directory / "cases.json").write_text(json.dumps(cases))


def drawn_settings(draw: random.Random, vocab: int, likely: list[int], prompt: int) -> dict:
    """Greedy or beams, with some of what changes scores and lengths; `likely` are tokens that the model does generate."""
    singles = single_settings(draw, vocab)
    settings = {"max_new_tokens": draw.randrange(1, 13), "pad_token_id": draw.choice([0, 0, 3, None])}
    usable = ("repetition_penalty", "no_repeat_ngram_size", "bad_words_ids", "sequence_bias", "forced_eos_token_id",
              "min_new_tokens", "exponential_decay_length_penalty", "renormalize_logits")
    for name in draw.sample(usable, draw.choice([0, 0, 1, 1, 2, 3])):
        settings |= singles[name]
    if draw.random() < 0.3:
        settings["min_length"] = prompt + draw.randrange(1, 6)
    if draw.random() < 0.3:
        settings["suppress_tokens"] = draw.sample(likely, min(2, len(likely)))
    if draw.random() < 0.2:
        settings["begin_suppress_tokens"] = draw.sample(likely, min(2, len(likely)))
    if draw.random() < 0.8:  # ends that do come
        settings["eos_token_id"] = draw.choice([draw.choice(likely), draw.sample(likely, min(2, len(likely))),
                                                draw.sample(likely, min(3, len(likely)))])
    if draw.random() < 0.6:
        beams = draw.randrange(2, 6)
        settings |= {"num_beams": beams, "num_return_sequences": draw.randrange(1, beams + 1),
                     "length_penalty": draw.choice([-1.0, 0.0, 0.6, 1.0, 2.0]),
                     "early_stopping": draw.choice([True, False, "never"])}
    eos = settings.get("eos_token_id")
    ends = set(eos if isinstance(eos, list) else [eos])
    if "suppress_tokens" in settings:
        settings["suppress_tokens"] = [t for t in settings["suppress_tokens"] if t not in ends and t not in (2, 5)]
    if eos is None:
        settings.pop("exponential_decay_length_penalty", None)
    return settings


class Margin:
    """How near the nearest two choices were that transformers had to tell apart."""

    def __init__(self):
        self.least = float("inf")

    def see(self, sorted_scores: torch.Tensor) -> None:
        gaps = (sorted_scores[..., :-1] - sorted_scores[..., 1:])[sorted_scores[..., 1:] > -1e8]
        if gaps.numel():
            self.least = min(self.least, gaps.min().item())

    def watch(self, model) -> None:
        top_k, finished = type(model)._get_top_k_continuations, type(model)._update_finished_beams

        def watched_top_k(*, accumulated_log_probs, beams_to_keep, **others):
            self.see(accumulated_log_probs.topk(beams_to_keep + 1)[0])
            return top_k(model, accumulated_log_probs=accumulated_log_probs, beams_to_keep=beams_to_keep, **others)

        def watched_finished(**others):
            out = finished(model, **others)
            self.see(out[1])
            return out

        model._get_top_k_continuations, model._update_finished_beams = watched_top_k, watched_finished


def generate(directory: pathlib.Path, seed: int, cases_per_model: int) -> None:
    """Tiny models of every family, prompts padded on the left, and what transformers generates for them."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "models"))
    import remote_code  # noqa: F401
    from odd_configs import ENCODER_CONFIGS, ODD_CONFIGS
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    draw = random.Random(seed)
    tensors, cases = {}, []
    families = list(ODD_CONFIGS.items())
    families += [(f, c) for f, c in ENCODER_CONFIGS.items() if type(AutoConfig.for_model(f)) in AutoModelForSeq2SeqLM._model_mapping]
    for family, configs in families:
        two_stacks = family in ENCODER_CONFIGS
        for index, (name, settings) in enumerate(configs.items()):
            torch.manual_seed(draw.randrange(1 << 30))
            # The routers' balance cannot be computed with a cache: transformers stops with an error.
            changes = {"eos_token_id": None, "bos_token_id": None}
            if two_stacks:
                changes |= {"decoder_start_token_id": draw.choice([0, 4])}
                settings = {k: v for k, v in settings.items() if not k.startswith("forced_")} | {"forced_eos_token_id": None}
            else:
                changes |= {"output_router_logits": False}
            config = AutoConfig.for_model(family, **settings | changes)
            model = (AutoModelForSeq2SeqLM if two_stacks else AutoModelForCausalLM).from_config(config).eval()
            with torch.no_grad():  # so that tokens differ in their scores, and rows in their tokens
                for parameter in model.parameters():
                    parameter.add_(torch.randn_like(parameter) * 0.2)
            folder = f"{family}-{index}"
            model.save_pretrained(directory / folder)
            # Tables that depend on the length are made anew for all tokens only without a cache.
            cached = "dynamic" not in name and "longrope" not in name
            # transformers makes a T5's cache as deep as its encoder, and a deeper decoder falls off its end.
            uncached = two_stacks and getattr(config, "num_decoder_layers", 0) > config.num_hidden_layers
            # transformers' own caches of these fail in some configs, or give other tokens than it gives without one.
            uncached |= family in ("falcon_h1", "minimax")
            for _ in range(cases_per_model):
                rows, length = draw.randrange(1, 4), draw.randrange(1, 9)
                if family == "falcon_h1":  # alone, a token has other logits in transformers than before others
                    length = max(length, 2)
                ids = torch.randint(6, config.vocab_size, (rows, length))
                mask = torch.ones_like(ids)
                for row in range(1, rows):
                    cut = draw.randrange(length)
                    if two_stacks and draw.random() < 0.5:  # an encoder's padding may be on either side
                        mask[row, length - cut :] = 0
                    else:
                        mask[row, :cut] = 0
                ids = torch.where(mask == 1, ids, 0)
                if two_stacks:
                    length = 1  # of what the decoder begins with
                use_cache = cached and draw.random() < 0.5  # ours; the tokens are the same without it
                common = {"attention_mask": mask, "use_cache": use_cache and not uncached}
                free = model.generate(ids, max_new_tokens=12, **common)
                likely = sorted(set(free[:, length + 2 :].flatten().tolist()))
                likely = likely or [7, 8]
                changed = drawn_settings(draw, config.vocab_size, likely, length)
                if draw.random() < (0.4 if two_stacks else 0.1):
                    changed |= draw.choice([{"encoder_repetition_penalty": draw.choice([0.5, 3.0])},
                                            {"encoder_no_repeat_ngram_size": draw.choice([1, 2])}])
                if two_stacks and draw.random() < 0.3:
                    changed["forced_bos_token_id"] = draw.choice([7, 11])
                generation = GenerationConfig(**changed, return_dict_in_generate=True, output_scores=True)
                margin = Margin()
                if changed.get("num_beams", 1) > 1:
                    margin.watch(model)
                with torch.no_grad():
                    if not two_stacks:  # dynamic tables remember the longest row of earlier calls; this resets them
                        model(ids[:1, :1])
                    out = model.generate(ids, generation_config=generation, **common)
                if changed.get("num_beams", 1) == 1:
                    for scores in out.scores:
                        margin.see(scores.topk(2)[0])
                number = len(cases)
                tensors |= {f"{number}.ids": ids, f"{number}.mask": mask, f"{number}.sequences": out.sequences}
                if "num_beams" in changed:
                    tensors |= {f"{number}.scores": out.sequences_scores, f"{number}.origins": out.beam_indices.long()}
                cases.append({"model": folder, "config": changed | {"use_cache": use_cache},
                              "margin": min(margin.least, 1e9)})
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, directory / "cases.safetensors")
    (directory / "cases.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    what, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    globals()[what](directory, *(int(a) if a.isdigit() else a for a in sys.argv[3:]))
