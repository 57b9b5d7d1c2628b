#include "easydel/trainers/objectives/embedding/embedding_arguments.h"

#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

void list_fields(EmbeddingArguments& e, FieldVisitor& v) {
  v("loss_type", e.loss_type, "infonce, mnrl or triplet.");
  v("temperature", e.temperature, "Temperature that divides similarities (infonce and mnrl).");
  v("margin", e.margin, "Margin between positive and negative pairs (triplet).");
  v("query_field", e.query_field, "The column that contains the query.");
  v("positive_field", e.positive_field, "The column that contains a matching text.");
  v("negative_field", e.negative_field, "The column that contains a non-matching text; null: none.");
  v("matryoshka_dims", e.matryoshka_dims, "Matryoshka: average the loss over embeddings truncated to these sizes.");
  v("normalize_embeddings", e.normalize_embeddings, "Normalize embeddings to unit length.");
  v("pooling_strategy", e.pooling_strategy,
    "last, first, mean, weighted_mean or max; null: last for a decoder, mean for an encoder.");
}

}  // namespace easydel
