// LoRA adapters: apply, train, merge, load, save.
#pragma once

#include "easydel/lora/lora.h"
#include "easydel/lora/lora_config.h"
