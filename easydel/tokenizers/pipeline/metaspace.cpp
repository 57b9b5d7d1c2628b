// Metaspace: spaces become a visible character, one is prepended, and words are split before it.
#include "easydel/tokenizers/pipeline/metaspace.h"

#include "easydel/tokenizers/pipeline/pre_tokenizer.h"

namespace easydel {

MetaspaceOptions read_metaspace(const JsonField& field) {
  MetaspaceOptions options;
  options.replacement = utf8::encode(field["replacement"].as_char());
  if (const auto scheme = field.find("prepend_scheme")) {
    options.scheme = static_cast<PrependScheme>(scheme->one_of({"always", "first", "never"}));
  }
  const auto add_prefix_space = field.find("add_prefix_space");
  if (add_prefix_space && !add_prefix_space->as_bool() && options.scheme != PrependScheme::kNever) {
    // Files older than prepend_scheme use only this key.
    if (field.find("prepend_scheme")) add_prefix_space->refuse("is false, which contradicts prepend_scheme.");
    options.scheme = PrependScheme::kNever;
  }
  options.split = field.bool_or("split", true);
  return options;
}

namespace {

class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const JsonField& field) : options_(read_metaspace(field)) {}

  void apply(PreTokenized& text) const override {
    const std::string& mark = options_.replacement;
    std::string out;
    std::vector<Offset> align;
    out.reserve(text.text().size() * 4 / 3 + 16);
    const auto put = [&](std::string_view characters, uint32_t like) {
      out += characters;
      if (text.is_tracked()) align.insert(align.end(), characters.size(), text.align(like));
    };
    std::vector<Piece> pieces;
    pieces.reserve(text.pieces().size() + text.text().size() / 4);
    for (const Piece& piece : text.pieces()) {
      auto begin = static_cast<uint32_t>(out.size());
      const std::string_view view = text.text(piece);
      if (piece.token < 0 && wants_prefix(piece, view)) put(mark, piece.begin);
      for (uint32_t i = piece.begin; i < piece.end; ++i) {
        if (piece.token < 0 && text.text()[i] == ' ') {
          put(mark, i);
        } else {
          put(text.text().substr(i, 1), i);
        }
      }
      const auto end = static_cast<uint32_t>(out.size());
      if (piece.token >= 0 || !options_.split) {
        pieces.push_back({begin, end, piece.origin, piece.token});
        continue;
      }
      // Splits before every mark; of several marks in a row, all but the last are separate pieces.
      const auto push = [&](uint32_t from, uint32_t to) {
        if (from < to) pieces.push_back({from, to, text.is_tracked() ? align[from].begin : 0});
      };
      for (std::size_t next = out.find(mark, begin); next < end; next = out.find(mark, next + mark.size())) {
        push(begin, static_cast<uint32_t>(next));
        begin = static_cast<uint32_t>(next);
      }
      push(begin, end);
    }
    text.rewrite(std::move(out), std::move(align));
    text.pieces() = std::move(pieces);
  }

  bool needs_origin() const override { return options_.scheme == PrependScheme::kFirst; }

 private:
  bool wants_prefix(const Piece& piece, std::string_view view) const {
    if (view.empty() || view[0] == ' ' || view.starts_with(options_.replacement)) return false;
    return options_.scheme == PrependScheme::kAlways || (options_.scheme == PrependScheme::kFirst && piece.origin == 0);
  }

  MetaspaceOptions options_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_metaspace_pre_tokenizer(const JsonField& field) {
  return std::make_unique<Metaspace>(field);
}

}  // namespace easydel
