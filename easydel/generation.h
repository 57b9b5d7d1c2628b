// Generating text: greedy search, sampling, beam search, and what changes the logits on the way.
#pragma once

#include "easydel/generation/generate.h"
#include "easydel/generation/penalty_processors.h"
#include "easydel/generation/sampling.h"
#include "easydel/generation/sampling_processors.h"
#include "easydel/generation/speech/timestamp_processor.h"
#include "easydel/generation/speech/transcribe.h"
#include "easydel/generation/speech/words.h"
#include "easydel/generation/token_processors.h"
