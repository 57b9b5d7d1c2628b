// Checkpoints in all formats, and the hub.
#pragma once

#include "easydel/core/files/file.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/io/convert_checkpoint.h"
#include "easydel/io/gguf/gguf_file.h"
#include "easydel/io/hub/hub.h"
#include "easydel/io/hub/hub_push.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"
