// Post-processing of the tokens of a text or a pair: adds special tokens, trims spaces from offsets.
#pragma once

#include <map>
#include <variant>

#include "easydel/tokenizers/encoding.h"

namespace easydel {

class PostProcessor {
 public:
  PostProcessor() = default;  // only joins the two
  explicit PostProcessor(const JsonField& field);

  std::size_t added_tokens(bool is_pair) const;
  // Each entry trims spaces from the offsets once; true: except the prefix space that a pre-tokenizer added.
  const std::vector<bool>& trims() const { return trims_; }
  // `full`: special tokens have all fields, like the encodings, not only ids.
  Encoding process(std::vector<Encoding> encodings, bool add_special_tokens, bool full) const;

 private:
  struct TemplatePiece {
    bool is_sequence;
    std::size_t sequence;  // 0 or 1
    int32_t type_id;
    std::vector<int32_t> ids;  // of a special token
  };
  struct Template {
    std::vector<TemplatePiece> single, pair;
  };
  struct Surround {  // BertProcessing and RobertaProcessing
    int32_t cls, sep;
    bool is_roberta;
  };
  using Step = std::variant<Template, Surround>;

  void read(const JsonField& field);
  static std::vector<TemplatePiece> read_template(const JsonField& field, const JsonField& special,
                                                  std::size_t sequences);
  static std::vector<Encoding> apply(const Template& step, std::vector<Encoding> encodings, bool add_special_tokens,
                                     bool full);
  static std::vector<Encoding> apply(const Surround& step, std::vector<Encoding> encodings, bool add_special_tokens,
                                     bool full);

  std::vector<bool> trims_;
  std::vector<Step> steps_;
};

}  // namespace easydel
