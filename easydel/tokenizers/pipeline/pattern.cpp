#include "easydel/tokenizers/pipeline/pattern.h"

#include "easydel/core/text/utf8.h"

namespace easydel {

Pattern::Pattern(const JsonField& field) {
  if (const auto regex = field.find("Regex")) {
    regex_.emplace(regex->as_string(), regex->where());
  } else {
    literal_ = field["String"].as_string();
  }
}

void Pattern::find_all(std::string_view text, std::vector<Offset>& matches) const {
  if (regex_) return regex_->find_all(text, matches);
  if (text.empty()) return;
  if (literal_.empty()) {  // before every character and at the end
    for (std::size_t at = 0; at < text.size(); at += utf8::length_of_lead(text[at])) {
      matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at)});
    }
    matches.push_back({static_cast<uint32_t>(text.size()), static_cast<uint32_t>(text.size())});
    return;
  }
  for (std::size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + literal_.size())});
  }
}

}  // namespace easydel
