// Multimodal files, loaded as causal LMs of their text: in every layout of the hub, without reading a tower, and saved
// as models of the text family.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/config/json_keys.h"
#include "easydel/infra/files/text_files.h"
#include "easydel/infra/files/text_part.h"
#include "easydel/infra/registry.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/models/gemma3/model.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

// A checkpoint that remembers what was read of it.
class CountedFiles final : public TensorSource {
 public:
  explicit CountedFiles(std::shared_ptr<const TensorSource> files)
      : TensorSource(files->where(), *files), files_(std::move(files)) {}
  mutable std::vector<std::string> read;
  mutable int64_t bytes = 0;

 private:
  at::Tensor load(const TensorInfo& info) const override {
    read.push_back(info.name);
    bytes += info.nbytes;
    return files_->tensor(info.name);
  }
  std::shared_ptr<const TensorSource> files_;
};

std::vector<std::string> supported_types() {
  std::vector<std::string> types = text_part_types();
  std::erase_if(types, [](const std::string& type) {
    return !Registry::instance().has_config(std::string(find_text_part(type)->text_type));
  });
  return types;
}

TEST(TextParts, HaveTheLogitsAndTokensOfTheWhole) {
  const TemporaryDirectory theirs, ours;
  const std::vector<std::string> types = supported_types();
  ASSERT_GE(types.size(), 5U);
  std::vector<std::string> arguments{"write", theirs.path().string()};
  arguments.insert(arguments.end(), types.begin(), types.end());
  run_python("text_parts_peer.py", arguments);
  std::vector<std::string> warnings;
  log::set_sink([&](log::Level, const std::string& line) { warnings.push_back(line); });
  const at::NoGradGuard no_grad;
  std::size_t models = 0;
  for (const auto& entry : fs::directory_iterator(theirs.path())) {
    const std::string name = entry.path().filename().string();
    SCOPED_TRACE(name);
    const auto expected = SafetensorsFile::open(entry.path() / "out.safetensors");
    const auto model = AutoModelForCausalLM::from_pretrained(entry.path().string(), {.verbose = false});
    const at::Tensor ids = expected->tensor("ids");
    const at::Tensor logits = (*model)({.input_ids = ids}).logits, want = expected->tensor("logits");
    EXPECT_LT((logits - want).abs().max().item<double>(), 1e-4 * want.abs().max().item<double>());
    GenerationConfig greedy;
    greedy.max_new_tokens = 6;
    greedy.min_new_tokens = 6;
    const GenerateOutput out = generate(*model, ids, {.generation_config = greedy});
    EXPECT_TRUE(at::equal(out.sequences.narrow(1, ids.size(1), 6), expected->tensor("tokens")));
    model->save_pretrained(ours / name, {.verbose = false});
    ++models;
  }
  log::set_sink({});
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_GE(models, 3 * types.size());
  EXPECT_THAT(run_python("text_parts_peer.py", {"check", theirs.path().string(), ours.path().string()}),
              HasSubstr(concat(models, " texts are the same")));

  // By its own class too, and no byte of a tower is read.
  const std::string gemma = theirs / "gemma3-on_hub";
  EXPECT_EQ(Gemma3ForCausalLM::from_pretrained(gemma, {.verbose = false})->model_type(), "gemma3_text");
  for (const char* folder : {"gemma3-on_hub", "mistral3-saved", "qwen2_vl-flat", "qwen3_vl-in_memory"}) {
    SCOPED_TRACE(folder);
    const auto whole = std::make_shared<CountedFiles>(SafetensorsFile::open(theirs / folder / "model.safetensors"));
    const auto text = TextFiles::open(whole);
    EXPECT_THAT(whole->read, IsEmpty());
    const auto model = load_model(theirs / folder, TaskType::CausalLM, {.verbose = false});
    for (const auto& [path, parameter] : model->named_parameters())
      EXPECT_TRUE(at::equal(text->tensor(path), parameter->value())) << path;
    EXPECT_EQ(whole->read.size(), model->named_parameters().size());
    EXPECT_EQ(whole->bytes, model->num_params() * 4);
    EXPECT_EQ(text->nbytes(), whole->bytes);
    EXPECT_LT(whole->bytes, whole->nbytes());
    for (const std::string& name : whole->read) EXPECT_THAT(name, testing::Not(HasSubstr("vis")));
  }
}

// As transformers' classes of sub-configs fill them in.
TEST(TextParts, HaveTheDefaultsOfTheirSubConfigs) {
  const Json theirs = Json::parse(run_python("text_parts_peer.py", {"defaults"}));
  for (const std::string& type : supported_types()) {
    SCOPED_TRACE(type);
    const TemporaryDirectory directory;
    write_file_atomically(directory / "config.json", Json::object({{"model_type", type}}).dump());
    const Json ours = AutoConfig::for_task(TaskType::CausalLM, directory.path().string())->to_dict();
    for (const auto& [key, value] : theirs.at(type).as_object()) {
      if (key == "model_type" || key == "rope_parameters" || !ours.contains(key)) continue;
      EXPECT_EQ(ours.at(key).dump(), value.dump()) << key;
    }
    const Json& rope = theirs.at(type).at("rope_parameters");
    EXPECT_EQ(with_sorted_keys(ours.at("rope_parameters")).dump(), rope.dump());
  }
}

TEST(TextParts, KeepWhatTheWholeSaysOfThem) {
  const auto part = [](const char* type, const char* json) {
    return text_config_of(*find_text_part(type), Json::parse(json), "[test] ");
  };
  const Json config = part("gemma3", R"({"model_type": "gemma3", "eos_token_id": [1, 106], "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "x", "ignore": ["language_model.model.layers.0.mlp", "lm_head"]},
    "text_config": {"model_type": "gemma3_text", "hidden_size": 64, "bos_token_id": 7}, "bos_token_id": 3})");
  EXPECT_EQ(config.at("eos_token_id").dump(), "[1, 106]");
  EXPECT_EQ(config.at("bos_token_id").as_int(), 7);
  EXPECT_EQ(config.at("torch_dtype").as_string(), "bfloat16");
  EXPECT_TRUE(config.at("tie_word_embeddings").as_bool());
  EXPECT_EQ(config.at("quantization_config").at("ignore").dump(), R"(["model.layers.0.mlp", "lm_head"])");
  EXPECT_FALSE(
      part("gemma3", R"({"tie_word_embeddings": false, "text_config": {}})").at("tie_word_embeddings").as_bool());
  EXPECT_THAT([&] { part("gemma3", R"({"text_config": 3})"); },
              ThrowsMessage<FormatError>("[test] text_config must be an object; got 3."));
  EXPECT_THAT(
      [] { AutoConfig::from_dict(Json::parse(R"({"model_type": "llama4", "text_config": {"model_type": "rwkv"}})")); },
      ThrowsMessage<NotSupportedError>(
          HasSubstr(R"([AutoConfig] the text of model_type "llama4": model_type "rwkv" is not yet supported)")));
}

}  // namespace
}  // namespace easydel
