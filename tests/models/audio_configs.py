"""Small configs of the families of speech, odd in some way, with the Auto classes of transformers to make of each."""

TINY = dict(vocab_size=97, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=56, decoder_ffn_dim=40, num_mel_bins=10, max_source_positions=13, max_target_positions=24,
            pad_token_id=3, bos_token_id=4, eos_token_id=5, decoder_start_token_id=6, begin_suppress_tokens=[7, 5])
SPEECH, SOUNDS, BASE = "AutoModelForSpeechSeq2Seq", "AutoModelForAudioClassification", "AutoModel"

AUDIO_CONFIGS = {
    "whisper": {
        "plain": (TINY, (SPEECH, BASE)),
        "uneven, untied": (TINY | dict(encoder_layers=1, decoder_layers=3, decoder_attention_heads=2, decoder_ffn_dim=24,
                                       activation_function="relu", tie_word_embeddings=False, max_source_positions=8, num_mel_bins=7,
                                       max_target_positions=16, scale_embedding=True, init_std=0.1, suppress_tokens=[9, 11]), (SPEECH,)),
        "labels": (TINY | dict(num_labels=3, classifier_proj_size=9), (SOUNDS,)),
        "weighted layers": (TINY | dict(num_labels=4, classifier_proj_size=12, use_weighted_layer_sum=True, encoder_layers=3), (SOUNDS,)),
    },
}

# What options_test.py, the configs' peer and the models' peer look at: the settings of each config alone.
SETTINGS = {family: {name: settings for name, (settings, kinds) in configs.items()} for family, configs in AUDIO_CONFIGS.items()}
