// All of easydel: what a program includes when it does not want to think about headers.
#pragma once

#include "easydel/config.h"
#include "easydel/core.h"
#include "easydel/data.h"
#include "easydel/elarge.h"
#include "easydel/generation.h"
#include "easydel/io.h"
#include "easydel/layers.h"
#include "easydel/lora.h"
#include "easydel/mesh.h"
#include "easydel/model.h"
#include "easydel/operations.h"
#include "easydel/optim.h"
#include "easydel/quantization.h"
#include "easydel/state.h"
#include "easydel/tokenizers.h"
#include "easydel/trainers.h"
