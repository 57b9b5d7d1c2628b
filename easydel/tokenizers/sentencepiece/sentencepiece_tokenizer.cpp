#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"

#if EASYDEL_HAS_SENTENCEPIECE
#include <sentencepiece_processor.h>

#include <climits>
#include <mutex>

#include "easydel/tokenizers/sentencepiece/sentencepiece_added_tokens.h"
#include "easydel/tokenizers/sentencepiece/sentencepiece_model.h"
#endif

namespace easydel {

#if EASYDEL_HAS_SENTENCEPIECE

namespace {

using Processor = sentencepiece::SentencePieceProcessor;

constexpr std::size_t kLongText = 16384;  // bytes

std::unique_ptr<Processor> load(std::string_view bytes, const std::string& where) {
  auto processor = std::make_unique<Processor>();
  std::string problem;
  try {
    const auto status = processor->LoadFromSerializedProto(bytes);
    if (!status.ok()) problem = status.error_message();
  } catch (const std::exception& error) {  // the double array of the vocabulary throws
    problem = error.what();
  }
  require<FormatError>(problem.empty(), "[SentencePieceTokenizer] ", where, " is rejected by sentencepiece: ", problem);
  return processor;
}

// The same model with all 256 byte pieces appended. Repeated messages are merged, so the end of it sets
// trainer_spec.byte_fallback = true.
std::string with_byte_pieces(std::string_view bytes) {
  std::string model(bytes);
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    constexpr char kScoreAndType[] = {0x15, 0, 0, 0, 0, 0x18, 6};
    const char name[] = {'<', '0', 'x', kDigits[byte / 16], kDigits[byte % 16], '>'};
    (model += {0x0a, 8 + sizeof kScoreAndType, 0x0a, sizeof name}).append(name, sizeof name);
    model.append(kScoreAndType, sizeof kScoreAndType);
  }
  return model + "\x12\x03\x98\x02\x01";
}

}  // namespace

struct SentencePieceTokenizer::Impl {
  Impl(SentencePieceModelFacts f, SentencePieceOptions o, std::string w)
      : facts(f), options(std::move(o)), where(std::move(w)), added(options.added_tokens) {}

  const SentencePieceModelFacts facts;
  const SentencePieceOptions options;
  const std::string where;
  const SentencePieceAddedTokens added;
  struct Models {
    std::unique_ptr<Processor> plain;
    mutable std::unique_ptr<Processor> with_bytes;  // loaded for the first long text
    mutable std::once_flag once;
  };
  Models with_prefix, without_prefix;  // the latter for stretches without the prefix
  std::optional<int32_t> bos, eos;

  int32_t pieces() const { return static_cast<int32_t>(facts.pieces); }
  const Processor& model() const { return *with_prefix.plain; }
  const Processor& processor_for(std::size_t text_size, bool first) const;
  std::optional<int32_t> find(std::string_view token) const;
  void encode_stretch(std::string_view text, std::size_t begin, bool first, bool offsets, Encoding& out) const;
  std::string decode_run(std::vector<int>& run, bool first) const;
};

// Version 0.1.97 joins unknown characters in quadratic time: 12 s for 900 kB of them. It does not join bytes, so long
// texts go through a model with byte fallback.
const Processor& SentencePieceTokenizer::Impl::processor_for(std::size_t text_size, bool first) const {
  const Models& models = first || !without_prefix.plain ? with_prefix : without_prefix;
  if (text_size <= kLongText || facts.byte_fallback || facts.has_byte_names || facts.tests_itself) return *models.plain;
  std::call_once(models.once,
                 [&] { models.with_bytes = load(with_byte_pieces(models.plain->serialized_model_proto()), where); });
  return *models.with_bytes;
}

std::optional<int32_t> SentencePieceTokenizer::Impl::find(std::string_view token) const {
  if (token.empty()) return std::nullopt;
  if (const auto* known = added.find(token)) return known->id;
  const int id = model().PieceToId(token);  // unk if unknown
  if (id >= 0 && id < pieces() && model().IdToPiece(id) == token && !added.find(id)) return id;
  return std::nullopt;
}

void SentencePieceTokenizer::Impl::encode_stretch(std::string_view text, std::size_t begin, bool first, bool offsets,
                                                  Encoding& out) const {
  const auto check = [&](const auto& status) {
    require<Error>(status.ok(), "[SentencePieceTokenizer] ", where, " cannot encode a text of ", text.size(),
                   " bytes: ", status.ok() ? "" : status.error_message());
  };
  const Processor& processor = processor_for(text.size(), first);
  if (!offsets && text.size() <= kLongText) {
    std::vector<int> ids;
    check(processor.Encode(text, &ids));
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    return;
  }
  sentencepiece::ImmutableSentencePieceText result;
  check(processor.Encode(text, result.mutable_proto()));
  bool after_unknown = false;
  for (std::size_t i = 0; i < result.pieces_size(); ++i) {
    const auto piece = result.pieces(static_cast<int>(i));
    const auto id = static_cast<int32_t>(piece.id());
    const bool unknown = id >= pieces();  // bytes of a character without a piece; together they are one <unk>
    if (!(unknown && after_unknown)) {
      out.ids.push_back(unknown ? model().unk_id() : id);
      if (offsets) out.offsets.push_back({static_cast<uint32_t>(begin + piece.begin()), 0});
    }
    if (offsets) out.offsets.back().end = static_cast<uint32_t>(begin + piece.end());
    after_unknown = unknown;
  }
}

SentencePieceTokenizer::SentencePieceTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::from_bytes(std::string_view bytes,
                                                                           const SentencePieceOptions& options,
                                                                           const std::string& where) {
  auto impl = std::make_unique<Impl>(check_sentencepiece_model(bytes, where), options, where);
  impl->with_prefix.plain = load(bytes, where);
  if (!options.legacy && impl->facts.add_dummy_prefix && !options.added_tokens.empty()) {
    // Repeated messages are merged, so this sets normalizer_spec.add_dummy_prefix = false.
    impl->without_prefix.plain = load(std::string(bytes) + std::string("\x1a\x02\x18\x00", 4), where);
  }
  const auto resolve = [&](const std::string& token, int own, const char* name, bool needed) {
    std::optional<int32_t> id;
    if (token.empty() && own >= 0) id = own;
    if (!token.empty()) id = impl->find(token);
    require<ConfigError>(id || (!needed && token.empty()), "[SentencePieceTokenizer] ", where, " has no ", name,
                         " token", token.empty() ? "" : " \"" + token + "\"",
                         "; choose one that it has, or do not add it.");
    return id;
  };
  impl->bos = resolve(options.bos_token, impl->model().bos_id(), "bos", options.add_bos);
  impl->eos = resolve(options.eos_token, impl->model().eos_id(), "eos", options.add_eos);
  return std::unique_ptr<SentencePieceTokenizer>(new SentencePieceTokenizer(std::move(impl)));
}

Encoding SentencePieceTokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  const std::size_t most = INT_MAX / impl_->facts.growth - 16;  // the library counts in int
  require<ConfigError>(text.size() <= most, "[SentencePieceTokenizer] a text must have at most ", most, " bytes; got ",
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
  for (const auto& stretch : impl_->added.split(text)) {
    if (stretch.token) {
      add(stretch.token->id, stretch.begin, stretch.end);
    } else {
      impl_->encode_stretch(text.substr(stretch.begin, stretch.end - stretch.begin), stretch.begin, first,
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
  const auto status = processor_for(0, first).Decode(run, &text);
  require<Error>(status.ok(), "[SentencePieceTokenizer] ", where,
                 " cannot decode: ", status.ok() ? "" : status.error_message());
  run.clear();
  return text;
}

std::string SentencePieceTokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  std::string text;
  std::vector<int> run;
  bool first = true;  // still in the stretch with the prefix
  for (const int32_t id : ids) {
    const auto* added = impl_->added.find(id);
    if (!added) {
      require<ConfigError>(id >= 0 && id < impl_->pieces(), "[SentencePieceTokenizer] unknown token id ", id, "; ",
                           impl_->where, " has ", impl_->pieces(), " pieces and ", impl_->added.all().size(),
                           " added tokens.");
      if (!impl_->model().IsControl(id)) {
        run.push_back(id);
        continue;
      }
    }
    const bool skipped = skip_special_tokens && is_special(id);
    const bool inside = !run.empty();
    if (skipped && !added) {  // a control piece, which the library ignores
      run.push_back(id);
      continue;
    }
    text += impl_->decode_run(run, first);
    if (!skipped) text += added ? added->content : impl_->model().IdToPiece(id);
    if (inside || id != impl_->bos) first = false;
  }
  return text + impl_->decode_run(run, first);
}

std::optional<int32_t> SentencePieceTokenizer::token_to_id(std::string_view token) const { return impl_->find(token); }

std::optional<std::string> SentencePieceTokenizer::id_to_token(int32_t id) const {
  if (const auto* added = impl_->added.find(id)) return added->content;
  if (id < 0 || id >= impl_->pieces()) return std::nullopt;
  return impl_->model().IdToPiece(id);
}

int64_t SentencePieceTokenizer::vocab_size() const {
  int64_t size = impl_->pieces();
  for (const auto& token : impl_->added.all()) size += token.id >= impl_->pieces();
  return size;
}

bool SentencePieceTokenizer::is_special(int32_t id) const {
  if (const auto* added = impl_->added.find(id)) return added->special;
  return id >= 0 && id < impl_->pieces() && (impl_->model().IsControl(id) || impl_->model().IsUnknown(id));
}

bool SentencePieceTokenizer::is_byte(int32_t id) const {
  return id >= 0 && id < impl_->pieces() && impl_->model().IsByte(id);
}

namespace {
std::optional<int32_t> if_any(int id) { return id < 0 ? std::nullopt : std::optional<int32_t>(id); }
}  // namespace

std::optional<int32_t> SentencePieceTokenizer::bos_id() const { return impl_->bos; }
std::optional<int32_t> SentencePieceTokenizer::eos_id() const { return impl_->eos; }
std::optional<int32_t> SentencePieceTokenizer::unk_id() const { return if_any(impl_->model().unk_id()); }
std::optional<int32_t> SentencePieceTokenizer::pad_id() const { return if_any(impl_->model().pad_id()); }

#else

struct SentencePieceTokenizer::Impl {};
SentencePieceTokenizer::SentencePieceTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SentencePieceTokenizer::~SentencePieceTokenizer() = default;

std::unique_ptr<SentencePieceTokenizer> SentencePieceTokenizer::from_bytes(std::string_view,
                                                                           const SentencePieceOptions&,
                                                                           const std::string& where) {
  fail<NotSupportedError>("[SentencePieceTokenizer] ", where, " needs sentencepiece, which this build lacks. ",
                          "Install libsentencepiece-dev and build again.");
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
