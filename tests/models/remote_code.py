"""Families that transformers itself does not have: their published repositories bring the code along. Importing this
registers classes with the names of their files, made of transformers' Llama, so that the sweep covers them too."""

from huggingface_hub.dataclasses import strict
from torch import nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedConfig
from transformers.models.llama.modeling_llama import (LlamaAttention, LlamaDecoderLayer, LlamaForCausalLM, LlamaMLP, LlamaModel,
                                                      LlamaRMSNorm)


@strict
class InternLM2Config(PreTrainedConfig):
    model_type = "internlm2"
    keys_to_ignore_at_inference = ["past_key_values"]

    vocab_size: int = 103168
    hidden_size: int = 4096
    intermediate_size: int = 11008
    num_hidden_layers: int = 32
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    pretraining_tp: int = 1
    tie_word_embeddings: bool = False
    bias: bool = False
    rope_parameters: dict | None = None

    attention_dropout, attention_bias, mlp_bias = 0.0, False, False  # what Llama asks for

    def __post_init__(self, **kwargs):
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        super().__post_init__(**kwargs)


def rename(module: nn.Module, **names: str) -> None:
    for to, name in names.items():
        module._modules[to] = module._modules.pop(name)


class InternLM2Attention(LlamaAttention):
    """One matrix: for each key/value head its queries, the key and the value."""

    def __init__(self, config, layer_idx: int):
        super().__init__(config, layer_idx)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            del self._modules[name]
        heads = config.num_attention_heads + 2 * config.num_key_value_heads
        self.wqkv = nn.Linear(config.hidden_size, heads * self.head_dim, bias=config.bias)
        self.wo = nn.Linear(config.num_attention_heads * self.head_dim, config.hidden_size, bias=config.bias)

    def forward(self, hidden_states, *args, **kwargs):
        self.qkv = self.wqkv(hidden_states).unflatten(-1, (-1, self.num_key_value_groups + 2, self.head_dim))
        return super().forward(hidden_states, *args, **kwargs)

    def q_proj(self, _):
        return self.qkv[..., : self.num_key_value_groups, :].flatten(-3)

    def k_proj(self, _):
        return self.qkv[..., -2, :].flatten(-2)

    def v_proj(self, _):
        return self.qkv[..., -1, :].flatten(-2)

    def o_proj(self, x):
        return self.wo(x)


class InternLM2MLP(LlamaMLP):
    def __init__(self, config):
        super().__init__(config)
        rename(self, w1="gate_proj", w3="up_proj", w2="down_proj")

    gate_proj, up_proj, down_proj = (property(lambda self, name=name: self._modules[name]) for name in ("w1", "w3", "w2"))


class InternLM2RMSNorm(LlamaRMSNorm):
    pass


class InternLM2DecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx: int):
        super().__init__(config, layer_idx)
        self._modules.clear()
        self.attention = InternLM2Attention(config, layer_idx)
        self.feed_forward = InternLM2MLP(config)
        self.attention_norm = InternLM2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.ffn_norm = InternLM2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    self_attn = property(lambda self: self.attention)
    mlp = property(lambda self: self.feed_forward)
    input_layernorm = property(lambda self: self.attention_norm)
    post_attention_layernorm = property(lambda self: self.ffn_norm)


class InternLM2Model(LlamaModel):
    config_class = InternLM2Config
    _can_record_outputs = {"hidden_states": InternLM2DecoderLayer, "attentions": InternLM2Attention}

    def __init__(self, config):
        super().__init__(config)
        rename(self, tok_embeddings="embed_tokens")
        self.layers = nn.ModuleList([InternLM2DecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = InternLM2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_init()

    embed_tokens = property(lambda self: self.tok_embeddings)

    def get_input_embeddings(self):
        return self.tok_embeddings


class InternLM2ForCausalLM(LlamaForCausalLM):
    config_class = InternLM2Config
    _tied_weights_keys = {"output.weight": "model.tok_embeddings.weight"}

    def __init__(self, config):
        super(LlamaForCausalLM, self).__init__(config)
        self.model = InternLM2Model(config)
        self.vocab_size = config.vocab_size
        self.output = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    lm_head = property(lambda self: self.output)

    def get_input_embeddings(self):
        return self.model.tok_embeddings

    def get_output_embeddings(self):
        return self.output


AutoConfig.register("internlm2", InternLM2Config)
AutoModel.register(InternLM2Config, InternLM2Model)
AutoModelForCausalLM.register(InternLM2Config, InternLM2ForCausalLM)
