// Token ids, labels and batches against trl's own code; see reference/data_trl_peer.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "easydel/core/error.h"
#include "easydel/data/packing/packer.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/rows/sft.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::data {
namespace {

std::optional<int64_t> max_length_of(const Json& options) {
  const Json& given = options.at("max_length");
  return given.is_null() ? std::nullopt : std::optional(given.as_int());
}

Transform transform_of(const Json& given, const AutoTokenizer& tokenizer) {
  const Json& options = given.at("options");
  const std::string method = given.at("method").as_string();
  const std::string mode = options.at("truncation_mode").as_string();
  if (method == "sft") {
    return make_sft_transform(tokenizer, {.max_length = max_length_of(options),
                                          .truncation_mode = mode,
                                          .completion_only_loss = options.at("completion_only_loss").as_bool(),
                                          .assistant_only_loss = options.at("assistant_only_loss").as_bool()});
  }
  const PreferenceOptions pair{.max_length = max_length_of(options), .truncation_mode = mode};
  return method == "dpo"    ? make_dpo_transform(tokenizer, pair)
         : method == "orpo" ? make_orpo_transform(tokenizer, pair)
                            : make_reward_transform(tokenizer, pair);
}

Json to_json(const Example& example) {
  Json out = Json::object();
  if (!example.input_ids.empty()) {
    out["input_ids"] = example.input_ids;
    out["labels"] = example.labels;
  }
  for (const auto& [name, values] : example.others) out[name] = values;
  for (const auto& [name, value] : example.numbers) out[name] = value;
  return out;
}

Json to_json(const Batch& batch) {
  Json out = Json::object();
  for (const auto& [name, column] : batch.columns) {
    if (!column.numbers.empty()) {
      out[name] = column.numbers;
      continue;
    }
    Json rows = Json::array();
    for (int64_t i = 0; i < batch.rows; ++i) {
      const auto from = column.values.begin() + i * column.width;
      rows.push_back(Json(std::vector<int64_t>(from, from + column.width)));
    }
    out[name] = rows;
  }
  return out;
}

struct Outcome {
  Json examples = Json::array(), batch;
  std::string error;
};

Outcome run_case(const Json& given, const AutoTokenizer& tokenizer) {
  Outcome outcome;
  try {
    const Transform transform = transform_of(given, tokenizer);
    const SourcePtr rows = make_source(given.at("rows").as_array(), "rows");
    std::vector<Example> made;
    for (int64_t i = 0; i < rows->size(); ++i) {
      auto example = transform({rows->row(i), rows.get(), i});
      if (!example) continue;
      outcome.examples.push_back(to_json(*example));
      if (made.size() < 4) made.push_back(std::move(*example));
    }
    const std::string method = given.at("method").as_string();
    CollateOptions options{.pad_token_id = given.at("pad").as_int()};
    if (method == "dpo") {
      options.max_length = max_length_of(given.at("options"));
      options.keep_end = given.at("options").at("truncation_mode").as_string() == "keep_end";
    }
    const bool pairs = method == "dpo" || method == "reward";
    outcome.batch = to_json(pairs ? collate_preference(made, options) : collate(made, options));
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  return outcome;
}

TEST(Trl, MakesTheSameIdsLabelsAndBatches) {
  TemporaryDirectory directory;
  const char* draws = std::getenv("EASYDEL_DRAWS");
  run_python("data_trl_peer.py", {directory.path().string(), "1", draws ? draws : "12"});
  std::map<std::string, AutoTokenizer> tokenizers;
  for (const char* name : {"chatml", "thinking"}) {
    tokenizers.emplace(name, AutoTokenizer::from_directory(directory / name));
  }
  std::ifstream lines(directory / "cases.jsonl");
  std::map<std::string, int> compared, refused;
  int wrong = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json given = Json::parse(line);
    const std::string kind = given.at("method").as_string() + " " + given.at("kind").as_string();
    const Outcome ours = run_case(given, tokenizers.at(given.at("tokenizer").as_string()));
    const Json* error = given.find("error");
    ++(error ? refused : compared)[kind];
    const bool same = error ? !ours.error.empty()
                            : ours.error.empty() && ours.examples == given.at("expected") &&
                                  (!given.contains("batch") || ours.batch == given.at("batch"));
    if (same || ++wrong > 3) continue;
    ADD_FAILURE() << kind << " with " << given.at("tokenizer").dump() << ", " << given.at("options").dump()
                  << "\nrows   " << given.at("rows").dump() << "\nours   " << ours.examples.dump() << " " << ours.error
                  << "\ntheirs " << (error ? error->dump() : given.at("expected").dump()) << "\nours   "
                  << ours.batch.dump() << "\ntheirs " << (given.contains("batch") ? given.at("batch").dump() : "");
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compared.size(), 20U);
  for (const auto& [kind, count] : compared) EXPECT_GT(count, 2 * refused[kind]) << kind;  // mostly real comparisons
}

std::vector<Example> documents_of(const std::vector<int64_t>& lengths) {
  std::vector<Example> documents;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Example& document = documents.emplace_back();
    for (int64_t j = 0; j < lengths[i]; ++j) document.input_ids.push_back(1000 * static_cast<int64_t>(i) + j);
    document.labels = document.input_ids;
  }
  return documents;
}

// By blocks, and one after the other as evaluation does.
TEST(Trl, PacksTheSameRows) {
  TemporaryDirectory directory;
  const char* draws = std::getenv("EASYDEL_DRAWS");
  run_python("packing_trl_peer.py", {(directory / "cases.jsonl").string(), "1", draws ? draws : "60"});
  std::ifstream lines(directory / "cases.jsonl");
  std::map<std::string, int> compared;
  for (std::string line; std::getline(lines, line);) {
    const Json given = Json::parse(line);
    SCOPED_TRACE(given.dump());
    const PackOptions options{.max_length = given.at("max_length").as_int(),
                              .strategy = parse_pack_strategy(given.at("strategy").as_string()),
                              .documents = given.at("documents").as_int()};
    std::vector<int64_t> lengths;
    for (const Json& length : given.at("lengths").as_array()) lengths.push_back(length.as_int());
    const std::vector<Example> documents = documents_of(lengths);
    Json ours = Json::array();
    for (std::size_t begin = 0; begin < documents.size(); begin += static_cast<std::size_t>(options.documents)) {
      const auto end = std::min(documents.size(), begin + static_cast<std::size_t>(options.documents));
      const auto at = documents.begin();
      const std::vector<Example> block(at + static_cast<std::ptrdiff_t>(begin), at + static_cast<std::ptrdiff_t>(end));
      for (const Example& row : pack_documents(block, options)) ours.push_back(Json(row.input_ids));
    }
    ASSERT_EQ(ours, given.at("rows"));
    ++compared[given.at("strategy").as_string()];
    if (options.strategy == PackStrategy::Wrapped && lengths.size() > static_cast<std::size_t>(options.documents))
      continue;
    std::size_t next = 0;
    Packer packer(options, [&] { return next < documents.size() ? std::optional(documents[next++]) : std::nullopt; });
    Json streamed = Json::array();
    while (const auto row = packer.next()) streamed.push_back(Json(row->input_ids));
    ASSERT_EQ(streamed, given.at("rows"));
  }
  EXPECT_EQ(compared.size(), 3U);
}

}  // namespace
}  // namespace easydel::data
