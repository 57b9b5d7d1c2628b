// Text to ids: added tokens, normalizer, pre-tokenizer, model, truncation, post-processor, padding, in this order.
#include <algorithm>
#include <thread>

#include "easydel/core/text/utf8.h"
#include "easydel/io/parallel.h"
#include "easydel/tokenizers/bpe/byte_level.h"
#include "easydel/tokenizers/files/json_tokenizer_parts.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
constexpr std::size_t kMaxPartsOfPairs = 1 << 16;

void add_piece(PreTokenized& pre, uint32_t begin, uint32_t end, int32_t token) {
  if (begin < end) pre.pieces().push_back({begin, end, pre.origin_at(begin), token});
}

bool is_blank(char32_t code) { return code == byte_level::kSpace || unicode::is_whitespace(code); }

uint32_t leading_blanks(std::string_view text) {
  uint32_t count = 0;
  for (std::size_t at = 0; at < text.size() && is_blank(utf8::next(text, at));) ++count;
  return count;
}

uint32_t trailing_blanks(std::string_view text) {
  uint32_t count = 0;
  for (std::size_t at = text.size(); at > 0 && is_blank(utf8::previous(text, at));) ++count;
  return count;
}

// Trims as many characters from each side as the token has spaces there.
void trim(std::string_view text, TokenBlanks blanks, bool is_first, bool add_prefix_space, Offset& offset) {
  if ((is_first || offset.begin == 0) && add_prefix_space && blanks.leading == 1) blanks.leading = 0;
  for (; blanks.leading > 0 && offset.begin < offset.end; --blanks.leading) {
    offset.begin += static_cast<uint32_t>(utf8::length_of_lead(text[offset.begin]));
  }
  std::size_t end = offset.end;
  uint32_t taken = 0;
  while (taken < blanks.trailing && end > 0) {
    utf8::previous(text, end);
    ++taken;
  }
  if (taken == blanks.trailing) offset.end = std::max(static_cast<uint32_t>(end), offset.begin);
}

void fill_attention(Encoding& encoding) {
  encoding.attention_mask.assign(encoding.ids.size(), 1);
  for (Encoding& part : encoding.overflowing) fill_attention(part);
}

}  // namespace

JsonTokenizer::Tokens JsonTokenizer::tokenize(Work& work, std::string_view text, bool full) const {
  const Parts& parts = *parts_;
  require<FormatError>(text.size() <= kMaxTextBytes, "[Tokenizer] a text has ", text.size(), " bytes; the limit is ",
                       kMaxTextBytes, ".");
  const std::size_t bad = invalid_utf8(text);
  require<FormatError>(bad == std::string_view::npos, "[Tokenizer] a text must be UTF-8; byte ", bad, " is not.");

  PreTokenized pre(text, full || parts.always_tracks);
  work.matches.clear();
  parts.added.find(text, false, work.matches);
  if (!parts.normalizer) {
    for (const auto& match : work.matches) {
      if (match.token >= 0 || !parts.added.has(true)) {
        add_piece(pre, match.begin, match.end, match.token);
        continue;
      }
      work.inner.clear();
      parts.added.find(text.substr(match.begin, match.end - match.begin), true, work.inner);
      for (const auto& inner : work.inner)
        add_piece(pre, match.begin + inner.begin, match.begin + inner.end, inner.token);
    }
  } else {
    normalize(work, text, pre);
  }
  if (parts.pre_tokenizer) parts.pre_tokenizer->apply(pre);

  Tokens out;
  out.text = text;
  const bool trims = full && !parts.post_processor.trims().empty();
  out.ids.reserve(pre.pieces().size() + pre.pieces().size() / 4);
  if (full) {
    out.offsets.reserve(out.ids.capacity());
    out.words.reserve(out.ids.capacity());
  }
  const auto tokenize_piece = [&](const Piece& piece) {
    work.tokens.clear();
    if (piece.token >= 0) {
      work.tokens.push_back({piece.token, 0, piece.end - piece.begin});
    } else {
      parts.model->tokenize(pre.text(piece), work.model, work.tokens);
    }
  };
  const auto write = [&](const Piece& piece, int32_t word) {
    for (const ModelToken& token : work.tokens) {
      out.ids.push_back(token.id);
      if (!full) continue;
      out.offsets.push_back(pre.original(piece, token.begin, token.end));
      out.words.push_back(word);
      if (trims) {
        const std::string_view value = piece.token >= 0 ? pre.text(piece) : *parts.model->id_to_token(token.id);
        out.blanks.push_back({leading_blanks(value), trailing_blanks(value)});
      }
    }
  };
  int32_t word = 0;
  for (const Piece& piece : pre.pieces()) {
    tokenize_piece(piece);
    write(piece, word++);
  }
  return out;
}

void JsonTokenizer::normalize(Work& work, std::string_view text, PreTokenized& pre) const {
  const Parts& parts = *parts_;
  struct Found {
    uint32_t begin, end;
    int32_t token;
  };
  std::vector<Found> found;
  std::string joined;
  std::vector<Offset> align;
  bool changed = false;
  for (const auto& match : work.matches) {
    AlignedText part(text.substr(match.begin, match.end - match.begin), match.begin, pre.is_tracked());
    if (match.token < 0) parts.normalizer->normalize(part);
    const auto base = static_cast<uint32_t>(joined.size());
    require<FormatError>(joined.size() + part.view().size() <= 2 * kMaxTextBytes, "[Tokenizer] a text of ", text.size(),
                         " bytes exceeds 2 GiB once it is normalized.");
    if (match.token >= 0) {
      found.push_back({base, base + match.end - match.begin, match.token});
    } else {
      work.inner.clear();
      parts.added.find(part.view(), true, work.inner);
      for (const auto& inner : work.inner) found.push_back({base + inner.begin, base + inner.end, inner.token});
      changed = changed || !part.is_unchanged();
    }
    if (work.matches.size() == 1 && !changed) break;  // the text itself is used
    joined += part.view();
    if (pre.is_tracked()) {
      const std::vector<Offset>& own = part.alignments();
      align.insert(align.end(), own.begin(), own.end());
    }
  }
  if (changed) pre.rewrite(std::move(joined), std::move(align));
  for (const Found& piece : found) add_piece(pre, piece.begin, piece.end, piece.token);
}

std::vector<Encoding> JsonTokenizer::build(const Tokens& tokens, std::size_t most, int32_t type_id, bool full) const {
  const auto part = [&](const TokenRange& range) {
    const auto slice = [&](const auto& values) {
      return std::decay_t<decltype(values)>(values.begin() + static_cast<std::ptrdiff_t>(range.begin),
                                            values.begin() + static_cast<std::ptrdiff_t>(range.end));
    };
    Encoding out;
    out.ids = slice(tokens.ids);
    if (!full) return out;
    const std::size_t size = out.ids.size();
    out.offsets = slice(tokens.offsets);
    out.word_ids = slice(tokens.words);
    out.type_ids.assign(size, type_id);
    out.special_tokens_mask.assign(size, 0);
    out.attention_mask.assign(size, 1);
    for (const bool add_prefix_space : parts_->post_processor.trims()) {
      for (std::size_t i = 0; i < size; ++i) {
        trim(tokens.text, tokens.blanks[range.begin + i], i == 0, add_prefix_space, out.offsets[i]);
      }
    }
    return out;
  };
  if (!parts_->truncation) return {part({0, tokens.ids.size()})};
  std::vector<Encoding> parts;
  for (const TokenRange& range : parts_of(tokens.ids.size(), most, *parts_->truncation)) parts.push_back(part(range));
  return parts;
}

Encoding JsonTokenizer::encode_with(Work& work, const TextPair& texts, const EncodeOptions& options) const {
  const Parts& parts = *parts_;
  const bool full = options.offsets;
  const Tokens first = tokenize(work, texts.first, full);
  const Tokens second = texts.second ? tokenize(work, *texts.second, full) : Tokens{};
  Lengths lengths{first.ids.size(), second.ids.size()};
  if (parts.truncation) {
    const std::size_t special =
        options.add_special_tokens ? parts.post_processor.added_tokens(texts.second.has_value()) : 0;
    require<ConfigError>(parts.truncation->max_length >= special, "[Tokenizer] a truncation to ",
                         parts.truncation->max_length, " tokens has no room for ", special, " special ones.");
    lengths = truncated_lengths(first.ids.size(), texts.second ? std::optional(second.ids.size()) : std::nullopt,
                                parts.truncation->max_length - special, *parts.truncation);
  }
  const auto count_parts = [&](const Tokens& tokens, std::size_t most) {
    return parts.truncation && most > 0 ? tokens.ids.size() / most + 1 : 1;
  };
  // Every part of one is combined with every part of the other.
  const std::size_t combined =
      count_parts(first, lengths.first) * (texts.second ? count_parts(second, lengths.second) : 1);
  require<ConfigError>(!texts.second || combined <= kMaxPartsOfPairs, "[Tokenizer] truncation to ",
                       parts.truncation ? parts.truncation->max_length : 0, " tokens would leave ", combined,
                       " overflowing parts of a pair; the limit is ", kMaxPartsOfPairs, ".");
  const auto assemble = [&](const Tokens& tokens, std::size_t most, int32_t type_id) {
    std::vector<Encoding> all = build(tokens, most, type_id, full);
    Encoding out = std::move(all[0]);
    out.overflowing.assign(std::make_move_iterator(all.begin() + 1), std::make_move_iterator(all.end()));
    return out;
  };
  std::vector<Encoding> encodings;
  encodings.push_back(assemble(first, lengths.first, 0));
  if (texts.second) encodings.push_back(assemble(second, lengths.second, 1));
  Encoding out = parts.post_processor.process(std::move(encodings), options.add_special_tokens, full);
  if (parts.padding) {
    if (!full) fill_attention(out);
    pad_encodings(std::span(&out, 1), *parts.padding);
  }
  return out;
}

Encoding JsonTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return encode_pair({.first = text}, options);
}

Encoding JsonTokenizer::encode_pair(const TextPair& texts, const EncodeOptions& options) const {
  const Borrowed work(*parts_);
  return encode_with(*work, texts, options);
}

std::vector<Encoding> JsonTokenizer::encode_batch(std::span<const TextPair> texts, const EncodeOptions& options,
                                                  int threads) const {
  std::vector<Encoding> batch(texts.size());
  if (texts.empty()) return batch;
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  for_each_in_parallel(texts.size(), threads, [&](const std::stop_token&) {
    return [&, work = Borrowed(*parts_)](std::size_t i) { batch[i] = encode_with(*work, texts[i], options); };
  });
  if (parts_->padding) pad_encodings(batch, *parts_->padding);
  return batch;
}

std::vector<Encoding> JsonTokenizer::encode_batch(std::span<const std::string> texts, const EncodeOptions& options,
                                                  int threads) const {
  std::vector<TextPair> pairs;
  pairs.reserve(texts.size());
  for (const std::string& text : texts) pairs.push_back({.first = text});
  return encode_batch(std::span<const TextPair>(pairs), options, threads);
}

}  // namespace easydel
