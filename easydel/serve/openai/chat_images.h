// Images of a chat: image_url parts to the bytes of a file, and those to what the model takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "easydel/processors/vision_processor.h"
#include "easydel/serve/openai/context.h"
#include "easydel/serve/openai/fields.h"

namespace easydel::serve {

// What the images that a request names by URL may cost together.
struct FetchBudget {
  std::chrono::steady_clock::time_point ends = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  int64_t bytes = 32 << 20;
};

// The bytes of a part {"type": "image_url", "image_url": {"url": …}}: a data URI, file:// below
// allowed_local_media_path, or http(s):// of allowed_media_domains. 400 for anything else; `at` is the part's path.
std::string read_image(Fields& part, const std::string& at, const ServiceContext& context, FetchBudget& budget);

// FormatError and NotSupportedError name the image that cannot be decoded.
ImageInputs process_images(const std::vector<std::string>& images, const VisionProcessor& vision);

}  // namespace easydel::serve
