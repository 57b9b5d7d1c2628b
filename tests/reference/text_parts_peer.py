"""The other side of the tests of text parts: transformers makes tiny multimodal models, and loads what easydel made of
their text.

usage: text_parts_peer.py write DIRECTORY        MODEL_TYPE-LAYOUT for each, with out.safetensors: ids, logits, tokens
       text_parts_peer.py check DIRECTORY OURS   what easydel wrote under OURS is a model of the text family
       text_parts_peer.py defaults               the text configs of files that say nothing, as JSON
"""

import json
import os
import pathlib
import shutil
import sys

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

TEXT = dict(vocab_size=97, hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
SIGLIP = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=16, patch_size=4)
QWEN_TOKENS = dict(image_token_id=96, video_token_id=95, vision_start_token_id=94, vision_end_token_id=93)


def mrope(*section: int, **more) -> dict:
    return {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5, "mrope_section": list(section), **more}}


# The settings of the whole, and the family of its text.
MODELS = {
    "gemma3": (dict(text_config={**TEXT, "head_dim": 12, "sliding_window": 4, "query_pre_attn_scalar": 20,
                                 "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
                    vision_config=SIGLIP, mm_tokens_per_image=4, image_token_index=96, boi_token_index=95,
                    eoi_token_index=94), "gemma3_text"),
    "mistral3": (dict(text_config={**TEXT, "model_type": "mistral", "head_dim": 12, "sliding_window": None},
                      vision_config=dict(model_type="pixtral", **SIGLIP, head_dim=8), image_token_index=96,
                      tie_word_embeddings=False), "mistral"),
    "qwen2_vl": (dict(text_config={**TEXT, **mrope(1, 1, 2)}, **QWEN_TOKENS,
                      vision_config=dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2, patch_size=4, mlp_ratio=2)),
                 "qwen2"),
    "qwen2_5_vl": (dict(text_config={**TEXT, **mrope(1, 1, 2)}, **QWEN_TOKENS, tie_word_embeddings=True,
                        vision_config=dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4,
                                           out_hidden_size=32, fullatt_block_indexes=[0])), "qwen2"),
    "qwen3_vl": (dict(text_config={**TEXT, "head_dim": 8, **mrope(2, 1, 1, mrope_interleaved=True)}, **QWEN_TOKENS,
                      vision_config=dict(depth=2, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4,
                                         out_hidden_size=32, deepstack_visual_indexes=[0], num_position_embeddings=16)),
                 "qwen3"),
    "qwen3_5": (dict(text_config={**TEXT, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
                                  "linear_key_head_dim": 6, "linear_value_head_dim": 8,
                                  "layer_types": ["linear_attention", "full_attention", "linear_attention"],
                                  **mrope(2, 1, 1, mrope_interleaved=True, partial_rotary_factor=0.5)}, **QWEN_TOKENS,
                     vision_config=dict(depth=1, hidden_size=16, intermediate_size=24, num_heads=2, patch_size=4,
                                        out_hidden_size=32, num_position_embeddings=16)), "qwen3_5_text"),
    "llama4": (dict(text_config={**TEXT, "head_dim": 8, "intermediate_size_mlp": 40, "num_local_experts": 2,
                                 "num_experts_per_tok": 1, "interleave_moe_layer_step": 2, "attention_chunk_size": 5},
                    vision_config=dict(hidden_size=16, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
                                       image_size=16, patch_size=4, vision_output_dim=16, projector_input_dim=16,
                                       projector_output_dim=16, pixel_shuffle_ratio=0.5),
                    image_token_index=96, boi_token_index=95, eoi_token_index=94), "llama4_text"),
}


def in_memory(name: str) -> str:
    """As transformers 5 has it in memory."""
    if name.startswith("language_model.lm_head."):
        return name.removeprefix("language_model.")
    if name.startswith("language_model.model."):
        return "model.language_model." + name.removeprefix("language_model.model.")
    if name.startswith(("model.", "lm_head.")):
        return name if name.startswith(("model.language_model.", "model.visual.", "model.vision", "model.multi", "lm_head.")) \
            else "model.language_model." + name.removeprefix("model.")
    return "model." + name


def on_hub(name: str) -> str:
    """As the hub's files of gemma3, mistral3 and llama4 have it."""
    name = in_memory(name)
    if name.startswith("lm_head."):
        return "language_model." + name
    if name.startswith("model.language_model."):
        return name.replace("model.language_model.", "language_model.model.", 1)
    return name.removeprefix("model.")


def flat(name: str) -> str:
    """As the hub's files of qwen2_vl and qwen2_5_vl have it."""
    return in_memory(name).replace("model.language_model.", "model.").replace("model.visual.", "visual.")


@torch.no_grad()
def write(directory: pathlib.Path, types: list[str]) -> None:
    for model_type in types:
        settings, _ = MODELS[model_type]
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(model_type, **settings)
        config._attn_implementation = "eager"
        model = transformers.AutoModelForImageTextToText.from_config(config).eval()
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        ids = torch.randint(3, 90, (2, 13), generator=torch.Generator().manual_seed(1))
        tokens = model.generate(input_ids=ids, max_new_tokens=6, min_new_tokens=6, do_sample=False, eos_token_id=2,
                                pad_token_id=0)
        saved = directory / f"{model_type}-saved"
        model.save_pretrained(saved)
        weights = load_file(saved / "model.safetensors")
        out = {"ids": ids, "logits": model(input_ids=ids).logits, "tokens": tokens[:, ids.shape[1]:].contiguous()}
        save_file(out, saved / "out.safetensors")
        for layout in (in_memory, on_hub, flat) if "qwen" in model_type else (in_memory, on_hub):
            other = directory / f"{model_type}-{layout.__name__}"
            other.mkdir()
            renamed = {layout(name): tensor for name, tensor in weights.items()}
            save_file(renamed, other / "model.safetensors", {"format": "pt"})
            save_file(out, other / "out.safetensors")
            shutil.copy(saved / "config.json", other)
            if layout is flat:  # with the keys of the text beside those of the whole
                config = json.loads((other / "config.json").read_text())
                text = config.pop("text_config")
                rope = text.pop("rope_parameters")
                text |= {key: rope[key] for key in ("rope_theta", "partial_rotary_factor") if key in rope}
                text["rope_scaling"] = {"type": "mrope", "mrope_section": rope["mrope_section"]}
                (other / "config.json").write_text(json.dumps(text | config))


@torch.no_grad()
def check(directory: pathlib.Path, ours: pathlib.Path) -> int:
    faults, seen = [], 0
    for folder in sorted(ours.iterdir()):
        model_type = folder.name.split("-")[0]
        out = load_file(directory / folder.name / "out.safetensors")
        config = json.loads((folder / "config.json").read_text())
        if config["model_type"] != MODELS[model_type][1] or "vision_config" in config or "text_config" in config:
            faults.append(f"{folder.name}: config.json is {config}")
            continue
        model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True,
                                                                        attn_implementation="eager")
        faults += [f"{folder.name}: {what}: {names}" for what, names in info.items() if names]
        logits = model(out["ids"]).logits
        error = ((logits - out["logits"]).abs().max() / out["logits"].abs().max()).item()
        if not error < 1e-4:
            faults.append(f"{folder.name}: logits are off by {error}")
        seen += 1
    print("\n".join(faults) or f"{seen} texts are the same")
    return 1 if faults else 0


def defaults() -> None:
    """The text config of a file that says nothing but its model_type."""
    configs = {}
    for model_type in MODELS:
        whole = transformers.AutoConfig.for_model(model_type)
        configs[model_type] = whole.get_text_config().to_dict() | {"tie_word_embeddings": whole.tie_word_embeddings}
    print(json.dumps(configs, sort_keys=True))  # as in config.json


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(pathlib.Path(arguments[0]), arguments[1:])
    elif command == "check":
        sys.exit(check(*map(pathlib.Path, arguments)))
    else:
        defaults()
