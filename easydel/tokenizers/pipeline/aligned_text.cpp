#include "easydel/tokenizers/pipeline/aligned_text.h"

#include "easydel/core/error.h"

namespace easydel {

void check_growth(std::size_t size, std::size_t original) {
  constexpr std::size_t kFactor = 64;
  constexpr std::size_t kAlways = std::size_t{1} << 16;
  constexpr std::size_t kNever = std::size_t{1} << 31;
  require<FormatError>(size <= kAlways || (size <= kNever && size / kFactor <= original), "[Tokenizer] a text of ",
                       original, " bytes would grow to ", size, "; the limit is ", kFactor, " times, and 2 GiB.");
}

Offset character_around(std::string_view text, std::size_t byte) {
  while (byte > 0 && utf8::is_continuation(text[byte])) --byte;
  return {static_cast<uint32_t>(byte), static_cast<uint32_t>(byte + utf8::length_of_lead(text[byte]))};
}

Offset AlignedText::align(std::size_t byte) const {
  if (!unchanged_) return align_[byte];
  const Offset around = character_around(text_, byte);
  return {begin_ + around.begin, begin_ + around.end};
}

void AlignedText::materialize() {
  if (!tracked_ || !unchanged_) {
    unchanged_ = false;
    return;
  }
  align_.reserve(text_.size());
  for (std::size_t at = 0; at < text_.size();) {
    const std::size_t length = utf8::length_of_lead(text_[at]);
    align_.insert(align_.end(), length,
                  {begin_ + static_cast<uint32_t>(at), begin_ + static_cast<uint32_t>(at + length)});
    at += length;
  }
  unchanged_ = false;
}

const std::vector<Offset>& AlignedText::alignments() {
  materialize();
  return align_;
}

void AlignedText::transform(std::span<const unicode::Change> changes, std::size_t skipped) {
  materialize();
  // Bytes at the start that have no counterpart in the original are kept and excluded from the transformation.
  std::size_t start = 0;
  if (tracked_) {
    while (start < align_.size() && align_[start].begin == align_[start].end) ++start;
  }
  std::size_t at = start;  // in the old text
  const auto skip = [&](std::size_t characters) {
    for (; characters > 0 && at < text_.size(); --characters) at += utf8::length_of_lead(text_[at]);
  };
  skip(skipped);
  std::string text = text_.substr(0, start);
  text.reserve(text_.size() + changes.size());
  std::vector<Offset> align(align_.begin(), align_.begin() + static_cast<std::ptrdiff_t>(tracked_ ? start : 0));
  if (tracked_) align.reserve(align_.size() + changes.size());
  for (const auto& [code, change] : changes) {
    const std::size_t before = text.size();
    utf8::append(text, code);
    if (tracked_) {
      Offset from{begin_, begin_};
      if (change > 0 || at >= align_.size()) {
        if (at > 0) from = align_[at - 1];
      } else {
        from = align_[at];
      }
      align.insert(align.end(), text.size() - before, from);
    }
    if (change <= 0) skip(1 + static_cast<std::size_t>(-change));
  }
  check_growth(text.size(), original_size_);
  text_ = std::move(text);
  align_ = std::move(align);
}

void AlignedText::replace(std::span<const Offset> matches, std::string_view content) {
  if (matches.empty()) return;
  if (!content.empty()) check_growth(text_.size() + matches.size() * content.size(), original_size_);
  materialize();
  std::string text;
  std::vector<Offset> align;
  text.reserve(text_.size() + matches.size() * content.size());
  if (tracked_) align.reserve(text_.size() + matches.size() * content.size());
  std::size_t done = 0;
  const auto copy_until = [&](std::size_t end) {
    text.append(text_, done, end - done);
    if (tracked_) {
      align.insert(align.end(), align_.begin() + static_cast<std::ptrdiff_t>(done),
                   align_.begin() + static_cast<std::ptrdiff_t>(end));
    }
  };
  for (const Offset match : matches) {
    copy_until(match.begin);
    text += content;
    // Inserted text is aligned to the last character that it replaces.
    if (tracked_)
      align.insert(align.end(), content.size(), match.end > 0 ? align_[match.end - 1] : Offset{begin_, begin_});
    done = match.end;
  }
  copy_until(text_.size());
  text_ = std::move(text);
  align_ = std::move(align);
}

void AlignedText::prepend(std::string_view prefix) {
  if (text_.empty() || prefix.empty()) return;
  check_growth(text_.size() + prefix.size(), original_size_ + prefix.size());
  materialize();
  text_.insert(0, prefix);
  if (tracked_) align_.insert(align_.begin(), prefix.size(), align_[0]);
}

}  // namespace easydel
