// Images and recordings: decoding them, and preprocessing them for a model.
#pragma once

#include "easydel/processors/auto_processor.h"
#include "easydel/processors/decode_audio.h"
#include "easydel/processors/decode_image.h"
#include "easydel/processors/feature_extractor.h"
#include "easydel/processors/image_processor.h"
#include "easydel/processors/vision_processor.h"
