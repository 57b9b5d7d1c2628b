// How weights are taken from where they are stored.
#include "easydel/infra/files/weights.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "easydel/models/mixtral/model.h"
#include "tests/infra/tiny_llama.h"

namespace easydel {
namespace {

// Tensors of a map, in its order, that records what is asked of it.
class RecordingSource final : public TensorSource {
 public:
  explicit RecordingSource(const TensorMap& map)
      : TensorSource("here", make_tensor_source(map, "here")->infos()), map_(map) {}
  void copy(const at::Tensor& view, const at::Tensor& out) const override {
    ++copies;
    out.copy_(view);
  }

  mutable std::vector<std::string> taken;
  mutable int copies = 0;

 private:
  at::Tensor load(const TensorInfo& info) const override {
    taken.push_back(info.name);
    return map_.at(info.name).detach();
  }
  TensorMap map_;
};

TEST(LoadWeights, TakesTensorsInTheOrderOfTheFilesAndGivesThemInTheModels) {
  const auto model = tiny_llama();
  const TensorMap params = model->params();
  std::vector<std::string> paths = params.paths();
  std::reverse(paths.begin(), paths.end());
  TensorMap files;
  for (const std::string& path : paths) files.set(path, params.at(path));
  const RecordingSource source(files);

  const LoadedWeights loaded =
      load_weights(*tiny_llama(), source, [](const at::Tensor& t, const Parameter&) { return t; });

  EXPECT_EQ(source.taken, paths);
  EXPECT_EQ(loaded.params().paths(), params.paths());
  for (const auto& [path, tensor] : loaded.params()) EXPECT_TRUE(at::equal(tensor, params.at(path))) << path;
}

TEST(LoadWeights, LeavesTensorsUnderTheNamesOfTheBaseModelWhereTheyAre) {
  const auto model = tiny_llama();
  TensorMap files;
  for (const auto& [path, tensor] : model->params())
    files.set(path.starts_with("model.") ? path.substr(6) : path, tensor.detach());

  const LoadedWeights loaded = load_weights(*tiny_llama(), *make_tensor_source(files, "here"),
                                            [](const at::Tensor& t, const Parameter&) { return t; });

  EXPECT_TRUE(loaded.missing.empty() && loaded.unexpected.empty());
  for (const auto& [path, tensor] : loaded.params())
    EXPECT_EQ(tensor.data_ptr(), model->params().at(path).data_ptr()) << path;
}

// Mixtral's files hold one tensor for each expert, the model all of them in one.
TEST(LoadWeights, CopiesPiecesAsTheSourceWouldHaveIt) {
  MixtralConfig config;
  config.vocab_size = 29;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.num_local_experts = 3;
  const auto model = make_model<MixtralForCausalLM>(config);
  TensorMap files;
  for (const SavedTensor& saved : saved_tensors(*model)) {
    files.set(saved.info.name, cut(model->params().at(saved.path), saved.piece).clone());
  }
  const RecordingSource source(files);

  const LoadedWeights loaded = load_weights(*lazy_init<MixtralForCausalLM>(config), source,
                                            [](const at::Tensor& t, const Parameter&) { return t; });

  EXPECT_EQ(source.copies, 2 * 3 * 3);  // layers, experts, and w1, w2 and w3 of each
  EXPECT_TRUE(loaded.missing.empty() && loaded.unexpected.empty());
  const GraphState params = loaded.params();
  for (const auto& [path, tensor] : model->params()) EXPECT_TRUE(at::equal(params.at(path), tensor)) << path;
}

}  // namespace
}  // namespace easydel
