// All of easydel: what a program includes when it does not want to think about headers.
#pragma once

#include "easydel/core/bytes.h"
#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/core/json.h"
#include "easydel/core/log.h"
#include "easydel/core/progress.h"
#include "easydel/core/random.h"
#include "easydel/core/runtime.h"
#include "easydel/io/checkpoint.h"
#include "easydel/io/checkpoint_writer.h"
#include "easydel/io/convert_checkpoint.h"
#include "easydel/io/gguf_file.h"
#include "easydel/io/safetensors.h"
#include "easydel/io/safetensors_writer.h"
#include "easydel/io/torch_file.h"
