"""Families that transformers itself does not have: their published repositories bring the code along. Importing this
registers classes with the names of their files, made of transformers' Llama, so that the sweep covers them too."""

import torch
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


@strict
class DeepseekConfig(PreTrainedConfig):
    """Of deepseek-ai/deepseek-moe-16b-base."""
    model_type = "deepseek"
    keys_to_ignore_at_inference = ["past_key_values"]

    vocab_size: int = 102400
    hidden_size: int = 4096
    intermediate_size: int = 11008
    moe_intermediate_size: int = 1407
    num_hidden_layers: int = 30
    num_attention_heads: int = 32
    num_key_value_heads: int | None = None
    n_shared_experts: int | None = None
    n_routed_experts: int | None = None
    num_experts_per_tok: int | None = None
    moe_layer_freq: int = 1
    first_k_dense_replace: int = 0
    norm_topk_prob: bool = False
    scoring_func: str = "softmax"
    aux_loss_alpha: float = 0.001
    seq_aux: bool = True
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    initializer_range: float = 0.02
    rms_norm_eps: float = 1e-6
    use_cache: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = 100000
    eos_token_id: int | list[int] | None = 100001
    pretraining_tp: int = 1
    tie_word_embeddings: bool = False
    rope_parameters: dict | None = None
    attention_bias: bool = False
    attention_dropout: float = 0.0

    mlp_bias = False  # what Llama asks for

    def __post_init__(self, **kwargs):
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        super().__post_init__(**kwargs)


class DeepseekMLP(LlamaMLP):
    def __init__(self, config, intermediate_size: int | None = None):
        nn.Module.__init__(self)
        self.config = config
        width = intermediate_size or config.intermediate_size
        self.gate_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, width, bias=False)
        self.down_proj = nn.Linear(width, config.hidden_size, bias=False)
        self.act_fn = nn.SiLU()


class DeepseekTopkRouter(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.n_routed_experts, config.hidden_size).normal_(std=0.3))

    def forward(self, x):
        return nn.functional.linear(x, self.weight)


class DeepseekExperts(nn.ModuleList):
    def __repr__(self):  # as those of other families
        return "DeepseekExperts()"


class DeepseekMoE(nn.Module):
    """The published code without the balancing loss, which has gradients and no value."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.experts = DeepseekExperts(DeepseekMLP(config, config.moe_intermediate_size) for _ in range(config.n_routed_experts))
        self.gate = DeepseekTopkRouter(config)
        if config.n_shared_experts is not None:
            self.shared_experts = DeepseekMLP(config, config.moe_intermediate_size * config.n_shared_experts)

    def forward(self, hidden_states):
        x = hidden_states.flatten(0, -2)
        weights, chosen = self.gate(x).softmax(-1).topk(self.config.num_experts_per_tok, sorted=False)
        if self.config.num_experts_per_tok > 1 and self.config.norm_topk_prob:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == e)
            if len(rows):
                y = y.index_add(0, rows, expert(x[rows]) * weights[rows, slots, None])
        y = y.view_as(hidden_states)
        return y + self.shared_experts(hidden_states) if hasattr(self, "shared_experts") else y


class DeepseekRMSNorm(LlamaRMSNorm):
    pass


class DeepseekAttention(LlamaAttention):
    pass


class DeepseekDecoderLayer(LlamaDecoderLayer):
    def __init__(self, config, layer_idx: int):
        super().__init__(config, layer_idx)
        has_experts = (config.n_routed_experts is not None and layer_idx >= config.first_k_dense_replace
                       and layer_idx % config.moe_layer_freq == 0)
        self.self_attn = DeepseekAttention(config, layer_idx)
        self.mlp = DeepseekMoE(config) if has_experts else DeepseekMLP(config)
        self.input_layernorm = DeepseekRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = DeepseekRMSNorm(config.hidden_size, eps=config.rms_norm_eps)


class DeepseekModel(LlamaModel):
    config_class = DeepseekConfig
    _can_record_outputs = {"hidden_states": DeepseekDecoderLayer, "attentions": DeepseekAttention}

    def __init__(self, config):
        super().__init__(config)
        self.layers = nn.ModuleList([DeepseekDecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = DeepseekRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_init()


class DeepseekForCausalLM(LlamaForCausalLM):
    config_class = DeepseekConfig

    def __init__(self, config):
        super(LlamaForCausalLM, self).__init__(config)
        self.model = DeepseekModel(config)
        self.vocab_size = config.vocab_size
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()


AutoConfig.register("deepseek", DeepseekConfig)
AutoModel.register(DeepseekConfig, DeepseekModel)
AutoModelForCausalLM.register(DeepseekConfig, DeepseekForCausalLM)
AutoConfig.register("internlm2", InternLM2Config)
AutoModel.register(InternLM2Config, InternLM2Model)
AutoModelForCausalLM.register(InternLM2Config, InternLM2ForCausalLM)
