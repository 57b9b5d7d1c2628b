"""Small configs of the families of images, odd in some way, with the classes of transformers to make of each; and of decoders that see."""

TEXT = dict(vocab_size=97, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=16,
            bos_token_id=0, eos_token_id=96, pad_token_id=1)
VISION = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, image_size=14, patch_size=4)
ODD = VISION | dict(image_size=10, patch_size=5, num_hidden_layers=3, num_attention_heads=2, hidden_act="gelu", layer_norm_eps=1e-3,
                    num_channels=2)
DINO = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, mlp_ratio=2, image_size=12, patch_size=4)
LABELS = dict(id2label={i: f"kind {i}" for i in range(3)}, label2id={f"kind {i}": i for i in range(3)})

VISION_CONFIGS = {
    "clip": {
        "plain": (dict(text_config=TEXT, vision_config=VISION, projection_dim=20), ("CLIPModel",)),
        "largest id": (dict(text_config=TEXT | dict(eos_token_id=2, hidden_act="gelu"), vision_config=ODD, projection_dim=12,
                            logit_scale_init_value=1.5), ("CLIPModel",)),
        "labels": (dict(text_config=TEXT, vision_config=VISION, **LABELS), ("CLIPForImageClassification",)),
    },
    "clip_text_model": {"plain": (TEXT | dict(projection_dim=10), ("CLIPTextModel", "CLIPTextModelWithProjection"))},
    "clip_vision_model": {"plain": (VISION | dict(projection_dim=10), ("CLIPVisionModel", "CLIPVisionModelWithProjection"))},
    "siglip": {
        "plain": (dict(text_config=TEXT | dict(projection_size=32), vision_config=VISION), ("SiglipModel",)),
        "labels": (dict(text_config=TEXT, vision_config=VISION | dict(image_size=16), **LABELS), ("SiglipForImageClassification",)),
    },
    "siglip_text_model": {"plain": (TEXT, ("SiglipTextModel",))},
    "siglip_vision_model": {"plain": (ODD, ("SiglipVisionModel",)), "no head": (VISION | dict(vision_use_head=False), ("SiglipVisionModel",))},
    "vit": {
        "plain": (VISION | LABELS, ("ViTModel", "ViTForImageClassification")),
        "no biases, pooler": (ODD | dict(qkv_bias=False, pooler_output_size=18, pooler_act="relu"), ("ViTModel",)),
    },
    "dinov2": {
        "plain": (DINO | LABELS | dict(layerscale_value=0.7), ("Dinov2Model", "Dinov2ForImageClassification")),
        "gated": (DINO | dict(mlp_ratio=3, use_swiglu_ffn=True, use_mask_token=False, qkv_bias=False), ("Dinov2Model", "Dinov2ForImageClassification")),
    },
}

SPEECH = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
              max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
SIGHT = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4, image_size=14, patch_size=4)
LLAVA_CONFIGS = {
    "llama behind clip": dict(text_config=dict(model_type="llama", **SPEECH), image_token_index=5,
                              vision_config=dict(model_type="clip_vision_model", **SIGHT)),
    "qwen2, layers": dict(text_config=dict(model_type="qwen2", **SPEECH), vision_feature_layer=[-3, 1, -1], multimodal_projector_bias=False,
                          image_token_index=6, vision_config=dict(model_type="clip_vision_model", **SIGHT), projector_hidden_act="relu"),
    "tied mistral behind siglip": dict(text_config=dict(model_type="mistral", tie_word_embeddings=True, sliding_window=7, **SPEECH),
                                       vision_config=dict(model_type="siglip_vision_model", **SIGHT), image_token_index=5,
                                       vision_feature_select_strategy="full", vision_feature_layer=-1),
}

# What seeing_test.py looks at: the class of transformers, and configs.
TALK = {k: v for k, v in SPEECH.items() if k != "num_hidden_layers"} | dict(num_hidden_layers=3, head_dim=8)
SEEING_CONFIGS = {
    "gemma3": ("Gemma3ForConditionalGeneration", {
        "window shorter than an image": dict(
            text_config=TALK | dict(sliding_window=4, layer_types=["sliding_attention", "full_attention", "sliding_attention"], query_pre_attn_scalar=16),
            vision_config=SIGHT | dict(vision_use_head=False), mm_tokens_per_image=9, image_token_index=5, boi_token_index=6, eoi_token_index=7),
        "pooled, untied, a token outside": dict(
            text_config=TALK | dict(sliding_window=6, tie_word_embeddings=False, attention_bias=True, final_logit_softcapping=2.0,
                                    layer_types=["full_attention", "sliding_attention", "sliding_attention"]),
            vision_config=SIGHT | dict(image_size=22, hidden_act="gelu"), mm_tokens_per_image=4, image_token_index=101, boi_token_index=6,
            eoi_token_index=7, tie_word_embeddings=False),
    }),
    "mistral3": ("Mistral3ForConditionalGeneration", {
        "merged, tied": dict(text_config=TALK | dict(model_type="mistral", sliding_window=7), image_token_index=5,
                             vision_config={k: v for k, v in SIGHT.items() if k != "image_size"} | dict(model_type="pixtral", image_size=40)),
        "single patches before qwen2": dict(
            text_config=TALK | dict(model_type="qwen2"), spatial_merge_size=1, vision_feature_layer=[-2], multimodal_projector_bias=True,
            vision_config=SIGHT | dict(model_type="pixtral", hidden_act="relu", rope_parameters=dict(rope_theta=77.0, rope_type="axial"),
                                       num_attention_heads=2), projector_hidden_act="relu", image_token_index=6, tie_word_embeddings=False),
    }),
    "smolvlm": ("SmolVLMForConditionalGeneration", {
        "tiles": dict(text_config=TALK | dict(model_type="llama"), vision_config=SIGHT | dict(image_size=16), image_token_id=5),
        "larger squares, tied qwen2": dict(text_config=TALK | dict(model_type="qwen2"), scale_factor=3, image_token_id=6, tie_word_embeddings=True,
                                           vision_config=SIGHT | dict(image_size=24, hidden_act="gelu", layer_norm_eps=1e-4)),
    }),
}

EYES = dict(num_heads=2, patch_size=4, spatial_merge_size=2, temporal_patch_size=2)
GRID_TEXT = SPEECH | dict(rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 1, 1]))
GRID_TOKENS = dict(image_token_id=5, video_token_id=6, vision_start_token_id=7, vision_end_token_id=8)
OTHER_TOKENS = GRID_TOKENS | dict(image_token_id=6, video_token_id=5)
QWEN_VL_CONFIGS = {
    "qwen2_vl": {
        "plain": dict(text_config=GRID_TEXT, vision_config=EYES | dict(depth=2, embed_dim=24, hidden_size=32, num_heads=3, mlp_ratio=2), **GRID_TOKENS),
        "tied, windows, merge of 3": dict(
            text_config=GRID_TEXT | dict(use_sliding_window=True, sliding_window=6, max_window_layers=1, rms_norm_eps=1e-3,
                                         rope_parameters=dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=16, rope_theta=5e4,
                                                              mrope_section=[1, 2, 1])),
            vision_config=EYES | dict(depth=3, embed_dim=32, hidden_size=32, spatial_merge_size=3, temporal_patch_size=1, patch_size=3, in_channels=2,
                                      mlp_ratio=3, hidden_act="gelu", rope_parameters=dict(rope_type="axial", rope_theta=500.0)),
            tie_word_embeddings=True, **OTHER_TOKENS),
    },
    "qwen2_5_vl": {
        "windows of two tokens": dict(text_config=GRID_TEXT, vision_config=EYES | dict(depth=4, hidden_size=16, intermediate_size=24, out_hidden_size=32,
                                      window_size=16, fullatt_block_indexes=[1, 3], tokens_per_second=3), **GRID_TOKENS),
        "tied, windows of one token": dict(
            text_config=GRID_TEXT | dict(hidden_size=40, rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[1, 2, 2])),
            vision_config=EYES | dict(depth=2, hidden_size=24, intermediate_size=20, num_heads=3, out_hidden_size=40, window_size=8,
                                      fullatt_block_indexes=[], hidden_act="gelu"), tie_word_embeddings=True, **OTHER_TOKENS),
    },
    "qwen3_vl": {
        "features in two layers": dict(
            text_config=SPEECH | dict(head_dim=16, num_hidden_layers=3,
                                      rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2], mrope_interleaved=True)),
            vision_config=EYES | dict(depth=3, hidden_size=16, intermediate_size=24, out_hidden_size=32, num_position_embeddings=16,
                                      deepstack_visual_indexes=[0, 1]), **GRID_TOKENS),
        "tied, features in one layer": dict(
            text_config=SPEECH | dict(hidden_size=40, head_dim=12, attention_bias=True, rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[2, 3, 1])),
            vision_config=EYES | dict(depth=2, hidden_size=24, intermediate_size=20, num_heads=3, out_hidden_size=40, num_position_embeddings=9,
                                      deepstack_visual_indexes=[1], hidden_act="silu"), tie_word_embeddings=True, **OTHER_TOKENS),
    },
}


def flat(settings: dict) -> dict:
    """With the keys of inner configs beside the others."""
    inner = {k: v for key in ("text_config", "vision_config") for k, v in settings.get(key, {}).items()}
    return inner | settings


# What options_test.py looks at: the settings of each config alone.
SETTINGS = {family: {name: flat(settings) for name, (settings, classes) in configs.items()} for family, configs in VISION_CONFIGS.items()}
SETTINGS["llava"] = {name: flat(settings) for name, settings in LLAVA_CONFIGS.items()}
for family, (kind, configs) in SEEING_CONFIGS.items():
    SETTINGS[family] = {name: flat(settings) for name, settings in configs.items()}
for family, configs in QWEN_VL_CONFIGS.items():
    SETTINGS[family] = {name: flat(settings) for name, settings in configs.items()}
