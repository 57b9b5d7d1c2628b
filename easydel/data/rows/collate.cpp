#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/example.h"

namespace easydel::data {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

Column pad(const Rows& rows, int64_t value, const CollateOptions& options, bool left, const std::string& name) {
  Column column;
  for (const auto& row : rows) column.width = std::max(column.width, static_cast<int64_t>(row.size()));
  if (options.pad_to) {
    require<ConfigError>(column.width <= *options.pad_to, "[collate] a row of ", name, " has ", column.width,
                         " values; expected at most ", *options.pad_to, ".");
    column.width = *options.pad_to;
  }
  const int64_t multiple = std::max<int64_t>(options.pad_to_multiple_of, 1);
  column.width = (column.width + multiple - 1) / multiple * multiple;
  column.values.assign(rows.size() * static_cast<std::size_t>(column.width), value);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto room = static_cast<std::size_t>(column.width) - rows[i].size();
    std::copy(rows[i].begin(), rows[i].end(),
              column.values.begin() +
                  static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(column.width) + (left ? room : 0)));
  }
  return column;
}

Rows masks_of(const Rows& rows) {
  Rows masks;
  for (const auto& row : rows) masks.emplace_back(row.size(), 1);
  return masks;
}

template <class Get>
Rows gather(const std::vector<Example>& examples, const Get& get) {
  Rows rows;
  for (const Example& example : examples) rows.push_back(get(example));
  return rows;
}

const std::vector<int64_t>& other(const Example& example, const std::string& name) {
  const auto found = example.others.find(name);
  require<ConfigError>(found != example.others.end(), "[collate] an example has no \"", name,
                       "\", which others of the batch have.");
  return found->second;
}

void add_numbers(const std::vector<Example>& examples, Batch& batch) {
  if (examples.empty()) return;
  for (const auto& [name, value] : examples[0].numbers) {
    Column& column = batch.columns[name];
    column.width = 1;
    for (const Example& example : examples) {
      const auto found = example.numbers.find(name);
      require<ConfigError>(found != example.numbers.end(), "[collate] an example has no \"", name,
                           "\", which others of the batch have.");
      column.numbers.push_back(found->second);
    }
  }
}

std::vector<int64_t> concatenated(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

void truncate(std::vector<int64_t>& row, const CollateOptions& options) {
  if (!options.max_length || static_cast<int64_t>(row.size()) <= *options.max_length) return;
  const auto length = static_cast<std::ptrdiff_t>(*options.max_length);
  if (options.keep_end) row.erase(row.begin(), row.end() - length);
  row.resize(static_cast<std::size_t>(length));
}

}  // namespace

Batch collate(const std::vector<Example>& examples, const CollateOptions& options) {
  Batch batch{.rows = static_cast<int64_t>(examples.size())};
  if (examples.empty()) return batch;
  const Example& first = examples[0];
  const bool left = options.pad_left;
  if (!first.input_ids.empty()) {
    const Rows ids = gather(examples, [](const Example& e) { return e.input_ids; });
    batch.columns["input_ids"] = pad(ids, options.pad_token_id, options, left, "input_ids");
    batch.columns["attention_mask"] = pad(masks_of(ids), 0, options, left, "attention_mask");
    batch.columns["labels"] =
        pad(gather(examples, [](const Example& e) { return e.labels; }), kNoLoss, options, left, "labels");
  }
  if (!first.segment_ids.empty()) {
    batch.columns["segment_ids"] =
        pad(gather(examples, [](const Example& e) { return e.segment_ids; }), kNoSegment, options, left, "segment_ids");
    batch.columns["position_ids"] =
        pad(gather(examples, [](const Example& e) { return e.position_ids; }), 0, options, left, "position_ids");
  }
  for (const auto& [name, values] : first.others) {
    const int64_t value = name.ends_with("_ids") ? options.pad_token_id : name.ends_with("_labels") ? kNoLoss : 0;
    const Rows rows = gather(examples, [&, key = name](const Example& e) { return other(e, key); });
    batch.columns[name] = pad(rows, value, options, name.starts_with("prompt_"), name);
  }
  add_numbers(examples, batch);
  return batch;
}

Batch collate_preference(const std::vector<Example>& examples, const CollateOptions& options) {
  Batch batch{.rows = 2 * static_cast<int64_t>(examples.size())};
  if (examples.empty()) return batch;
  const bool has_prompt = examples[0].others.contains("prompt_ids");
  Rows ids, answers;
  for (const char* side : {"chosen_ids", "rejected_ids"}) {
    for (const Example& example : examples) {
      const std::vector<int64_t> prompt = has_prompt ? other(example, "prompt_ids") : std::vector<int64_t>{};
      const std::vector<int64_t>& answer = other(example, side);
      ids.push_back(concatenated(prompt, answer));
      answers.push_back(concatenated(std::vector<int64_t>(prompt.size(), 0), std::vector<int64_t>(answer.size(), 1)));
      truncate(ids.back(), options);
      truncate(answers.back(), options);
    }
  }
  batch.columns["input_ids"] = pad(ids, options.pad_token_id, options, options.pad_left, "input_ids");
  batch.columns["attention_mask"] = pad(masks_of(ids), 0, options, options.pad_left, "attention_mask");
  if (has_prompt) batch.columns["completion_mask"] = pad(answers, 0, options, options.pad_left, "completion_mask");
  add_numbers(examples, batch);
  return batch;
}

}  // namespace easydel::data
