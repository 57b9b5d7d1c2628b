"""Numbers of transformers that the operations must reproduce, as JSON.
usage: operations_peer.py rope CASES | activations | balance LOGITS"""

import json
import os
import sys

import torch

os.environ["TRANSFORMERS_VERBOSITY"] = "error"


def rope(cases: list[dict]) -> list[dict]:
    """Each case: rope_parameters, head_dim, max_position_embeddings, seq_len or null."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    out = []
    for case in cases:
        config = LlamaConfig(hidden_size=4 * case["head_dim"], num_attention_heads=4, head_dim=case["head_dim"],
                             max_position_embeddings=case["max_position_embeddings"],
                             rope_parameters=case["rope_parameters"])
        kind = case["rope_parameters"]["rope_type"]
        compute = ROPE_INIT_FUNCTIONS.get(kind, LlamaRotaryEmbedding.compute_default_rope_parameters)
        arguments = {"seq_len": case["seq_len"]} if case["seq_len"] else {}
        inv_freq, scaling = compute(config, **arguments)
        angles = torch.arange(7)[:, None].float() * inv_freq
        out.append({"inv_freq": inv_freq.tolist(), "scaling": scaling,
                    "cos": (angles.cos() * scaling).flatten().tolist(), "sin": (angles.sin() * scaling).flatten().tolist()})
    return out


def activations() -> dict:
    """Every activation without parameters of its own, on a grid."""
    from transformers.activations import ACT2CLS, ACT2FN

    x = torch.linspace(-6, 6, 49, dtype=torch.float64)
    return {"x": x.tolist(), "y": {name: ACT2FN[name](x).tolist() for name in ACT2CLS if name not in ("prelu", "xielu")}}


def balance(case: dict) -> dict:
    """Mixtral's auxiliary loss and its gradients, with and without a mask."""
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    mask = torch.tensor(case["mask"])
    result = {}
    for name, given in (("plain", None), ("masked", mask)):
        logits = [torch.tensor(layer, requires_grad=True) for layer in case["logits"]]
        loss = load_balancing_loss_func(tuple(logits), len(case["logits"][0][0]), case["top_k"], given)
        loss.backward()
        result[name] = {"loss": loss.item(), "gradients": [layer.grad.tolist() for layer in logits]}
    return result


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    print(json.dumps({"rope": rope, "activations": activations, "balance": balance}[command](*map(json.loads, arguments))))
