"""Adapters beside peft: outputs, gradients, training, files in both directions, on one device and on meshes.
usage: peft_test.py LORA_PROGRAM EASYDEL"""

import json
import os
import pathlib
import sys
import tempfile
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

import warm_start

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
warnings.filterwarnings("ignore")

PROGRAM, EASYDEL = sys.argv.pop(1), sys.argv.pop(1)
ALL = "EASYDEL_ALL_CASES" in os.environ  # every variant with every family on every mesh

import torch
import transformers
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TOLERANCE = 1e-4  # of the largest value, in float32
SIZES = dict(vocab_size=61, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
FAMILIES = {
    "llama": dict(intermediate_size=48, num_key_value_heads=2, attention_bias=True, tie_word_embeddings=False),
    "gpt2": dict(n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "phi3": dict(intermediate_size=48, num_key_value_heads=2, resid_pdrop=0.0),
}
TARGETS = {
    "llama": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"],
    "gpt2": ["c_attn", "c_proj", "c_fc"],
    "phi3": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"],
}
MESHES = ([1, 2, 1, 2, 1], [2, 1, 1, 1, 2], [1, 1, 1, 4, 1], [1, 2, 1, 1, 2])  # dp, fsdp, ep, tp, sp


def make_base(directory: pathlib.Path, family: str, loader=AutoModelForCausalLM, **changes):
    torch.manual_seed(0)
    config = AutoConfig.for_model(family, **{**SIZES, **FAMILIES[family], **changes})
    config._attn_implementation = "eager"
    model = loader.from_config(config)
    with torch.no_grad():  # what transformers draws is too even to tell mistakes apart
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(directory)
    return model.eval()


def make_adapter(base, family: str, seed: int = 1, **config):
    """A peft model whose adapter does something: nothing in it is zero."""
    torch.manual_seed(seed)
    settings = dict(r=4, lora_alpha=6, target_modules=TARGETS[family], task_type="CAUSAL_LM",
                    fan_in_fan_out=family == "gpt2")
    model = get_peft_model(base, LoraConfig(**{**settings, **config}))
    disturb(model)
    return model.eval()


def disturb(model, adapter: str = "default"):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name and f".{adapter}" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)


def make_batch(vocab: int = 61, rows: int = 4, tokens: int = 12, seed: int = 5) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, vocab, (rows, tokens), generator=generator)
    labels = ids.clone()
    labels[0, :3] = -100
    return {"input_ids": ids, "labels": labels}


def error_of(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference, relative to the largest value."""
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    scale = theirs.double().abs().max().item() or 1.0
    return (ours.double() - theirs.double()).abs().max().item() / scale


def gradients(model) -> dict[str, torch.Tensor]:
    """Under our paths: peft's without what it puts before them, and without the wrapped layers."""
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            path = name.removeprefix("base_model.model.").replace(".base_layer.", ".")
            path += ".weight" if "lora_embedding_" in name else ""
            found[path.replace(".modules_to_save.default.", ".")] = parameter.grad
    return found


def train(model, batch: dict, steps: int, rate: float) -> list[float]:
    model.eval()  # nothing is dropped
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for _ in range(steps):
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.count = 0

    def program(self, **job) -> dict[str, torch.Tensor]:
        self.count += 1
        output = self.directory / f"out{self.count}.safetensors"
        path = self.directory / "job.json"
        job = {key: str(value) if isinstance(value, pathlib.Path) else value for key, value in job.items()}
        path.write_text(json.dumps({"model": str(self.directory / "base"), "output": str(output), **job}))
        done = warm_start.run([PROGRAM, str(path)], text=True)
        if done.returncode != 0:
            raise AssertionError(f"{job}\n{done.stdout}{done.stderr}")
        return load_file(output) if output.exists() else {}

    def batch(self, **sizes) -> dict[str, torch.Tensor]:
        batch = make_batch(**sizes)
        save_file(batch, self.directory / "batch.safetensors")
        return batch

    def adapter(self, model, name: str = "adapter") -> pathlib.Path:
        model.save_pretrained(self.directory / name)
        return self.directory / name

    def assert_close(self, ours: dict, theirs: dict, tolerance: float = TOLERANCE):
        self.assertEqual(set(ours), set(theirs))
        wrong = {name: e for name in theirs if not (e := error_of(ours[name], theirs[name])) < tolerance}
        self.assertFalse(wrong)


VARIANTS = {"plain": {}, "rslora": dict(use_rslora=True), "dora": dict(use_dora=True)}


class Parity(Case):
    def compare(self, family: str, steps: int = 50, loader=AutoModelForCausalLM, batch=None, job={}, changes={},
                **config):
        base = make_base(self.directory / "base", family, loader, **changes)
        model = make_adapter(base, family, **config)
        path = self.adapter(model)
        batch = batch or self.batch()
        theirs = model(**batch)
        theirs.loss.backward()
        expected = {"logits": theirs.logits.detach(), "loss": theirs.loss.detach().reshape(1)}
        expected |= {f"grad.{name}": gradient for name, gradient in gradients(model).items()}
        model.zero_grad()
        expected["losses"] = torch.tensor(train(model, batch, steps, 1e-3), dtype=torch.float64)
        trained = self.adapter(model, "trained")
        ours = self.program(adapters=[str(path)], input=self.directory / "batch.safetensors", steps=steps, rate=1e-3,
                            save=self.directory / "ours", **job)
        leaves = ours.pop("optimizer_leaves").item()
        ours = {name.replace(".a0.", ".default."): tensor for name, tensor in ours.items()}
        self.assert_close(ours, expected)
        theirs = load_file(trained / "adapter_model.safetensors")
        self.assert_close(load_file(self.directory / "ours" / "adapter_model.safetensors"),
                          {name: tensor for name, tensor in theirs.items() if ".base_layer." not in name})
        self.assertEqual(leaves, 2 * sum(p.requires_grad for p in model.parameters()))  # mu and nu of adapters alone
        if steps >= 50:
            self.assertLess(expected["losses"][-1], expected["losses"][0] - 0.05)  # something was learned

    def test_families(self):
        for family in FAMILIES:
            for name, variant in VARIANTS.items():
                if name == "rslora" and family != "llama" and not ALL:
                    continue
                with self.subTest(family=family, variant=name):
                    self.compare(family, **variant)

    def test_meshes(self):
        cases = (("llama", "dora"), ("gpt2", "plain"), ("phi3", "dora"), ("llama", "plain"))
        for i, mesh in enumerate(MESHES):
            for family, variant in cases if ALL else (cases[i], cases[i - 2]):
                with self.subTest(mesh=mesh, family=family, variant=variant):
                    self.compare(family, steps=5, job={"mesh": mesh}, **VARIANTS[variant])

    def test_adapters_first_and_the_mesh_afterwards(self):
        self.compare("llama", steps=10, job={"mesh": [1, 2, 1, 2, 1], "shard_late": True})
        self.compare("llama", steps=10, job={"mesh": [1, 2, 1, 2, 1], "shard_late": True, "fully_shard": True},
                     use_dora=True)

    def test_layers_that_are_computed_again(self):
        self.compare("llama", steps=5, job={"config": {"gradient_checkpointing": "nothing_saveable"}}, use_dora=True)
        self.compare("phi3", steps=5, job={"config": {"gradient_checkpointing": "nothing_saveable"},
                                           "mesh": [1, 2, 1, 2, 1]})

    def test_a_head(self):
        self.compare("llama", steps=10, target_modules=["lm_head", "q_proj"])
        self.compare("llama", steps=10, target_modules=["lm_head", "q_proj"], job={"mesh": [1, 1, 1, 4, 1]},
                     use_dora=True)

    def test_layers_of_other_ranks(self):
        patterns = dict(rank_pattern={"k_proj": 2, r"layers\.1\..*up_proj": 3, "model.layers.0.mlp.gate_proj": 1},
                        alpha_pattern={"o_proj": 3, "layers.1.self_attn.q_proj": 9})
        self.compare("llama", steps=10, target_modules=TARGETS["llama"] + ["up_proj"], **patterns)

    def test_a_classifier_and_its_head(self):
        batch = make_batch()
        batch = {"input_ids": batch["input_ids"], "labels": torch.tensor([0, 1, 1, 0])}
        save_file(batch, self.directory / "batch.safetensors")
        self.compare("llama", steps=20, loader=AutoModelForSequenceClassification, batch=batch,
                     changes={"num_labels": 2}, task_type="SEQ_CLS")


class Files(Case):
    def test_what_peft_wrote_comes_back_as_it_was(self):
        for family, variant in (("llama", "plain"), ("llama", "dora"), ("gpt2", "rslora"), ("phi3", "plain")):
            with self.subTest(family=family, variant=variant):
                model = make_adapter(make_base(self.directory / "base", family), family, **VARIANTS[variant])
                path = self.adapter(model)
                for mesh in ({}, {"mesh": [1, 2, 1, 2, 1]}):
                    self.program(adapters=[str(path)], save=self.directory / "again", **mesh)
                    for name in ("adapter_model.safetensors", "adapter_config.json"):
                        ours, theirs = ((d / name).read_bytes() for d in (self.directory / "again", path))
                        # A base that has no name for peft has the directory that we loaded it from.
                        theirs = theirs.replace(b'"base_model_name_or_path": null',
                                                f'"base_model_name_or_path": "{self.directory / "base"}"'.encode())
                        self.assertEqual(ours.rstrip(), theirs.rstrip(), name)

    def test_what_we_wrote_is_read_by_peft_as_it_is(self):
        patterns = {"llama": "(q|v|down)_proj$", "gpt2": "attn", "phi3": "layers\\.1\\..*proj"}
        for family, variant in (("llama", {}), ("llama", {"dora": True}), ("gpt2", {"rslora": True}), ("phi3", {})):
            with self.subTest(family=family, variant=variant):
                base = make_base(self.directory / "base", family)
                self.batch()
                ours = self.program(apply={"rank": 3, "alpha": 5, "pattern": patterns[family], "random": True, **variant},
                                    input=self.directory / "batch.safetensors", save=self.directory / "ours")
                model = PeftModel.from_pretrained(base, self.directory / "ours").eval()
                batch = make_batch()
                self.assertLess(error_of(ours["logits"], model(**batch).logits), TOLERANCE)
                path = self.adapter(model, "theirs")
                a, b = (load_file(d / "adapter_model.safetensors") for d in (self.directory / "ours", path))
                self.assertEqual(set(a), set(b))
                for name in a:
                    self.assertTrue(torch.equal(a[name], b[name]), name)

    def test_files_of_torch(self):
        model = make_adapter(make_base(self.directory / "base", "llama"), "llama")
        model.save_pretrained(self.directory / "bin", safe_serialization=False)
        self.assertTrue((self.directory / "bin" / "adapter_model.bin").exists())
        self.program(adapters=[str(self.directory / "bin")], save=self.directory / "again")
        ours = load_file(self.directory / "again" / "adapter_model.safetensors")
        theirs = torch.load(self.directory / "bin" / "adapter_model.bin", weights_only=True)
        self.assertEqual(set(ours), set(theirs))
        self.assertTrue(all(torch.equal(ours[name], theirs[name]) for name in ours))


class Several(Case):
    def setUp(self):
        super().setUp()
        self.model = make_adapter(make_base(self.directory / "base", "llama"), "llama")
        self.model.add_adapter("other", LoraConfig(r=4, lora_alpha=3, target_modules=["q_proj", "up_proj"]))
        disturb(self.model, "other")
        self.model.add_adapter("third", LoraConfig(r=2, lora_alpha=4, target_modules=["v_proj"], use_rslora=True))
        disturb(self.model, "third")
        self.model.eval().save_pretrained(self.directory / "all")
        self.paths = [str(self.directory / "all" / name) for name in (".", "other", "third")]
        self.inputs = self.batch()

    def ours(self, **job) -> torch.Tensor:
        return self.program(adapters=self.paths, input=self.directory / "batch.safetensors", **job)["logits"]

    def theirs(self) -> torch.Tensor:
        with torch.no_grad():
            return self.model(**self.inputs).logits

    def test_switched(self):
        for i, name in enumerate(("default", "other", "third")):
            self.model.set_adapter(name)
            self.assertLess(error_of(self.ours(set={f"a{i}": 1}), self.theirs()), TOLERANCE)

    def test_together_with_weights(self):
        self.model.base_model.set_adapter(["default", "other", "third"])
        self.assertLess(error_of(self.ours(set={"a0": 1, "a1": 1, "a2": 1}), self.theirs()), TOLERANCE)
        for module in self.model.modules():
            if hasattr(module, "set_scale"):
                for name, weight in (("default", 0.5), ("other", -2.0), ("third", 3.0)):
                    if name in module.scaling:
                        module.set_scale(name, weight)
        weights = {"a0": 0.5, "a1": -2.0, "a2": 3.0}
        self.assertLess(error_of(self.ours(set=weights), self.theirs()), TOLERANCE)
        self.assertLess(error_of(self.ours(set=weights, mesh=[1, 1, 1, 2, 2]), self.theirs()), TOLERANCE)
        self.assertLess(error_of(self.ours(set=weights, merge=True), self.theirs()), TOLERANCE)

    def test_combined(self):
        for type_, names, weights in (("cat", ("default", "other", "third"), (0.7, 1.5, -0.5)),
                                      ("linear", ("default", "other"), (0.7, 1.5)),
                                      ("linear", ("default", "other"), (0.7, -1.5))):
            with self.subTest(type=type_, weights=weights):
                ours = {f"a{('default', 'other', 'third').index(n)}": w for n, w in zip(names, weights)}
                self.model.add_weighted_adapter(list(names), list(weights), "sum", combination_type=type_)
                self.model.set_adapter("sum")
                got = self.ours(combine={"type": type_, "weights": ours}, set={"combined": 1},
                                save=self.directory / "combined")
                self.assertLess(error_of(got, self.theirs()), TOLERANCE)
                self.model.save_pretrained(self.directory / "sum", selected_adapters=["sum"])
                self.assert_close(load_file(self.directory / "combined" / "adapter_model.safetensors"),
                                  load_file(self.directory / "sum" / "sum" / "adapter_model.safetensors"), 1e-6)
                self.model.delete_adapter("sum")


class Merged(Case):
    def test_merged_equals_unmerged(self):
        for family, variant in (("llama", "plain"), ("llama", "dora"), ("gpt2", "dora"), ("phi3", "rslora")):
            with self.subTest(family=family, variant=variant):
                model = make_adapter(make_base(self.directory / "base", family), family, **VARIANTS[variant])
                path, batch = self.adapter(model), self.batch()
                for mesh in ({}, {"mesh": [1, 2, 1, 2, 1]}):
                    ours = self.program(adapters=[str(path)], input=self.directory / "batch.safetensors", merge=True,
                                        **mesh)["logits"]
                    self.assertLess(error_of(ours, model(**batch).logits.detach()), TOLERANCE)


class Tables(Case):
    """Adapters of embeddings, whose factors peft keeps as lora_embedding_A and B."""

    def test_beside_peft(self):
        for family, targets in (("llama", ["embed_tokens", "q_proj"]), ("gpt2", ["wte", "wpe", "c_attn"])):
            for job in ({}, {"mesh": [1, 2, 1, 2, 1]}):
                with self.subTest(family=family, job=job):
                    # Apart from the head, so that peft too changes the table alone.
                    Parity.compare(self, family, steps=10, job=job, target_modules=targets,
                                   changes={"tie_word_embeddings": False})

    def test_merged_and_drawn_here(self):
        base = make_base(self.directory / "base", "llama")
        model = make_adapter(base, "llama", target_modules=["embed_tokens", "v_proj"])
        path, batch = self.adapter(model), self.batch()
        theirs = model(**batch).logits.detach()
        inputs = self.directory / "batch.safetensors"
        for extra in ({"merge": True}, {"merge": True, "mesh": [1, 1, 1, 2, 2]}, {"mesh": [1, 1, 1, 4, 1]}):
            ours = self.program(adapters=[str(path)], input=inputs, **extra)
            self.assertLess(error_of(ours["logits"], theirs), TOLERANCE)
        apply = {"rank": 3, "alpha": 6, "pattern": "embed_tokens|v_proj", "embeddings": True}
        plain = self.program(input=inputs)["logits"]
        self.assertLess(error_of(self.program(input=inputs, apply=apply)["logits"], plain), 1e-6)  # A begins at zero
        random = self.program(input=inputs, apply={**apply, "random": True}, save=self.directory / "drawn")["logits"]
        again = PeftModel.from_pretrained(make_base(self.directory / "other", "llama"), self.directory / "drawn").eval()
        self.assertLess(error_of(random, again(**batch).logits.detach()), TOLERANCE)
        self.assertGreater(error_of(random, plain), 1e-3)


class FromTheBase(Case):
    """PiSSA and OLoRA, which take from the weight what the adapter begins with."""

    def test_begins_as_peft_does(self):
        for family, init in (("llama", "pissa"), ("llama", "olora"), ("gpt2", "pissa")):
            for mesh in ({}, {"mesh": [1, 2, 1, 2, 1]}):
                with self.subTest(family=family, init=init, **mesh):
                    base = make_base(self.directory / "base", family)
                    batch = self.batch()
                    before = base(**batch).logits.detach()
                    model = get_peft_model(base, LoraConfig(
                        r=4, lora_alpha=6, target_modules=TARGETS[family], fan_in_fan_out=family == "gpt2",
                        init_lora_weights=init)).eval()
                    pattern = "|".join(f"{name}$" for name in TARGETS[family])
                    ours = self.program(apply={"rank": 4, "alpha": 6, "pattern": pattern, "init": init}, weights=True,
                                        input=self.directory / "batch.safetensors", **mesh)
                    self.assertLess(error_of(ours["logits"], before), TOLERANCE)
                    theirs = {name.removeprefix("base_model.model."): p.detach() for name, p in model.named_parameters()}
                    layers = [name.removesuffix(".base_layer.weight") for name in theirs if ".base_layer.weight" in name]
                    self.assertGreater(len(layers), 4)
                    for layer in layers:
                        def product(tensors):
                            return tensors[f"{layer}.lora_B.default.weight"] @ tensors[f"{layer}.lora_A.default.weight"]
                        self.assertLess(error_of(product(ours), product(theirs)), TOLERANCE, layer)
                        rest = theirs[f"{layer}.base_layer.weight"]
                        self.assertLess(error_of(ours[f"{layer}.weight"], rest), TOLERANCE, layer)

    def test_trained_adapters_cross_over(self):
        for init in ("pissa", "olora"):
            with self.subTest(init=init):
                model = make_adapter(make_base(self.directory / "base", "llama"), "llama", init_lora_weights=init)
                path, batch = self.adapter(model), self.batch()
                theirs = model(**batch).logits.detach()
                inputs = self.directory / "batch.safetensors"
                ours = self.program(adapters=[str(path)], input=inputs, steps=3, rate=1e-2,
                                    save=self.directory / "ours")
                self.assertLess(error_of(ours["logits"], theirs), TOLERANCE)
                merged = self.program(adapters=[str(path)], input=inputs, merge=True)
                self.assertLess(error_of(merged["logits"], theirs), TOLERANCE)
                again = PeftModel.from_pretrained(make_base(self.directory / "other", "llama"), self.directory / "ours")
                trained = again.eval()(**batch).logits.detach()
                reloaded = self.program(adapters=[str(self.directory / "ours")], input=inputs)
                self.assertLess(error_of(reloaded["logits"], trained), TOLERANCE)
                self.assertGreater(error_of(trained, theirs), 1e-3)


class Dropout(Case):
    def test_the_same_elements_fall_on_any_mesh(self):
        make_base(self.directory / "base", "llama")
        self.batch()
        job = dict(apply={"rank": 4, "alpha": 8, "pattern": "proj$", "random": True, "dropout": 0.3},
                   input=self.directory / "batch.safetensors", dtype="float64")
        dry, one = self.program(**job), self.program(**job, dropout_key=True)
        self.assertGreater(error_of(one["loss"], dry["loss"]), 1e-6)
        again = {"config": {"gradient_checkpointing": "nothing_saveable"}}
        for i, mesh in enumerate(MESHES):
            for extra in ({}, again) if ALL else ((again if i % 2 else {}),):
                with self.subTest(mesh=mesh, extra=extra):
                    self.assert_close(self.program(**job, dropout_key=True, mesh=mesh, **extra), one, 1e-9)


class CommandLine(Case):
    def run_easydel(self, *args: str, fails: bool = False) -> str:
        done = warm_start.run([EASYDEL, "--log", "error", *map(str, args)], text=True)
        self.assertEqual(done.returncode != 0, fails, f"{args}\n{done.stdout}{done.stderr}")
        return done.stderr if fails else done.stdout

    def forward(self, model: pathlib.Path, *args: str) -> torch.Tensor:
        output = self.directory / "out.safetensors"
        self.run_easydel("forward", model, "--input", self.directory / "batch.safetensors", "--output", output, *args)
        return load_file(output)["logits"]

    def setUp(self):
        super().setUp()
        self.base = self.directory / "base"
        self.model = make_adapter(make_base(self.base, "llama"), "llama")
        self.path = self.adapter(self.model)
        self.inputs = self.batch()
        self.theirs = self.model(**self.inputs).logits.detach()

    def test_forward_with_adapters(self):
        self.assertLess(error_of(self.forward(self.base, "--adapter", self.path), self.theirs), TOLERANCE)
        half = self.forward(self.base, "--adapter", f"{self.path}=0.25", "--adapter", f"{self.path}=0.75")
        self.assertLess(error_of(half, self.theirs), TOLERANCE)

    def test_what_a_run_saves_is_found_by_peft_with_its_base(self):
        words = Tokenizer(WordLevel({f"w{i}": i for i in range(61)}, unk_token="w3"))
        words.pre_tokenizer = WhitespaceSplit()
        words.save(str(self.base / "tokenizer.json"))
        (self.base / "tokenizer_config.json").write_text(json.dumps({"eos_token": "w2"}))
        rows = self.directory / "rows.jsonl"
        texts = (" ".join(f"w{3 + (5 * i + j) % 50}" for j in range(12)) for i in range(8))
        rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        output = self.directory / "run"
        self.run_easydel("train", self.base, "--data", rows, "--lora-rank", 4, "--steps", 2, "--batch", 2, "--length", 12,
                         "--learning-rate", 0.01, "--output", output)
        adapter = next(output.glob("run-*/adapter"))
        model = AutoPeftModelForCausalLM.from_pretrained(adapter).eval()
        self.assertEqual(model.peft_config["default"].base_model_name_or_path, str(self.base))
        ids = torch.tensor([[3, 9, 27, 11]])
        merged = AutoModelForCausalLM.from_pretrained(adapter.parent).eval()
        self.assertLess(error_of(model(ids).logits, merged(ids).logits), TOLERANCE)

    def test_merge(self):
        self.run_easydel("lora", "merge", self.base, self.path, self.directory / "merged")
        self.assertLess(error_of(self.forward(self.directory / "merged"), self.theirs), TOLERANCE)
        merged = AutoModelForCausalLM.from_pretrained(self.directory / "merged", attn_implementation="eager").eval()
        self.assertLess(error_of(merged(**self.inputs).logits.detach(), self.theirs), TOLERANCE)

    def test_merge_into_a_quantized_base(self):
        exact = self.forward(self.base, "--adapter", self.path)
        for method in ("8bit", "int4"):
            packed, merged = self.directory / method, self.directory / f"{method}_merged"
            self.run_easydel("quantize", self.base, packed, "--method", method, "--pattern",
                             "self_attn.*_proj$")  # whose 32 columns are a group of int4
            beside = self.forward(packed, "--adapter", self.path)
            self.run_easydel("lora", "merge", packed, self.path, merged)
            config = json.loads((merged / "config.json").read_text())
            self.assertIn("quantization_config", config)
            found = self.forward(merged)
            self.assertGreater(error_of(found, beside), 1e-6)  # it was rounded once more
            # About as far from the dense model as the base's own rounding puts it, and once more.
            self.assertLess(error_of(found, exact), 4 * max(error_of(beside, exact), 1e-3))

    def refuse(self, message: str, adapter: pathlib.Path | None = None):
        self.assertIn(message, self.run_easydel("forward", self.base, "--input", self.directory / "batch.safetensors",
                                                "--output", self.directory / "out.safetensors", "--adapter",
                                                adapter or self.path, fails=True))

    def changed(self, **changes):
        file = self.path / "adapter_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    def test_an_adapter_for_another_base(self):
        wide = make_adapter(make_base(self.directory / "wide", "llama", hidden_size=64), "llama")
        self.refuse("is for a different model: \"base_model.model.model.layers.0", self.adapter(wide, "for_wide"))
        deep = make_adapter(make_base(self.directory / "deep", "llama", num_hidden_layers=3), "llama")
        self.refuse("is for a different model: LlamaForCausalLM has no model.layers.2.", self.adapter(deep, "for_deep"))
        flat = make_adapter(make_base(self.directory / "flat", "llama", num_hidden_layers=1), "llama")
        self.refuse("it lacks model.layers.1.", self.adapter(flat, "for_flat"))
        gpt2 = make_adapter(make_base(self.directory / "gpt2", "gpt2"), "gpt2")
        self.refuse("LlamaForCausalLM has no transformer.h.0.attn.c_attn", self.adapter(gpt2, "for_gpt2"))

    def test_files_that_are_not_right(self):
        self.refuse("has no adapter_config.json", self.base)
        for changes, message in (
            ({"peft_type": "IA3"}, '"peft_type" must be "LORA"; got "IA3"'),
            ({"r": 8}, "is [4, 32]; this model needs [8, 32]"),
            ({"r": 0}, "r must be at least 1; got 0"),
            ({"r": "four"}, '"r" must be an integer'),
            ({"lora_alpha": -1}, "lora_alpha must be above 0"),
            ({"lora_dropout": 1.0}, "lora_dropout must be at least 0 and below 1"),
            ({"use_dora": True}, "lora_magnitude_vector"),
            ({"bias": "all"}, '"bias" must be "none"'),
            ({"init_lora_weights": "pissa_niter_4"}, "changes the weights of the base"),
            ({"init_lora_weights": "loftq"}, "changes the weights of the base"),
            ({"alpha_pattern": {"(a+)+(b": 2}}, "[lora]"),
            ({"alpha_pattern": [1]}, '"alpha_pattern" must be an object'),
            ({"layer_replication": [[0, 1]]}, '"layer_replication" is not supported'),
        ):
            with self.subTest(changes=changes):
                before = (self.path / "adapter_config.json").read_text()
                self.changed(**changes)
                self.refuse(message)
                (self.path / "adapter_config.json").write_text(before)
        file = self.path / "adapter_model.safetensors"
        tensors = load_file(file)
        table = "base_model.model.model.embed_tokens.lora_embedding_"
        save_file({**tensors, f"{table}A": torch.zeros(4, 61)}, file)
        self.refuse("it lacks model.embed_tokens.lora_embedding_B")
        save_file({**tensors, f"{table}A": torch.zeros(4, 60), f"{table}B": torch.zeros(32, 4)}, file)
        self.refuse("is [4, 60]; this model needs [4, 61]")
        save_file({**tensors, f"{table.replace('embedding_', '')}A.weight": torch.zeros(4, 61)}, file)
        self.refuse("LlamaForCausalLM has no model.embed_tokens")
        save_file({**tensors, "base_model.model.lm_head.weight": torch.zeros(61, 32)}, file)
        self.refuse("is a weight of the base that is not in modules_to_save")
        file.write_bytes(file.read_bytes()[:100])
        self.refuse("adapter_model.safetensors")
        file.unlink()
        self.refuse("has no adapter_model.safetensors and no adapter_model.bin")


if __name__ == "__main__":
    unittest.main()
