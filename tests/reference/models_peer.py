"""The other side of the tests of models: transformers makes tiny random ones, and loads what easydel made of them.

usage: models_peer.py write DIRECTORY [N]    one folder for each model (of N odd configs of each family); NAME.bin and NAME.stacked hold the weights of
                                             NAME as torch.save wrote them, and with experts under their newer names
       models_peer.py check DIRECTORY OURS   what easydel wrote under OURS is the same model to transformers
       models_peer.py print DIRECTORY        one folder for each config, with its config.json, how torch prints it, and
                                             its parameters and operations as torch counts them
"""

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
from odd_configs import ODD_CONFIGS  # noqa: E402
from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

LOADERS = {"lm": "AutoModelForCausalLM", "base": "AutoModel", "classifier": "AutoModelForSequenceClassification"}


def make(family: str, settings: dict, loader: str, seed: int = 0):
    torch.manual_seed(seed)
    model = getattr(transformers, loader).from_config(transformers.AutoConfig.for_model(family, **settings))
    with torch.no_grad():  # norms of one and biases of zero would hide a mistake
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        for name, buffer in model.named_buffers():
            if name in model.state_dict():
                buffer.add_(torch.randn_like(buffer) * 0.05)
    return model.eval()


def write(directory: pathlib.Path, count: int = 99) -> None:
    for family, configs in ODD_CONFIGS.items():
        configs = dict(list(configs.items())[:count])
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


def saved(directory: pathlib.Path) -> dict[str, torch.Size]:
    shapes = {}
    for file in directory.glob("*.safetensors"):
        with safe_open(file, "pt") as f:
            shapes |= {key: tuple(f.get_slice(key).get_shape()) for key in f.keys()}
    return shapes


@torch.no_grad()
def outputs(model) -> torch.Tensor:
    ids = torch.randint(3, model.config.vocab_size, (2, 13), generator=torch.Generator().manual_seed(7))
    out = model.eval()(ids)
    return out.logits if "logits" in out else out.last_hidden_state


def check_one(theirs: pathlib.Path, ours: pathlib.Path, loader: str) -> list[str]:
    faults = []
    auto = getattr(transformers, loader)
    reference = auto.from_pretrained(theirs)
    expected = outputs(reference)
    rounded = auto.from_pretrained(theirs)
    with torch.no_grad():  # the parameters alone: .to() would round the rotary frequencies as well
        for parameter in rounded.parameters():
            parameter.copy_(parameter.bfloat16())
    for kind in ("whole", "sharded", "bf16"):
        model, info = auto.from_pretrained(ours / kind, output_loading_info=True, dtype=torch.float32)
        faults += [f"{kind}: {what}: {names}" for what, names in info.items() if names]
        if saved(ours / kind) != saved(theirs):
            faults.append(f"{kind}: other names or shapes than transformers writes")
        if not torch.equal(outputs(model), outputs(rounded) if kind == "bf16" else expected):
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
    for folder in sorted(directory.iterdir()):
        loader = (ours / folder.name / "loader").read_text()
        name = folder.name.split(".")[0]
        if loader != LOADERS[name.split("-")[-1]]:
            faults.append(f"{folder.name}: get_torch_loader() is {loader}")
        faults += check_one(directory / name, ours / folder.name, loader)
        seen += 1
    print("\n".join(faults) or f"{seen} models are the same")
    return 1 if faults else 0


def print_all(directory: pathlib.Path) -> None:
    """Without the children that hold no weights, and with the names of the layers that all families share here."""
    for family, configs in ODD_CONFIGS.items():
        for i, settings in enumerate(configs.values()):
            model = make(family, settings, LOADERS["lm"])
            model.config.save_pretrained(directory / f"{family}-{i}")
            model.set_attn_implementation("eager")  # whose products are plain ones, which torch counts
            model.set_experts_implementation("eager")
            with torch.utils.flop_counter.FlopCounterMode(display=False) as counter, torch.no_grad():
                model(torch.ones(1, 1, dtype=torch.long), use_cache=False)
            # What files hold: a router's correction is a buffer there.
            held = model.num_parameters() + sum(b.numel() for n, b in model.named_buffers() if n in model.state_dict())
            numbers = {"parameters": held, "flops": counter.get_total_flops()}
            (directory / f"{family}-{i}" / "numbers.json").write_text(json.dumps(numbers))
            for module in list(model.modules()):
                for name, child in list(module.named_children()):
                    if not list(child.parameters()):
                        del module._modules[name]
                    elif type(child).__name__.endswith("LayerNorm") and not child.extra_repr():  # prints no numbers
                        numbers = f"{tuple(child.weight.shape)}, eps={child.variance_epsilon}, elementwise_affine=True, bias=False"
                        child.extra_repr = lambda numbers=numbers: numbers
            family_name = type(model).__name__.split("For")[0].removesuffix("LMHeadModel")
            text = re.sub(rf"\b{family_name}(Attention|MLP|RMSNorm|LayerNorm|Experts)\b", r"\1", str(model))
            text = re.sub(r"\b\w+ScaledWordEmbedding\b", "Embedding", text)
            experts = getattr(model.config, "num_local_experts", 0) or getattr(model.config, "n_routed_experts", 0)
            text = re.sub(rf"\b{family_name}(SparseMoeBlock|Moe|MoE)\b", "SparseMoE", text)
            text = re.sub(rf"\b{family_name}Top[kK]Router\(\)",
                          f"Linear(in_features=32, out_features={experts}, bias={family == 'gpt_oss'})", text)
            if family == "gpt_oss":
                text = text.replace("(mlp): MLP", "(mlp): SparseMoE")
            if hasattr(model.config, "kv_lora_rank"):
                text = text.replace(": Attention(", ": LatentAttention(")
            # The block's name in files, and a router that is a plain linear map.
            if family == "mixtral":
                text = text.replace("(mlp): SparseMoE", "(block_sparse_moe): SparseMoE")
            text = re.sub(r"(LayerNorm\(.*elementwise_affine=True)\)", r"\1, bias=True)", text)  # torch before 2.12 omits it
            (directory / f"{family}-{i}" / "model.txt").write_text(text + "\n")


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(pathlib.Path(arguments[0]), *map(int, arguments[1:]))
    elif command == "check":
        sys.exit(check(*map(pathlib.Path, arguments)))
    else:
        print_all(pathlib.Path(arguments[0]))
