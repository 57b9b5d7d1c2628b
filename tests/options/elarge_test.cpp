// What the arguments of the builder do: each becomes the key of a section, which elarge/section_probe_test.cpp probes.
#include <gmock/gmock.h>

#include "easydel/core/files/file.h"
#include "easydel/elarge/config/sections.h"
#include "easydel/elarge/elarge_model.h"
#include "tests/infra/tiny_llama.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/word_tokenizer.h"

namespace easydel::elarge_probes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::is_refused;
using testing_support::LogLines;
using testing_support::progress_of;

ShardingSection sharding(const ShardingOptions& arguments) {
  return ELargeModel::from_pretrained("org/name").set_sharding(arguments).config().sharding();
}

PROBE(ShardingOptions, axis_dims) { EXPECT_THAT(sharding({.axis_dims = {1, 2, 1, 2, 1}}).axis_dims[3], 2); }
PROBE(ShardingOptions, axis_names) {
  EXPECT_EQ(sharding({.axis_names = {"a", "b", "c", "d", "e"}}).axis_names[0], "a");
}
PROBE(ShardingOptions, dcn_axis_dims) {
  EXPECT_THAT(sharding({.dcn_axis_dims = {1, 2, 1, 1, 1}}).dcn_axis_dims, ElementsAre(1, 2, 1, 1, 1));
}
PROBE(ShardingOptions, partition_axis) {
  PartitionAxis axes;
  axes.tensor_parallel_axis = "model";
  EXPECT_EQ(sharding({.partition_axis = axes}).partition_axis, axes);
}
PROBE(ShardingOptions, auto_shard_model) {
  EXPECT_TRUE(*sharding({}).auto_shard_model);
  EXPECT_FALSE(*sharding({.auto_shard_model = false}).auto_shard_model);
}
PROBE(ShardingOptions, zero_stage) { EXPECT_EQ(sharding({.zero_stage = 2}).zero_stage, 2); }
PROBE(ShardingOptions, fsdp_is_ep_bound) { EXPECT_FALSE(*sharding({.fsdp_is_ep_bound = false}).fsdp_is_ep_bound); }
PROBE(ShardingOptions, sp_is_ep_bound) { EXPECT_FALSE(*sharding({.sp_is_ep_bound = false}).sp_is_ep_bound); }

TEST(AddDataset, TakesTheOptionsOfADataSet) {
  const auto inform = [](const data::DatasetOptions& dataset) {
    return ELargeModel::from_pretrained("org/name").add_dataset(dataset).config().mixture().informs.at(0);
  };
  EXPECT_EQ(inform({.dataset_name = "org/data"}).dataset_name, "org/data");
  EXPECT_THAT(inform({.data_files = "a.jsonl"}).data_files, ElementsAre("a.jsonl"));
  EXPECT_THAT(inform({.data_files = {"a.jsonl", "b.jsonl"}}).data_files, ElementsAre("a.jsonl", "b.jsonl"));
  const data::DatasetOptions all{.type = "csv",
                                 .data_files = "a",
                                 .name = "mine",
                                 .split = "test",
                                 .content_field = "body",
                                 .additional_fields = {"id"},
                                 .format_fields = {{"q", "prompt"}},
                                 .num_rows = 7,
                                 .weight = 0.5};
  const data::DatasetOptions read = inform(all);
  EXPECT_EQ(std::tie(read.type, read.name, read.split, read.content_field, read.additional_fields, read.format_fields,
                     read.num_rows, read.weight),
            std::tie(all.type, all.name, all.split, all.content_field, all.additional_fields, all.format_fields,
                     all.num_rows, all.weight));
}

// The trainer's, where it has none.
TEST(AddDataset, TakesTheLengthOfRows) {
  const auto length = [](ELargeModel model) {
    return model.add_dataset({.data_files = "a"}, 77).build_training_arguments().max_length;
  };
  EXPECT_EQ(length(ELargeModel::from_pretrained("org/name").set_trainer("sft")), 77);
  EXPECT_EQ(length(ELargeModel::from_pretrained("org/name").set_trainer("sft", Json::object({{"max_length", 9}}))), 9);
}

// A model and a task over eight rows.
class Evaluation {
 public:
  Evaluation() {
    LlamaConfig config = tiny_config();
    config.vocab_size = testing_support::kWordTokens;
    make_model<LlamaForCausalLM>(config)->save_pretrained(directory / "model", {.verbose = false});
    testing_support::write_word_tokenizer(directory / "model");
    std::string rows;
    for (char c = 'a'; c < 'i'; ++c)
      rows +=
          Json::object({{"q", std::string(1, c) + " z"}, {"a", std::string(" ") + static_cast<char>(c + 1)}}).dump() +
          "\n";
    write_file_atomically(directory / "rows.jsonl", rows);
    write_file_atomically(directory / "words.yaml",
                          concat("task: words\ndataset_path: json\ndataset_kwargs: {data_files: {test: ",
                                 (directory / "rows.jsonl").string(),
                                 "}}\ntest_split: test\nfewshot_split: test\noutput_type: loglikelihood\n"
                                 "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: perplexity}]\n"));
  }
  Json run(const EvalArguments& arguments) const {
    const LogLines quiet;
    Json results;
    progress_of([&] {
      results = ELargeModel(Json::object({{"model", Json::object({{"name_or_path", (directory / "model").string()}})},
                                          {"loader", Json::object({{"device", "cpu"}})},
                                          {"eval", Json::object({{"include_path", directory.path().string()}})}}))
                    .eval(arguments);
    });
    return results;
  }
  TemporaryDirectory directory;
};

PROBE(EvalArguments, tasks) {
  const Evaluation evaluation;
  EXPECT_TRUE(evaluation.run({.tasks = {"words"}}).at("results").contains("words"));
  EXPECT_TRUE(is_refused("nothing_like_it", [&] { evaluation.run({.tasks = {"nothing_like_it"}}); }));
}
PROBE(EvalArguments, num_fewshot) {
  const Evaluation evaluation;
  const auto perplexity = [&](const EvalArguments& arguments) {
    return evaluation.run(arguments).at("results").at("words").at("perplexity,none").as_double();
  };
  EXPECT_NE(perplexity({.tasks = {"words"}}), perplexity({.tasks = {"words"}, .num_fewshot = 2}));
}
PROBE(EvalArguments, output_path) {
  const Evaluation evaluation;
  evaluation.run({.tasks = {"words"}, .output_path = evaluation.directory / "out/results.json"});
  const Json written = Json::parse_file((evaluation.directory / "out/results.json").string());
  EXPECT_TRUE(written.at("results").contains("words"));
}

}  // namespace
}  // namespace easydel::elarge_probes
