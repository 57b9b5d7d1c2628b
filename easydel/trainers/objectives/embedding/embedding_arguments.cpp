#include "easydel/trainers/objectives/embedding/embedding_arguments.h"

#include "easydel/infra/fields/field_visitor.h"

namespace easydel {

void list_fields(EmbeddingArguments& e, FieldVisitor& v) {
  v("loss_type", e.loss_type, "infonce, mnrl or triplet.");
  v("temperature", e.temperature, "What similarities are divided by, of infonce and mnrl.");
  v("margin", e.margin, "How much nearer a positive is to be than a negative, of triplet.");
  v("query_field", e.query_field, "The column that contains the query.");
  v("positive_field", e.positive_field, "The column that contains a text that belongs to the query.");
  v("negative_field", e.negative_field, "The column that contains a text that does not; null: none.");
  v("matryoshka_dims", e.matryoshka_dims, "The loss is the mean of those of so many first numbers of a vector.");
  v("normalize_embeddings", e.normalize_embeddings, "Divide vectors by their length.");
  v("pooling_strategy", e.pooling_strategy,
    "last, first, mean, weighted_mean or max; null: last of a decoder, mean of an encoder.");
}

}  // namespace easydel
