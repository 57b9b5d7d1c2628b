#include "easydel/trainers/previews/previews.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/core/random.h"
#include "easydel/data/dataset.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/sources/text_codec.h"
#include "easydel/infra/base_module.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/rollouts/completion_scores.h"
#include "easydel/trainers/rollouts/rollouts.h"

namespace easydel {
namespace {

// A row as trainers read it: conversations of from and value, and Alpaca's columns. The answer may be absent.
Json read_columns(const Json& values, const std::string& field, bool as_messages) {
  data::Row row = data::to_chatml({.values = values});
  if (row.values.contains(field) || row.values.contains("text")) return row.values;
  if (row.values.contains("instruction") && !row.values.contains("output")) row.values["output"] = "";
  return data::from_alpaca(std::move(row), as_messages).values;
}

// What of a row is its prompt; null: nothing.
Json prompt_of(const Json& row, const std::string& field) {
  if (const Json* found = row.find(field)) return *found;
  if (const Json* found = row.find("prompt")) return *found;
  if (const Json* found = row.find("messages"); found && found->is_array()) {  // without the answer, which is written
    Json::Array messages = found->as_array();
    while (!messages.empty() && messages.back().find("role") && messages.back().at("role") == Json("assistant"))
      messages.pop_back();
    return messages;
  }
  const Json* text = row.find("text");
  return text ? *text : Json();
}

}  // namespace

Previews::Previews(const std::string& trainer_type, const TrainingArguments& arguments, const AutoTokenizer& tokenizer,
                   std::shared_ptr<BaseModule> model, const data::Dataset& rows)
    : arguments_(arguments), tokenizer_(tokenizer), model_(std::move(model)), rows_(rows) {
  require<NotSupportedError>(model_->model_task() == TaskType::CausalLM,
                             "[trainer] generation_interval must be null for a model for ",
                             task_name(model_->model_task()), ", which the engine does not run.");
  const PreviewArguments& previews = arguments_.previews;
  sampling_ = previews.sampling(learns_from_rewards(trainer_type) ? &arguments.rollout : nullptr);
  const int64_t context = model_->config().max_position_embeddings;
  require<ConfigError>(context == 0 || sampling_.max_completion_length < context,
                       "[trainer] generation_max_new_tokens must be below the model's context of ", context,
                       " tokens; got ", sampling_.max_completion_length, ".");
  sampling_.max_prompt_length = arguments_.sequence_length();
  if (context > 0)
    sampling_.max_prompt_length = std::min(*sampling_.max_prompt_length, context - sampling_.max_completion_length);
  const Json::Array& given = previews.generation_prompts.as_array();
  const int64_t all = static_cast<int64_t>(given.size()) + (previews.generation_use_train_prompts ? 1 : 0);
  const auto most = static_cast<std::size_t>(previews.generation_num_prompts.value_or(all));
  for (std::size_t i = 0; i < std::min(given.size(), most); ++i) {
    const Json row = given[i].is_object() ? given[i] : Json::object({{"prompt", given[i]}});
    given_.push_back(read(row, concat("generation_prompts[", i, "]")));
  }
  if (previews.generation_use_train_prompts) of_data_ = static_cast<int64_t>(most - given_.size());
  if (of_data_ > 0) read(rows_.at(0).values, rows_.at(0).place());  // a column that is missing is said at once
}

Previews::Prompt Previews::read(const Json& values, const std::string& place) const {
  const std::string& field = arguments_.previews.generation_dataset_prompt_field;
  const bool as_messages = data::TextCodec(tokenizer_).has_chat_template();
  Json prompt = prompt_of(read_columns(values, field, as_messages), field);
  require<ConfigError>(prompt.is_string() || (prompt.is_array() && prompt.size() > 0), "[trainer] ", place,
                       " has no prompt for generation_interval: it needs a text or a list of messages in \"", field,
                       "\" (generation_dataset_prompt_field), \"prompt\", \"messages\", \"text\" or \"instruction\".");
  Json row = Json::object({{"prompt", std::move(prompt)}});
  if (const Json* tools = values.find("tools")) row["tools"] = *tools;
  const data::Transform transform = data::make_prompt_transform(
      tokenizer_, {.codec = {}, .max_length = sampling_.max_prompt_length, .truncation_mode = "keep_end"});
  const auto example = transform({.values = row});
  require<ConfigError>(example && !example->others.at("prompt_ids").empty(), "[trainer] ", place,
                       " has an empty prompt for generation_interval.");
  const std::vector<int64_t>& ids = example->others.at("prompt_ids");
  return {.text = text_of(tokenizer_, ids), .ids = ids};
}

Json Previews::write(int64_t step) const {
  std::vector<Prompt> prompts = given_;
  // Those of the rows that the next steps see: a source that is read in order need not go back for them.
  for (int64_t i = 0; i < of_data_; ++i) {
    const data::Row row = rows_.at(step * arguments_.total_batch_size + i);
    prompts.push_back(read(row.values, row.place()));
  }
  std::vector<std::vector<int64_t>> ids;
  for (const Prompt& prompt : prompts) ids.push_back(prompt.ids);
  const RandomKey key = RandomKey(static_cast<uint64_t>(arguments_.previews.generation_seed.value_or(arguments_.seed)))
                            .fold("preview")
                            .fold(static_cast<uint64_t>(step));
  // The engine lives as long as this call: its pages are free memory for the steps in between.
  const RolloutResult written =
      make_rollouts(model_, tokenizer_, sampling_)(ids, sampling_.num_return_sequences, key, nullptr);
  Json out = Json::array();
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    for (const Completion& each : written.completions[p])
      out.push_back(Json::object({{"prompt", prompts[p].text}, {"completion", each.text}}));
  }
  return out;
}

}  // namespace easydel
