#include "easydel/tokenizers/decode_stream.h"

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"

namespace easydel {
namespace {

constexpr std::string_view kBroken = "\xEF\xBF\xBD";

}  // namespace

std::string DecodeStream::step(int32_t id) {
  if (prefix_.empty() && !ids_.empty()) {
    std::string prefix = tokenizer_->decode(ids_, skip_special_tokens_);
    if (!prefix.ends_with(kBroken)) {
      prefix_ = std::move(prefix);
      prefix_ids_ = ids_.size();
    }
  }
  ids_.push_back(id);
  const std::string text = tokenizer_->decode(ids_, skip_special_tokens_);
  if (text.size() <= prefix_.size() || text.ends_with(kBroken)) return "";
  require<FormatError>(text.starts_with(prefix_), "[DecodeStream] with id ", id, " the text ", quoted(prefix_),
                       " becomes ", quoted(text), ", which does not continue it.");
  std::string fresh = text.substr(prefix_.size());
  const std::size_t read = ids_.size() - prefix_ids_;
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(prefix_ids_));
  prefix_ = tokenizer_->decode(ids_, skip_special_tokens_);
  prefix_ids_ = read;
  return fresh;
}

std::string DecodeStream::finish() {
  const std::string text = tokenizer_->decode(ids_, skip_special_tokens_);
  std::string rest = text.size() > prefix_.size() && text.starts_with(prefix_) ? text.substr(prefix_.size()) : "";
  ids_.clear();
  prefix_.clear();
  prefix_ids_ = 0;
  return rest;
}

}  // namespace easydel
