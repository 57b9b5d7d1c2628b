#include "easydel/tokenizers/chat_parts.h"

namespace easydel {
namespace {

std::string joined_parts(const Json& parts, const std::string& image_token) {
  std::string text;
  for (const Json& part : parts.as_array()) {
    if (!text.empty()) text += "\n";
    text += part.at("type") == Json("image") ? image_token : part.at("text").as_string();
  }
  return text;
}

}  // namespace

Json fit_contents(const Json& messages, const std::string& template_source, const std::string& image_token) {
  const bool reads_parts =
      template_source.find("'image'") != std::string::npos || template_source.find("\"image\"") != std::string::npos;
  Json out = Json::array();
  for (Json message : messages.as_array()) {
    const Json* content = message.find("content");
    if (content && content->is_string() && reads_parts) {
      message["content"] = Json::array({Json::object({{"type", "text"}, {"text", *content}})});
    } else if (content && content->is_array() && !reads_parts) {
      message["content"] = joined_parts(*content, image_token);
    }
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace easydel
