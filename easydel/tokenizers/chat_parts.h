// Contents of messages that are parts: {"type": "text", "text": …} and {"type": "image"}.
#pragma once

#include <string>

#include "easydel/core/json/json.h"

namespace easydel {

// The messages as this template takes their contents. A template that knows images is given parts in all messages;
// for any other they become text, one part in a line, with `image_token` for an image.
Json fit_contents(const Json& messages, const std::string& template_source, const std::string& image_token);

}  // namespace easydel
