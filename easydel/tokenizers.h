// Tokenizers of all formats, chat templates, and training a vocabulary.
#pragma once

#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/tokenizers/bpe/bpe_trainer.h"
#include "easydel/tokenizers/decode_stream.h"
#include "easydel/tokenizers/files/json_tokenizer.h"
#include "easydel/tokenizers/files/tokenizer_config.h"
#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"
#include "easydel/tokenizers/tokenizer.h"
