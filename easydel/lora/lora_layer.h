// What an adapter stands on: a linear map, or a table of embeddings, which is a linear map of one-hot vectors.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "easydel/infra/base_module.h"
#include "easydel/layers/embedding.h"
#include "easydel/layers/linear.h"
#include "easydel/lora/lora_config.h"
#include "easydel/lora/lora_linear.h"

namespace easydel {

namespace quantization {
class PackedMatrix;
}

struct LoraLayer {
  const Linear* linear = nullptr;
  const Embedding* table = nullptr;

  const Module& module() const { return linear ? static_cast<const Module&>(*linear) : *table; }
  // Of A [r, in] and B [out, r]. A table's factors are whole on every rank, as what it gives is.
  Dim in() const { return linear ? linear->in_dim() : Dim(table->count_dim().size); }
  Dim out() const { return linear ? linear->out_dim() : Dim(table->features_dim().size); }
  const std::shared_ptr<Parameter>& weight() const { return linear ? linear->weight() : table->weight(); }
  bool is_transposed() const { return table || linear->options().transposed; }  // the dense weight is [in, out]
  std::shared_ptr<const quantization::PackedMatrix> packed() const;             // null: dense
};

std::map<std::string, LoraLayer> layers_of(const BaseModule& module);  // by path
LoraWeights find_weights(const LoraLayer& layer, const std::string& adapter);

// The names of the children that hold an adapter's weights, as peft has them.
struct LoraGroups {
  const char *a, *b;
};
constexpr LoraGroups kLinearGroups{"lora_A", "lora_B"}, kTableGroups{"lora_embedding_A", "lora_embedding_B"};
constexpr const char* kMagnitudeGroup = "lora_magnitude_vector";
inline const LoraGroups& groups_of(bool is_table) { return is_table ? kTableGroups : kLinearGroups; }

// A fresh adapter from the largest singular values of the weight, or its first columns of Q and rows of R; what they
// make up is taken off the weight. As peft does it. ConfigError when the rank is larger than the matrix,
// NotSupportedError for a packed weight or a table.
void split_base(const LoraLayer& layer, const std::string& path, const LoraWeights& weights, double scaling,
                LoraInit init);

}  // namespace easydel
