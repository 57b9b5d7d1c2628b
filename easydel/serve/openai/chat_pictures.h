// Pictures of a chat: image_url parts to the bytes of a file, and those to what the model takes.
#pragma once

#include <string>
#include <vector>

#include "easydel/processors/vision_processor.h"
#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/fields.h"

namespace easydel::serve {

// The bytes of a part {"type": "image_url", "image_url": {"url": …}}: a data URI, or file:// below
// allowed_local_media_path. 400 for anything else; `at` is the part's path.
std::string read_picture(Fields& part, const std::string& at, const ServiceContext& context);

// FormatError and NotSupportedError name the picture that cannot be decoded.
PictureInputs process_pictures(const std::vector<std::string>& pictures, const VisionProcessor& vision);

}  // namespace easydel::serve
