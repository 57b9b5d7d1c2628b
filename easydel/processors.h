// Pictures: decoding them, and the steps before a model sees them.
#pragma once

#include "easydel/processors/decode_image.h"
#include "easydel/processors/image_processor.h"
#include "easydel/processors/vision_processor.h"
