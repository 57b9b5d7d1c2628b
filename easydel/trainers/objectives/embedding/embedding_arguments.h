// The arguments of the trainer "embedding": EasyDeL's keys, with its defaults.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace easydel {

class FieldVisitor;

// Vectors of texts, learned from pairs or triplets of them.
struct EmbeddingArguments {
  std::string loss_type = "infonce";  // or mnrl: the same of cosines; triplet
  double temperature = 0.05;          // of infonce and mnrl
  double margin = 0.2;                // of triplet
  std::string query_field = "query";
  std::string positive_field = "positive";
  std::optional<std::string> negative_field;  // none: the other rows' positives are the negatives
  std::optional<std::vector<int64_t>> matryoshka_dims;
  bool normalize_embeddings = true;
  std::optional<std::string> pooling_strategy;  // last of a decoder, mean of an encoder

  int64_t texts() const { return negative_field ? 3 : 2; }  // of a row
};

void list_fields(EmbeddingArguments& embedding, FieldVisitor& v);

}  // namespace easydel
