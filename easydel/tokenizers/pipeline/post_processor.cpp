#include "easydel/tokenizers/pipeline/post_processor.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr std::size_t kMaxTemplateItems = 256;
constexpr std::size_t kMaxSequences = 8;  // each is a copy of a text's tokens

// Special tokens as an encoding of the same kind as its neighbours: with all fields, or with ids alone.
Encoding special_tokens(std::span<const int32_t> ids, int32_t type_id, bool full) {
  Encoding out;
  out.ids.assign(ids.begin(), ids.end());
  if (full) {
    out.type_ids.assign(ids.size(), type_id);
    out.offsets.assign(ids.size(), {});
    out.word_ids.assign(ids.size(), -1);
    out.special_tokens_mask.assign(ids.size(), 1);
    out.attention_mask.assign(ids.size(), 1);
  }
  return out;
}

// before + encoding + after, in all overflowing parts too.
Encoding surrounded(Encoding encoding, const Encoding& before, const Encoding& after, std::optional<int32_t> type_id) {
  std::vector<Encoding> parts;
  parts.reserve(encoding.overflowing.size());
  for (Encoding& part : encoding.overflowing) parts.push_back(surrounded(std::move(part), before, after, type_id));
  encoding.overflowing.clear();
  if (type_id) std::fill(encoding.type_ids.begin(), encoding.type_ids.end(), *type_id);
  Encoding out = before;
  append_encoding(out, encoding);
  append_encoding(out, after);
  out.overflowing = std::move(parts);
  return out;
}

int32_t read_pair_id(const JsonField& field) {
  field[std::size_t{0}].as_string();
  return static_cast<int32_t>(field[std::size_t{1}].as_int(0, INT32_MAX));
}

}  // namespace

PostProcessor::PostProcessor(const JsonField& field) { read(field); }

void PostProcessor::read(const JsonField& field) {
  switch (
      field["type"].one_of({"Sequence", "TemplateProcessing", "ByteLevel", "BertProcessing", "RobertaProcessing"})) {
    case 0: {
      const JsonField parts = field["processors"];
      for (std::size_t i = 0; i < parts.as_array().size(); ++i) read(parts[i]);
      break;
    }
    case 1: {
      const JsonField special = field["special_tokens"];
      for (const Step& step : steps_) {
        if (std::holds_alternative<Template>(step)) field.refuse("must be the only TemplateProcessing.");
      }
      steps_.push_back(Template{read_template(field["single"], special, 1), read_template(field["pair"], special, 2)});
      break;
    }
    case 2:
      if (field["trim_offsets"].as_bool()) trims_.push_back(field["add_prefix_space"].as_bool());
      break;
    case 3: steps_.push_back(Surround{read_pair_id(field["cls"]), read_pair_id(field["sep"]), false}); break;
    default:
      if (field["trim_offsets"].as_bool()) trims_.push_back(field["add_prefix_space"].as_bool());
      steps_.push_back(Surround{read_pair_id(field["cls"]), read_pair_id(field["sep"]), true});
  }
  if (trims_.size() > 4 || steps_.size() > 4) field.refuse("must not have more than 4 post-processors.");
}

std::vector<PostProcessor::TemplatePiece> PostProcessor::read_template(const JsonField& field, const JsonField& special,
                                                                       std::size_t sequences) {
  const std::size_t size = field.as_array().size();
  if (size > kMaxTemplateItems) field.refuse("has ", size, " pieces; the limit is ", kMaxTemplateItems, ".");
  std::vector<TemplatePiece> pieces;
  std::size_t used = 0;
  for (std::size_t i = 0; i < size; ++i) {
    TemplatePiece piece{};
    const auto sequence = field[i].find("Sequence");
    const JsonField content = sequence ? *sequence : field[i]["SpecialToken"];
    piece.is_sequence = sequence.has_value();
    piece.type_id = static_cast<int32_t>(content["type_id"].as_int(0, INT32_MAX));
    if (sequence) {
      if (++used > kMaxSequences) field.refuse("uses its texts more than ", kMaxSequences, " times.");
      piece.sequence = content["id"].one_of({"A", "B"});
      if (piece.sequence >= sequences) content["id"].refuse("must be A, because there is only one text.");
    } else {
      const std::string& name = content["id"].as_string();
      if (!special.find(name)) content["id"].refuse("names ", Json(name).dump(), ", which is not in special_tokens.");
      const JsonField ids = special[name]["ids"];
      if (ids.as_array().size() > kMaxTemplateItems) ids.refuse("has more than ", kMaxTemplateItems, " ids.");
      for (std::size_t k = 0; k < ids.as_array().size(); ++k) {
        piece.ids.push_back(static_cast<int32_t>(ids[k].as_int(0, INT32_MAX)));
      }
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::size_t PostProcessor::added_tokens(bool is_pair) const {
  std::size_t total = 0;
  for (const Step& step : steps_) {
    if (const auto* surround = std::get_if<Surround>(&step)) {
      total += !is_pair ? 2 : surround->is_roberta ? 4 : 3;
    } else {
      const Template& pieces = std::get<Template>(step);
      for (const TemplatePiece& piece : is_pair ? pieces.pair : pieces.single) total += piece.ids.size();
    }
  }
  return total;
}

std::vector<Encoding> PostProcessor::apply(const Template& step, std::vector<Encoding> encodings,
                                           bool add_special_tokens, bool full) {
  std::vector<Encoding> out;
  for (const TemplatePiece& piece : encodings.size() == 2 ? step.pair : step.single) {
    if (piece.is_sequence) {
      out.push_back(encodings[piece.sequence]);
      std::fill(out.back().type_ids.begin(), out.back().type_ids.end(), piece.type_id);
    } else if (add_special_tokens) {
      out.push_back(special_tokens(piece.ids, piece.type_id, full));
    }
  }
  return out;
}

std::vector<Encoding> PostProcessor::apply(const Surround& step, std::vector<Encoding> encodings,
                                           bool add_special_tokens, bool full) {
  if (step.is_roberta) {  // every type is 0
    for (Encoding& encoding : encodings) std::fill(encoding.type_ids.begin(), encoding.type_ids.end(), 0);
  }
  if (!add_special_tokens) return encodings;
  for (std::size_t i = 0; i < encodings.size(); ++i) {
    const int32_t type_id = i == 0 || step.is_roberta ? 0 : 1;
    const auto token = [&](int32_t id) { return special_tokens(std::span(&id, 1), type_id, full); };
    const Encoding before = i == 0 ? token(step.cls) : step.is_roberta ? token(step.sep) : Encoding{};
    encodings[i] = surrounded(std::move(encodings[i]), before, token(step.sep),
                              step.is_roberta ? std::optional<int32_t>(0) : std::nullopt);
  }
  return encodings;
}

Encoding PostProcessor::process(std::vector<Encoding> encodings, bool add_special_tokens, bool full) const {
  for (const Step& step : steps_) {
    encodings =
        std::visit([&](const auto& s) { return apply(s, std::move(encodings), add_special_tokens, full); }, step);
  }
  if (encodings.empty()) return {};
  Encoding out = std::move(encodings[0]);
  for (std::size_t i = 1; i < encodings.size(); ++i) append_encoding(out, encodings[i]);
  return out;
}

}  // namespace easydel
