#include "easydel/serve/grammar/utf8_follow.h"

#include <algorithm>

#include "easydel/serve/grammar/mask.h"

namespace easydel::serve {

const Utf8Follow::Lead* Utf8Follow::find(unsigned char byte) {
  const auto found = std::find_if(kLeads.begin(), kLeads.end(), [&](const Lead& lead) { return lead.byte == byte; });
  return found == kLeads.end() ? nullptr : &*found;
}

// What is no continuation at all is the grammar's business.
bool Utf8Follow::fits(const Lead& lead, unsigned char next) {
  return next < 0x80 || next > 0xBF || (next >= lead.least && next <= lead.most);
}

Utf8Follow::Utf8Follow(std::span<const std::string> tokens) {
  for (const std::string& bytes : tokens) last_.push_back(bytes.empty() ? 0 : static_cast<unsigned char>(bytes.back()));
  for (std::size_t i = 0; i < kLeads.size(); ++i) {
    masks_[i].assign(mask_words(static_cast<int64_t>(tokens.size())), 0);
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id].empty() || fits(kLeads[i], static_cast<unsigned char>(tokens[id].front())))
        masks_[i][id / 32] |= static_cast<int32_t>(1U << (id % 32));
    }
  }
}

bool Utf8Follow::is_possible(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte == 0xC0 || byte == 0xC1 || byte > 0xF4) return false;
    const Lead* lead = find(byte);
    if (lead && i + 1 < bytes.size() && !fits(*lead, static_cast<unsigned char>(bytes[i + 1]))) return false;
  }
  return true;
}

void Utf8Follow::restrict(int32_t last, std::span<int32_t> words) const {
  const Lead* lead = find(last_[static_cast<std::size_t>(last)]);
  if (!lead) return;
  const std::vector<int32_t>& mask = masks_[static_cast<std::size_t>(lead - kLeads.data())];
  bool is_left = false;
  for (std::size_t i = 0; i < words.size(); ++i) is_left |= (words[i] & mask[i]) != 0;
  if (!is_left) return;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] &= mask[i];
}

}  // namespace easydel::serve
