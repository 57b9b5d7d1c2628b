"""The other side of the tests of models: transformers makes tiny random ones, and loads what easydel made of them.

usage: models_peer.py write DIRECTORY        one folder for each model; NAME.bin and NAME.stacked hold the weights of NAME
                                             as torch.save wrote them, and with experts under their newer names
       models_peer.py check DIRECTORY OURS   each folder under OURS, which easydel wrote, is the same model to transformers
       models_peer.py print DIRECTORY        one folder for each config, with its config.json, how torch prints it, and
                                             its parameters and operations as torch counts them
"""

import copy
import functools
import inspect
import json
import os
import pathlib
import re
import shutil
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "models"))

import torch  # noqa: E402
import torch.utils.flop_counter  # noqa: E402
import transformers  # noqa: E402
import remote_code  # noqa: E402, F401
from audio_configs import AUDIO_CONFIGS  # noqa: E402
from odd_configs import ENCODER_CONFIGS, ODD_CONFIGS  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

LOADERS = {"lm": "AutoModelForCausalLM", "base": "AutoModel", "classifier": "AutoModelForSequenceClassification",
           "seq2seq": "AutoModelForSeq2SeqLM", "mlm": "AutoModelForMaskedLM", "tagger": "AutoModelForTokenClassification",
           "answers": "AutoModelForQuestionAnswering", "speech": "AutoModelForSpeechSeq2Seq",
           "sounds": "AutoModelForAudioClassification"}


def make(family: str, settings: dict, loader: str, seed: int = 0, **options):
    torch.manual_seed(seed)
    model = getattr(transformers, loader).from_config(transformers.AutoConfig.for_model(family, **settings), **options)
    with torch.no_grad():  # norms of one and biases of zero would hide a mistake
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        for name, buffer in model.named_buffers():
            if name in model.state_dict():
                buffer.add_(torch.randn_like(buffer) * 0.05)
    return model.eval()


def write(directory: pathlib.Path) -> None:
    write_encoders(directory)
    for family, configs in AUDIO_CONFIGS.items():
        tasks = {loader: task for task, loader in LOADERS.items()}
        for i, (settings, loaders) in enumerate(list(configs.values())):
            for loader in loaders:
                make(family, settings, loader, i).save_pretrained(directory / f"{family}-{i}-{tasks[loader]}")
    for family, configs in ODD_CONFIGS.items():
        for i, settings in enumerate(configs.values()):
            make(family, settings, LOADERS["lm"], i).save_pretrained(directory / f"{family}-{i}-lm")
        settings = next(iter(configs.values()))
        make(family, settings, LOADERS["base"]).save_pretrained(directory / f"{family}-0-base")
        classifiers = transformers.AutoModelForSequenceClassification._model_mapping
        if type(transformers.AutoConfig.for_model(family)) in classifiers:
            labelled = {**settings, "num_labels": 3, "pad_token_id": 0}
            make(family, labelled, LOADERS["classifier"]).save_pretrained(directory / f"{family}-0-classifier")

        # Tied weights stand in a pickle under both of their names.
        for i in range(2):
            name = f"{family}-{i}-lm"
            state = transformers.AutoModelForCausalLM.from_pretrained(directory / name).state_dict()
            kinds = ("bin", "stacked") if family == "mixtral" else ("bin",)
            for kind in kinds:
                other = directory / f"{name}.{kind}"
                other.mkdir()
                shutil.copy(directory / name / "config.json", other)
                if kind == "bin":
                    torch.save(state, other / "pytorch_model.bin")
                else:
                    assert any(key.endswith("mlp.experts.gate_up_proj") for key in state), "transformers stacks no more"
                    tied = {"lm_head.weight"} if i == 1 else set()
                    save_file({k: v for k, v in state.items() if k not in tied}, other / "model.safetensors", {"format": "pt"})


def write_encoders(directory: pathlib.Path) -> None:
    """The first task of each config, and every other task of the first config; a pickle has tied weights twice."""
    for family, configs in ENCODER_CONFIGS.items():
        kind = type(transformers.AutoConfig.for_model(family))
        tasks = [task for task, loader in LOADERS.items() if kind in getattr(transformers, loader)._model_mapping and task != "lm"]
        if "seq2seq" in tasks:
            tasks = [task for task in tasks if task != "mlm"]
        main = "seq2seq" if "seq2seq" in tasks else "mlm"
        for i, settings in enumerate(configs.values()):
            for task in tasks if i == 0 else [main]:
                model = make(family, settings, LOADERS[task], i)
                model.save_pretrained(directory / f"{family}-{i}-{task}")
                if task == main and i == 0:
                    other = directory / f"{family}-{i}-{task}.bin"
                    other.mkdir()
                    shutil.copy(directory / f"{family}-{i}-{task}" / "config.json", other)
                    torch.save(model.state_dict(), other / "pytorch_model.bin")


def saved(directory: pathlib.Path) -> dict[str, torch.Size]:
    shapes = {}
    for file in directory.glob("*.safetensors"):
        with safe_open(file, "pt") as f:
            shapes |= {key: tuple(f.get_slice(key).get_shape()) for key in f.keys()}
    return shapes


@torch.no_grad()
def outputs(model) -> torch.Tensor:
    ids = torch.randint(3, model.config.vocab_size, (2, 13), generator=torch.Generator().manual_seed(7))
    if model.main_input_name == "input_features":
        shape = 2, model.config.num_mel_bins, 2 * model.config.max_source_positions
        ids = {"decoder_input_ids": ids} if "decoder_input_ids" in inspect.signature(model.forward).parameters else {}
        out = model.eval()(torch.randn(shape, generator=torch.Generator().manual_seed(8)), **ids)
    elif model.config.is_encoder_decoder and "decoder_input_ids" in inspect.signature(model.forward).parameters:
        ids[:, -1] = model.config.eos_token_id  # by which a classifier finds the end
        out = model.eval()(ids, decoder_input_ids=ids + 0)
    else:
        out = model.eval()(ids)
    return next(out[name] for name in ("logits", "start_logits", "last_hidden_state") if name in out)


def load(auto, directory: pathlib.Path, **options):
    """The model, and what loading says. Weights lie in files at any address, and kernels round by how those are aligned:
    each gets memory of its own."""
    model, info = auto.from_pretrained(directory, output_loading_info=True, **options)
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model, info


@functools.lru_cache(maxsize=1)  # NAME, NAME.bin and NAME.stacked follow each other
def reference_of(theirs: pathlib.Path, loader: str):
    """The model, its outputs, and those with weights in bfloat16."""
    reference, _ = load(getattr(transformers, loader), theirs)
    rounded = copy.deepcopy(reference)
    with torch.no_grad():  # what files hold: .to() would round the rotary frequencies as well
        for tensor in rounded.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(tensor.bfloat16())
    return reference, outputs(reference), outputs(rounded)


def check_one(theirs: pathlib.Path, ours: pathlib.Path, loader: str) -> list[str]:
    faults = []
    auto = getattr(transformers, loader)
    reference, expected, expected_rounded = reference_of(theirs, loader)
    for kind in ("whole", "sharded", "bf16"):
        model, info = load(auto, ours / kind, dtype=torch.float32)
        faults += [f"{kind}: {what}: {names}" for what, names in info.items() if names]
        if saved(ours / kind) != saved(theirs):
            faults.append(f"{kind}: other names or shapes than transformers writes")
        if not torch.equal(outputs(model), expected_rounded if kind == "bf16" else expected):
            faults.append(f"{kind}: other outputs")
        if type(model) is not type(reference):
            faults.append(f"{kind}: is a {type(model).__name__}")
    if (ours / "sharded" / "model.safetensors").exists() or len(list((ours / "sharded").glob("*.safetensors"))) < 2:
        faults.append("sharded: is one file")
    dtype = transformers.AutoConfig.from_pretrained(ours / "bf16").dtype
    if dtype != torch.bfloat16:
        faults.append(f"bf16: config.json says {dtype}")

    fresh = auto.from_config(reference.config)
    try:
        fresh.load_state_dict(load_file(ours / "to_torch.safetensors"), strict=True)
    except RuntimeError as error:
        faults.append(f"to_torch: {error}")
    if not torch.equal(outputs(fresh), expected):
        faults.append("to_torch: other outputs")
    return [f"{ours.name}: {fault}" for fault in faults]


def check(directory: pathlib.Path, ours: pathlib.Path) -> int:
    faults, seen = [], 0
    for folder in sorted(ours.iterdir()):
        loader = (folder / "loader").read_text()
        name = folder.name.split(".")[0]
        if loader != LOADERS[name.split("-")[-1]]:  # by the class of what was loaded
            faults.append(f"{folder.name}: get_torch_loader() is {loader}")
        faults += check_one(directory / name, folder, loader)
        seen += 1
    print("\n".join(faults) or f"{seen} models are the same")
    return 1 if faults else 0


def counted_flops(model, counter) -> int:
    """Of a token. How a recurrent layer runs over a sequence differs: of those, the projections and the convolution."""
    by_module = {name: sum(ops.values()) for name, ops in counter.get_flop_counts().items()}
    total, root = counter.get_total_flops(), type(model).__name__
    for name, module in model.named_modules():
        if type(module).__name__ == "Llama4TextExperts":  # which runs all of them
            unused = 1 - model.config.num_experts_per_tok / module.num_experts
            total -= round(by_module[f"{root}.{name}"] * unused)
        if not isinstance(getattr(module, "conv1d", None), torch.nn.Conv1d) and not hasattr(module, "slope_rate"):
            continue
        total -= by_module.get(f"{root}.{name}", 0)
        total += sum(2 * m.weight.numel() for m in module.modules() if isinstance(m, (torch.nn.Linear, torch.nn.Conv1d)))
    return total


def print_all(directory: pathlib.Path) -> None:
    """Without the children that hold no weights, and with the names of the layers that all families share here."""
    for family, configs in ODD_CONFIGS.items():
        for i, settings in enumerate(configs.values()):
            # Eager attention's products are plain ones, which torch counts. Asked for when the model is made: falcon's
            # ignores set_attn_implementation().
            model = make(family, settings, LOADERS["lm"], attn_implementation="eager")
            model.config.save_pretrained(directory / f"{family}-{i}")
            model.set_experts_implementation("eager")
            model.requires_grad_(False)  # the counter looks for what has gradients
            with torch.utils.flop_counter.FlopCounterMode(display=False) as counter, torch.no_grad():
                model(torch.ones(1, 1, dtype=torch.long), use_cache=False)
            # What files hold: a router's correction is a buffer there.
            held = model.num_parameters() + sum(b.numel() for n, b in model.named_buffers() if n in model.state_dict())
            numbers = {"parameters": held, "flops": counted_flops(model, counter)}
            (directory / f"{family}-{i}" / "numbers.json").write_text(json.dumps(numbers))
            for module in list(model.modules()):
                for name, child in list(module.named_children()):
                    kind = type(child).__name__
                    if not list(child.parameters()) and not kind.endswith("LayerNorm"):
                        del module._modules[name]
                    elif kind.endswith(("LayerNorm", "LayerNorm1P")):  # some print no numbers, torch before 2.12 no bias
                        has_weight = bool(list(child.parameters()))
                        shape = tuple(child.weight.shape if has_weight else child.normalized_shape)
                        eps = getattr(child, "eps", None) or getattr(child, "variance_epsilon", 1e-5)
                        numbers = (f"{shape}, eps={eps}, elementwise_affine={has_weight}, "
                                   f"bias={getattr(child, 'bias', None) is not None}")
                        child.extra_repr = lambda numbers=numbers: numbers
                    elif kind.endswith(("TopKRouter", "TopkRouter")):  # a linear map with something behind it
                        out, width = child.weight.shape
                        numbers = f"in_features={width}, out_features={out}, bias={getattr(child, 'bias', None) is not None}"
                        child.extra_repr = lambda numbers=numbers: numbers
                    elif "RMSNorm" in type(child).__name__ and not child.extra_repr().startswith("("):
                        numbers = f"{tuple(child.weight.shape)}, eps={child.variance_epsilon}"
                        child.extra_repr = lambda numbers=numbers: numbers
            family_name = type(model).__name__.split("For")[0].removesuffix("LMHeadModel")
            text = re.sub(rf"\b{family_name}(?:Text)?(Attention|MLP|RMSNorm|LayerNorm|LayerNormPerHead|Experts|Linear|Statics|"
                          rf"GatedDeltaNet|LightningAttention)(?:Gated)?\b", r"\1", str(model))
            text = re.sub(r"\b\w+RMSNormGated\b", "RMSNorm", text)
            text = re.sub(rf"\b{family_name}LayerNorm1P\b", "LayerNorm", text)
            text = re.sub(r"\b\w+(ScaledWord|LearnedPositional)Embedding\b", "Embedding", text)
            text = re.sub(rf"\b{family_name}(?:Text)?(SparseMoeBlock|Moe|MoE)\b", "SparseMoE", text)
            text = re.sub(rf"\b{family_name}(?:Top[kK])?Router\(", "Linear(", text)
            text = text.replace(": FalconH1Mixer(", ": Mamba2Mixer(")
            if family == "dbrx":  # names of its own for a router with experts, and one matrix for all of them
                text = text.replace("(ffn): DbrxFFN", "(ffn): SparseMoE")
                text = re.sub(r"\(router\): \w+\(\n\s+\(layer\): (Linear\(.*\))\n\s+\)", r"(router): \1", text)
                text = re.sub(r"\(experts\): Experts\(\n\s+\(mlp\): .*\n\s+\)", "(experts): Experts()", text)
            if family == "kimi_linear":  # the forget gate's maps stand beside the others in files
                text = text.replace(": KimiLinearDeltaAttention(", ": KimiDeltaAttention(")
                text = re.sub(r"( +)\(forget_gate\): \w+\(\n\s+(\(f_a_proj\).*)\n\s+(\(f_b_proj\).*)\n\s+\)", r"\1\2\n\1\3", text)
                text = text.replace("(mlp): MLP", "(block_sparse_moe): MLP")
            if family == "gpt_oss":
                text = text.replace("(mlp): MLP", "(mlp): SparseMoE")
            if hasattr(model.config, "kv_lora_rank"):
                text = text.replace(": Attention(", ": LatentAttention(")
            # The block's name in files, and a router that is a plain linear map.
            if family == "internlm2":
                text = text.replace("(output)", "(lm_head)")
            if family in ("mixtral", "minimax", "phimoe", "kimi_linear"):
                text = text.replace("(mlp): SparseMoE", "(block_sparse_moe): SparseMoE").replace("(router)", "(gate)")
            (directory / f"{family}-{i}" / "model.txt").write_text(text + "\n")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(pathlib.Path(arguments[0]))
    elif command == "check":
        sys.exit(check(*map(pathlib.Path, arguments)))
    else:
        print_all(pathlib.Path(arguments[0]))
