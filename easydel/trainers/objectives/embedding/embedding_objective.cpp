// Vectors of texts, near each other where the texts belong together.
#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/row_ids.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/infra/registry.h"
#include "easydel/trainers/objectives/embedding/embedding_loss.h"
#include "easydel/trainers/objectives/objective.h"

namespace easydel {
namespace {

constexpr const char* kNames[] = {"query_ids", "positive_ids", "negative_ids"};

// A model that writes text sees what came before alone: its last token knows all of a text.
std::string usual_pooling(const BaseModule& model) {
  const std::vector<TaskType> tasks = Registry::instance().tasks(model.model_type());
  return std::find(tasks.begin(), tasks.end(), TaskType::CausalLM) != tasks.end() ? "last" : "mean";
}

BatchRow text_row(const data::Ids& ids) {
  return {.input_ids = ids, .numbers = {{"counts", 1}, {"tokens", static_cast<double>(ids.size())}}};
}

class EmbeddingObjective final : public Objective {
 public:
  TaskType task() const override { return TaskType::BaseModule; }
  int64_t rows_per_example(const TrainingArguments& arguments) const override { return arguments.embedding.texts(); }

  data::Transform transform(const AutoTokenizer& tokenizer, const TrainingArguments& arguments) const override {
    const EmbeddingArguments& e = arguments.embedding;
    std::vector<std::string> fields{e.query_field, e.positive_field};
    if (e.negative_field) fields.push_back(*e.negative_field);
    const data::TextLimit limit{.tokens = arguments.sequence_length(),
                                .keeps_end = arguments.truncation_mode == "keep_end"};
    return [codec = data::TextCodec(tokenizer), fields, limit](const data::Row& row) {
      data::Example example;
      for (std::size_t i = 0; i < fields.size(); ++i) {
        const std::string& text = data::text_of(row, fields[i]);
        data::Ids& ids = example.others[kNames[i]] = data::encode_within(codec, text, true, limit);
        require<FormatError>(!ids.empty(), "[", row.place(), "] \"", fields[i], "\" has no tokens.");
      }
      return std::optional(std::move(example));
    };
  }

  std::vector<BatchRow> rows(const data::Example& example) const override {
    std::vector<BatchRow> rows;
    for (std::size_t i = 0; i < example.others.size(); ++i) rows.push_back(text_row(example.others.at(kNames[i])));
    return rows;
  }

  double count_items(const std::vector<BatchRow>& rows) const override {
    return static_cast<double>(rows.size()) / static_cast<double>(texts_);
  }

  void prepare(const BaseModule& model, const TrainingArguments& arguments, const ObjectiveData&) override {
    require<NotSupportedError>(model.main_input_name() == "input_ids" && !is_seq2seq(model),
                               "[embedding] needs a decoder, or an encoder such as bert; got ", model.type_name(), ".");
    const EmbeddingArguments& e = arguments.embedding;
    for (const int64_t size : e.matryoshka_dims.value_or(std::vector<int64_t>()))
      require<ConfigError>(size <= model.config().hidden_size,
                           "[embedding] matryoshka_dims must not be above the model's hidden_size, ",
                           model.config().hidden_size, "; got ", size, ".");
    texts_ = e.texts();
  }

  ObjectiveLoss loss(const BaseModule& model, const Batch& batch, const LossContext& context) const override {
    const EmbeddingArguments& e = context.arguments.embedding;
    ModelInputs inputs = batch.inputs();
    inputs.labels = at::Tensor();
    inputs.dropout_key = context.dropout_key;
    const at::Tensor hidden = model(inputs).last_hidden_state;
    const at::Tensor lengths = batch.numbers.at("tokens").to(at::kLong).unsqueeze(1);
    const at::Tensor mask = at::arange(hidden.size(1), lengths.options()).unsqueeze(0).lt(lengths);
    const at::Tensor vectors = pool_tokens(hidden.to(at::promote_types(hidden.scalar_type(), at::kFloat)), mask,
                                           e.pooling_strategy.value_or(usual_pooling(model)))
                                   .unflatten(0, {-1, e.texts()});
    TextVectors texts{.query = vectors.select(1, 0), .positive = vectors.select(1, 1)};
    if (e.negative_field) texts.negative = vectors.select(1, 2);
    texts.counts = batch.numbers.at("counts").view({-1, e.texts()}).select(1, 0);
    const EmbeddingLoss out = embedding_loss(texts, e);
    ObjectiveLoss result{.loss = out.loss / context.items};
    for (const auto& [name, value] : out.metrics) result.metrics[name] = value.detach() / context.items;
    return result;
  }

 private:
  int64_t texts_ = 2;
};

}  // namespace

std::unique_ptr<Objective> make_embedding_objective() { return std::make_unique<EmbeddingObjective>(); }

}  // namespace easydel
