#include "easydel/tokenizers/sentencepiece_tokenizer.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/file.h"

#if EASYDEL_HAS_SENTENCEPIECE
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <climits>
#include <unordered_map>

#include "easydel/tokenizers/sentencepiece_model.h"
#endif

namespace easydel {

#if EASYDEL_HAS_SENTENCEPIECE

namespace {

using Processor = sentencepiece::SentencePieceProcessor;

std::unique_ptr<Processor> load(std::string_view bytes, const std::string& where) {
  auto processor = std::make_unique<Processor>();
  std::string problem;
  try {
    const auto status = processor->LoadFromSerializedProto(bytes);
    if (!status.ok()) problem = status.error_message();
  } catch (const std::exception& error) {  // the double array of the vocabulary throws
    problem = error.what();
  }
  require<FormatError>(problem.empty(), "[SentencePieceTokenizer] ", where,
                       " is not taken by sentencepiece: ", problem);
  return processor;
}

// The size of the white space that a text begins or ends with, one character; 0: none.
std::size_t blank_size(std::string_view text, bool at_end) {
  const auto fits = [&](std::string_view blank) { return at_end ? text.ends_with(blank) : text.starts_with(blank); };
  if (text.empty()) return 0;
  const char c = at_end ? text.back() : text.front();
  if (c == ' ' || (c >= '\t' && c <= '\r')) return 1;
  if ((c & 0x80) == 0) return 0;
  for (const char* blank :
       {"\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007",
        "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"}) {
    if (fits(blank)) return std::string_view(blank).size();
  }
  return 0;
}

// Characters beyond ASCII count as letters.
bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

struct Stretch {  // of the text: an added token, or what sentencepiece is to encode
  std::size_t begin = 0, end = 0;
  const SentencePieceAddedToken* token = nullptr;
};

}  // namespace

struct SentencePieceTokenizer::Impl {
  std::unique_ptr<Processor> model;
  std::unique_ptr<Processor> without_prefix;  // where a later stretch gets none
  SentencePieceModelFacts facts;
  SentencePieceOptions options;
  std::string where;
  std::unordered_map<int32_t, const SentencePieceAddedToken*> added_by_id;
  std::array<std::vector<const SentencePieceAddedToken*>, 256> added_by_byte;  // longest first
  std::optional<int32_t> bos, eos;

  int32_t pieces() const { return static_cast<int32_t>(facts.pieces); }
  void add_tokens();
  std::optional<int32_t> find(const std::string& token) const;
  const SentencePieceAddedToken* added_at(std::string_view text, std::size_t at) const;
  std::vector<Stretch> split(std::string_view text) const;
  void encode_stretch(const Processor& processor, std::string_view text, std::size_t begin, bool offsets,
                      Encoding& out) const;
  std::string decode_run(std::vector<int>& run, bool first) const;
};

void SentencePieceTokenizer::Impl::add_tokens() {
  for (const SentencePieceAddedToken& token : options.added_tokens) {
    require<ConfigError>(!token.content.empty() && token.id >= 0,
                         "[SentencePieceTokenizer] an added token needs text "
                         "and an id from 0; got \"",
                         token.content, "\" with ", token.id, ".");
    require<ConfigError>(added_by_id.emplace(token.id, &token).second,
                         "[SentencePieceTokenizer] two added tokens have the id ", token.id, ".");
    auto& list = added_by_byte[static_cast<uint8_t>(token.content.front())];
    for (const auto* other : list) {
      require<ConfigError>(other->content != token.content, "[SentencePieceTokenizer] the added token \"",
                           token.content, "\" is given twice, as ", other->id, " and ", token.id, ".");
    }
    list.push_back(&token);
  }
  for (auto& list : added_by_byte) {
    std::stable_sort(list.begin(), list.end(),
                     [](const auto* a, const auto* b) { return a->content.size() > b->content.size(); });
  }
}

std::optional<int32_t> SentencePieceTokenizer::Impl::find(const std::string& token) const {
  if (token.empty()) return std::nullopt;
  for (const auto* added : added_by_byte[static_cast<uint8_t>(token.front())]) {
    if (added->content == token) return added->id;
  }
  const int id = model->PieceToId(token);  // unk for what it does not know
  if (id >= 0 && id < pieces() && model->IdToPiece(id) == token && !added_by_id.contains(id)) return id;
  return std::nullopt;
}

const SentencePieceAddedToken* SentencePieceTokenizer::Impl::added_at(std::string_view text, std::size_t at) const {
  for (const auto* token : added_by_byte[static_cast<uint8_t>(text[at])]) {
    const std::size_t end = at + token->content.size();
    if (end > text.size() || text.substr(at, token->content.size()) != token->content) continue;
    if (token->single_word && ((at > 0 && is_word(text[at - 1])) || (end < text.size() && is_word(text[end]))))
      continue;
    return token;
  }
  return nullptr;
}

std::vector<Stretch> SentencePieceTokenizer::Impl::split(std::string_view text) const {
  if (options.added_tokens.empty()) return {{0, text.size()}};
  std::vector<Stretch> stretches;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto* token = added_at(text, at);
    if (!token) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + token->content.size();
    if (token->lstrip) {
      while (const std::size_t size = blank_size(text.substr(done, begin - done), true)) begin -= size;
    }
    if (token->rstrip) {
      while (const std::size_t size = blank_size(text.substr(end), false)) end += size;
    }
    if (begin > done) stretches.push_back({done, begin});
    stretches.push_back({begin, end, token});
    at = done = end;
  }
  if (done < text.size()) stretches.push_back({done, text.size()});
  return stretches;
}

void SentencePieceTokenizer::Impl::encode_stretch(const Processor& processor, std::string_view text, std::size_t begin,
                                                  bool offsets, Encoding& out) const {
  const auto check = [&](const auto& status) {
    require<Error>(status.ok(), "[SentencePieceTokenizer] ", where, " cannot encode a text of ", text.size(),
                   " bytes: ", status.ok() ? "" : status.error_message());
  };
  if (!offsets) {
    std::vector<int> ids;
    check(processor.Encode(text, &ids));
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    return;
  }
  sentencepiece::ImmutableSentencePieceText result;
  check(processor.Encode(text, result.mutable_proto()));
  for (std::size_t i = 0; i < result.pieces_size(); ++i) {
    const auto piece = result.pieces(static_cast<int>(i));
    out.ids.push_back(static_cast<int32_t>(piece.id()));
    out.offsets.push_back({static_cast<uint32_t>(begin + piece.begin()), static_cast<uint32_t>(begin + piece.end())});
  }
}

SentencePieceTokenizer::SentencePieceTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::from_bytes(std::string_view bytes,
                                                                           const SentencePieceOptions& options,
                                                                           const std::string& where) {
  auto impl = std::make_unique<Impl>();
  impl->facts = check_sentencepiece_model(bytes, where);
  impl->options = options;
  impl->where = where;
  impl->model = load(bytes, where);
  impl->add_tokens();
  if (!options.legacy && impl->facts.add_dummy_prefix && !options.added_tokens.empty()) {
    // Messages that stand twice are merged, so this says normalizer_spec.add_dummy_prefix = false.
    impl->without_prefix = load(std::string(bytes) + std::string("\x1a\x02\x18\x00", 4), where);
  }
  const auto resolve = [&](const std::string& token, int own, const char* name, bool needed) {
    std::optional<int32_t> id;
    if (token.empty() && own >= 0) id = own;
    if (!token.empty()) id = impl->find(token);
    require<ConfigError>(id || (!needed && token.empty()), "[SentencePieceTokenizer] ", where, " has no ", name,
                         " token", token.empty() ? "" : " \"" + token + "\"",
                         "; name one that it has, or do not add it.");
    return id;
  };
  impl->bos = resolve(options.bos_token, impl->model->bos_id(), "bos", options.add_bos);
  impl->eos = resolve(options.eos_token, impl->model->eos_id(), "eos", options.add_eos);
  return std::unique_ptr<SentencePieceTokenizer>(new SentencePieceTokenizer(std::move(impl)));
}

Encoding SentencePieceTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const std::size_t most = INT_MAX / impl_->facts.growth - 16;  // the library counts in int
  require<ConfigError>(text.size() <= most, "[SentencePieceTokenizer] a text may have ", most, " bytes; got ",
                       text.size(), ". Encode it in parts.");
  Encoding out;
  const auto add = [&](int32_t id, std::size_t begin, std::size_t end) {
    out.ids.push_back(id);
    if (options.offsets) out.offsets.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  };
  const bool bos = options.add_special_tokens && impl_->options.add_bos;
  const bool eos = options.add_special_tokens && impl_->options.add_eos;
  if (bos) add(*impl_->bos, 0, 0);
  bool first = true;
  for (const Stretch& stretch : impl_->split(text)) {
    if (stretch.token) {
      add(stretch.token->id, stretch.begin, stretch.end);
    } else {
      const Processor& processor = first || !impl_->without_prefix ? *impl_->model : *impl_->without_prefix;
      impl_->encode_stretch(processor, text.substr(stretch.begin, stretch.end - stretch.begin), stretch.begin,
                            options.offsets, out);
    }
    first = false;
  }
  if (eos) add(*impl_->eos, text.size(), text.size());
  if (options.offsets) {
    out.type_ids.assign(out.size(), 0);
    out.word_ids.assign(out.size(), -1);
    out.attention_mask.assign(out.size(), 1);
    out.special_tokens_mask.assign(out.size(), 0);
    if (bos) out.special_tokens_mask.front() = 1;
    if (eos) out.special_tokens_mask.back() = 1;
  }
  return out;
}

std::string SentencePieceTokenizer::Impl::decode_run(std::vector<int>& run, bool first) const {
  if (run.empty()) return {};
  std::string text;
  const auto status = (first || !without_prefix ? *model : *without_prefix).Decode(run, &text);
  require<Error>(status.ok(), "[SentencePieceTokenizer] ", where,
                 " cannot decode: ", status.ok() ? "" : status.error_message());
  run.clear();
  return text;
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string text;
  std::vector<int> run;
  bool first = true;  // nothing was seen yet that ends the stretch with the prefix
  for (const int32_t id : ids) {
    const auto added = impl_->added_by_id.find(id);
    if (added == impl_->added_by_id.end()) {
      require<ConfigError>(id >= 0 && id < impl_->pieces(), "[SentencePieceTokenizer] unknown token id ", id, "; ",
                           impl_->where, " has ", impl_->pieces(), " pieces and ", impl_->added_by_id.size(),
                           " added tokens.");
      if (!impl_->model->IsControl(id)) {
        run.push_back(id);
        continue;
      }
    }
    const bool skipped = skip_special_tokens && is_special(id);
    const bool inside = !run.empty();
    if (skipped && added == impl_->added_by_id.end()) {  // a control piece, which the library makes nothing of
      run.push_back(id);
      continue;
    }
    text += impl_->decode_run(run, first);
    if (!skipped) text += added == impl_->added_by_id.end() ? impl_->model->IdToPiece(id) : added->second->content;
    if (inside || id != impl_->bos) first = false;
  }
  return text + impl_->decode_run(run, first);
}

std::optional<int32_t> SentencePieceTokenizer::token_to_id(std::string_view token) const {
  return impl_->find(std::string(token));
}

std::optional<std::string> SentencePieceTokenizer::id_to_token(int32_t id) const {
  if (const auto added = impl_->added_by_id.find(id); added != impl_->added_by_id.end()) return added->second->content;
  if (id < 0 || id >= impl_->pieces()) return std::nullopt;
  return impl_->model->IdToPiece(id);
}

int64_t SentencePieceTokenizer::vocab_size() const {
  int64_t size = impl_->pieces();
  for (const auto& [id, token] : impl_->added_by_id) size += id >= impl_->pieces();
  return size;
}

bool SentencePieceTokenizer::is_special(int32_t id) const {
  if (const auto added = impl_->added_by_id.find(id); added != impl_->added_by_id.end()) return added->second->special;
  return id >= 0 && id < impl_->pieces() && (impl_->model->IsControl(id) || impl_->model->IsUnknown(id));
}

bool SentencePieceTokenizer::is_byte(int32_t id) const {
  return id >= 0 && id < impl_->pieces() && impl_->model->IsByte(id);
}

namespace {
std::optional<int32_t> if_any(int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); }
}  // namespace

std::optional<int32_t> SentencePieceTokenizer::bos_id() const { return impl_->bos; }
std::optional<int32_t> SentencePieceTokenizer::eos_id() const { return impl_->eos; }
std::optional<int32_t> SentencePieceTokenizer::unk_id() const { return if_any(impl_->model->unk_id()); }
std::optional<int32_t> SentencePieceTokenizer::pad_id() const { return if_any(impl_->model->pad_id()); }

#else

struct SentencePieceTokenizer::Impl {};
SentencePieceTokenizer::SentencePieceTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::from_bytes(std::string_view,
                                                                           const SentencePieceOptions&,
                                                                           const std::string& where) {
  fail<NotSupportedError>("[SentencePieceTokenizer] ", where, " needs sentencepiece, which this build is without. ",
                          "Debian and Ubuntu have it as libsentencepiece-dev.");
}

Encoding SentencePieceTokenizer::encode(std::string_view, const EncodeOptions&) const { return {}; }
std::string SentencePieceTokenizer::decode(std::span<const int32_t>, bool) const { return {}; }
std::optional<int32_t> SentencePieceTokenizer::token_to_id(std::string_view) const { return std::nullopt; }
std::optional<std::string> SentencePieceTokenizer::id_to_token(int32_t) const { return std::nullopt; }
int64_t SentencePieceTokenizer::vocab_size() const { return 0; }
bool SentencePieceTokenizer::is_special(int32_t) const { return false; }
bool SentencePieceTokenizer::is_byte(int32_t) const { return false; }
std::optional<int32_t> SentencePieceTokenizer::bos_id() const { return std::nullopt; }
std::optional<int32_t> SentencePieceTokenizer::eos_id() const { return std::nullopt; }
std::optional<int32_t> SentencePieceTokenizer::unk_id() const { return std::nullopt; }
std::optional<int32_t> SentencePieceTokenizer::pad_id() const { return std::nullopt; }

#endif

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::open(const std::filesystem::path& path,
                                                                     const SentencePieceOptions& options) {
  return from_bytes(read_file(path), options, path.string());
}

}  // namespace easydel
