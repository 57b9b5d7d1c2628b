#include "easydel/tokenizers/bpe/bpe_model.h"

#include <algorithm>
#include <cstdio>

#include "easydel/core/text/utf8.h"

namespace easydel {
namespace {

constexpr std::size_t kShort = 40;  // symbols of a word, up to which the best pair is found by a linear scan

std::string byte_token(std::size_t byte) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
  return text.data();
}

}  // namespace

BpeModel::BpeModel(const JsonField& field)
    : vocabulary_(field["vocab"]),
      prefix_(field.string_or("continuing_subword_prefix", "")),
      suffix_(field.string_or("end_of_word_suffix", "")),
      fuse_unknown_(field.bool_or("fuse_unk", false)),
      byte_fallback_(field.bool_or("byte_fallback", false)),
      ignore_merges_(field.bool_or("ignore_merges", false)) {
  if (const auto dropout = field.find("dropout"); dropout && dropout->as_number() != 0) {
    fail<NotSupportedError>(dropout->where(), " must be 0 or null, because BPE dropout is not supported; got ",
                            dropout->as_number(), ".");
  }
  if (const auto unknown = field.find("unk_token")) {
    unknown_token_ = unknown->as_string();
    unknown_ = vocabulary_.find(unknown_token_);  // checked only when it is needed
  }
  read_merges(field["merges"]);
  learn_characters();
}

void BpeModel::read_merges(const JsonField& field) {
  const Json::Array& merges = field.as_array();
  merges_.reserve(merges.size());
  std::string joined;
  uint32_t rank = 0;
  for (std::size_t i = 0; i < merges.size(); ++i) {
    std::string_view left;
    std::string_view right;
    const auto refuse = [&](const auto&... parts) { field[i].refuse(parts...); };
    if (merges[i].is_string()) {
      const std::string_view pair = merges[i].as_string();
      if (pair.starts_with("#version")) continue;
      const std::size_t space = pair.find(' ');
      if (space == std::string_view::npos || pair.find(' ', space + 1) != std::string_view::npos) {
        refuse("must be two tokens separated by a space; got ", merges[i].dump(), ".");
      }
      left = pair.substr(0, space);
      right = pair.substr(space + 1);
    } else {
      const bool is_pair = merges[i].is_array() && merges[i].size() == 2 && merges[i].at(std::size_t{0}).is_string() &&
                           merges[i].at(std::size_t{1}).is_string();
      if (!is_pair) refuse("must be a pair of tokens; got ", merges[i].type_name(), ".");
      left = merges[i].at(std::size_t{0}).as_string();
      right = merges[i].at(std::size_t{1}).as_string();
    }
    const int32_t left_id = vocabulary_.find(left);
    const int32_t right_id = vocabulary_.find(right);
    if (left_id < 0 || right_id < 0) {
      refuse("names ", Json(left_id < 0 ? left : right).dump(), ", which is not in the vocabulary.");
    }
    if (right.size() < prefix_.size()) refuse("must continue a word with \"", prefix_, "\".");
    joined = left;
    joined += right.substr(prefix_.size());
    const int32_t id = vocabulary_.find(joined);
    if (id < 0) refuse("produces ", Json(joined).dump(), ", which is not in the vocabulary.");
    if (left.empty() || right.empty()) refuse("must not have an empty part.");
    merges_.add(left_id, right_id, {rank++, id});
    std::size_t last = left.size();
    joints_.set(joint(utf8::previous(left, last), utf8::first(right)));
  }
}

void BpeModel::learn_characters() {
  character_ids_.assign(0x10000, -1);
  vocabulary_.for_each([&](std::string_view token, int32_t id) {
    if (token.empty() || token.size() > 3 || token.size() != utf8::length_of_lead(token[0])) return;
    character_ids_[utf8::first(token)] = id;
  });
  has_all_bytes_ = true;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = vocabulary_.find(byte_token(byte));
    has_all_bytes_ = has_all_bytes_ && byte_ids_[byte] >= 0;
  }
}

int32_t BpeModel::id_of(char32_t code) const {
  return code < 0x10000 ? character_ids_[code] : vocabulary_.find(utf8::encode(code));
}

void BpeModel::tokenize(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const {
  if (piece.empty()) return;
  if (ignore_merges_) {
    if (const int32_t id = vocabulary_.find(piece); id >= 0) {
      out.push_back({id, 0, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  if (piece.size() > WordCache::kMaxWordBytes && prefix_.empty() && suffix_.empty()) {
    tokenize_long(piece, scratch, out);
  } else {
    tokenize_word(piece, scratch, out);
  }
}

void BpeModel::tokenize_word(std::string_view word, ModelScratch& scratch, std::vector<ModelToken>& out) const {
  through_cache(word, scratch, out, [&](std::string_view text, std::vector<ModelToken>& tokens) {
    read_symbols(text, scratch);
    scratch.symbols.size() <= kShort ? merge_short(scratch) : merge_long(scratch);
    uint32_t at = 0;
    for (std::size_t i = 0; i < scratch.symbols.size(); ++i) {
      if (scratch.lengths[i] == 0) continue;
      tokens.push_back({scratch.symbols[i], at, at + scratch.lengths[i]});
      at += scratch.lengths[i];
    }
  });
}

// Splits where no merge can join, which leaves short words for the cache even without a pre-tokenizer.
void BpeModel::tokenize_long(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const {
  uint32_t done = 0;  // bytes covered by tokens; unknown characters without a token are skipped
  const auto add = [&](std::string_view word) {
    const std::size_t before = out.size();
    tokenize_word(word, scratch, out);
    for (std::size_t i = before; i < out.size(); ++i) {
      out[i].begin += done;
      out[i].end += done;
    }
    if (out.size() > before) done = out.back().end;
  };
  std::size_t begin = 0;
  char32_t left = 0;
  bool left_known = false;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t here = at;
    const char32_t code = utf8::next(piece, at);
    const bool known = id_of(code) >= 0;
    if (known && left_known && !joints_[joint(left, code)]) {
      add(piece.substr(begin, here - begin));
      begin = here;
    }
    left = code;
    left_known = known;
  }
  add(piece.substr(begin));
}

void BpeModel::read_symbols(std::string_view word, ModelScratch& scratch) const {
  scratch.symbols.clear();
  scratch.lengths.clear();
  const auto add = [&](int32_t id, uint32_t length) {
    scratch.symbols.push_back(id);
    scratch.lengths.push_back(length);
  };
  const bool plain = prefix_.empty() && suffix_.empty();
  uint32_t unknown_length = 0;  // of a pending unknown character; 0: none
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    const char32_t code = utf8::next(word, at);
    const auto length = static_cast<uint32_t>(at - begin);
    int32_t id = -1;
    if (plain) {
      id = id_of(code);
    } else {
      scratch.key = begin > 0 ? prefix_ : std::string();
      scratch.key += word.substr(begin, length);
      if (at == word.size()) scratch.key += suffix_;
      id = vocabulary_.find(scratch.key);
    }
    if (id >= 0) {
      if (unknown_length > 0) add(unknown_, unknown_length);
      unknown_length = 0;
      add(id, length);
      continue;
    }
    if (byte_fallback_) {
      const std::string_view bytes = plain ? word.substr(begin, length) : std::string_view(scratch.key);
      const bool all = has_all_bytes_ || std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
                         return byte_ids_[static_cast<unsigned char>(byte)] >= 0;
                       });
      if (all) {
        for (const char byte : bytes) add(byte_ids_[static_cast<unsigned char>(byte)], 1);
        continue;
      }
    }
    if (unknown_token_.empty()) continue;
    require<FormatError>(unknown_ >= 0, "[Tokenizer] the text has a character without a token, and unk_token \"",
                         unknown_token_, "\" is not in the vocabulary.");
    if (unknown_length > 0 && !fuse_unknown_) {
      add(unknown_, unknown_length);
      unknown_length = 0;
    }
    unknown_length += length;
  }
  if (unknown_length > 0) add(unknown_, unknown_length);
}

void BpeModel::merge_short(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& lengths = scratch.lengths;
  auto& ranks = scratch.ranks;
  std::size_t count = symbols.size();
  if (count < 2) return;
  std::array<int32_t, kShort> made{};
  ranks.resize(count);
  const auto look_up = [&](std::size_t i) {
    const MergeRule rule = i + 1 < count ? merges_.find(symbols[i], symbols[i + 1]) : MergeRule{};
    ranks[i] = rule.rank;
    made[i] = rule.id;
  };
  for (std::size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == UINT32_MAX) break;
    symbols[best] = made[best];
    lengths[best] += lengths[best + 1];
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      lengths[i] = lengths[i + 1];
      ranks[i] = ranks[i + 1];
      made[i] = made[i + 1];
    }
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  symbols.resize(count);
  lengths.resize(count);
}

// A heap of (rank, position) over a linked list: O(n log n).
void BpeModel::merge_long(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& lengths = scratch.lengths;
  const auto count = static_cast<int32_t>(symbols.size());
  scratch.next.resize(symbols.size());
  scratch.previous.resize(symbols.size());
  scratch.heap.clear();
  const auto push = [&](int32_t left, int32_t right) {
    const MergeRule rule =
        merges_.find(symbols[static_cast<std::size_t>(left)], symbols[static_cast<std::size_t>(right)]);
    if (rule.id >= 0) scratch.heap.push_back(uint64_t{rule.rank} << 32 | static_cast<uint32_t>(left));
    return rule.id >= 0;
  };
  for (int32_t i = 0; i < count; ++i) {
    scratch.next[static_cast<std::size_t>(i)] = i + 1 < count ? i + 1 : -1;
    scratch.previous[static_cast<std::size_t>(i)] = i - 1;
    if (i + 1 < count) push(i, i + 1);
  }
  const auto later = std::greater<>();
  std::make_heap(scratch.heap.begin(), scratch.heap.end(), later);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), later);
    const uint64_t top = scratch.heap.back();
    scratch.heap.pop_back();
    const auto at = static_cast<std::size_t>(top & UINT32_MAX);
    const int32_t right = scratch.next[at];
    if (lengths[at] == 0 || right < 0) continue;
    const MergeRule rule = merges_.find(symbols[at], symbols[static_cast<std::size_t>(right)]);
    if (rule.id < 0 || rule.rank != top >> 32) continue;  // a neighbour has changed since
    symbols[at] = rule.id;
    lengths[at] += lengths[static_cast<std::size_t>(right)];
    lengths[static_cast<std::size_t>(right)] = 0;
    const int32_t behind = scratch.next[at] = scratch.next[static_cast<std::size_t>(right)];
    if (behind >= 0) scratch.previous[static_cast<std::size_t>(behind)] = static_cast<int32_t>(at);
    const int32_t before = scratch.previous[at];
    if (before >= 0 && push(before, static_cast<int32_t>(at))) {
      std::push_heap(scratch.heap.begin(), scratch.heap.end(), later);
    }
    if (behind >= 0 && push(static_cast<int32_t>(at), behind)) {
      std::push_heap(scratch.heap.begin(), scratch.heap.end(), later);
    }
  }
}

std::unique_ptr<TokenModel> make_bpe(const JsonField& field) { return std::make_unique<BpeModel>(field); }

}  // namespace easydel
