// Whole models with packed weights: near the dense ones, the same by every other road, and clear errors.
#include <c10/core/InferenceMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/quantization/calibrate.h"
#include "easydel/quantization/packed_matrix.h"
#include "tests/infra/on_mesh.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

LlamaConfig config_of(int64_t hidden, int64_t inner, bool tied = false) {
  LlamaConfig config = tiny_config();
  config.hidden_size = hidden;
  config.intermediate_size = inner;
  config.initializer_range = 0.1;
  config.tie_word_embeddings = tied;
  return config;
}

std::unique_ptr<BaseConfig> family_config(const std::string& family) {
  Json dict = Json::object({{"model_type", family}, {"vocab_size", 29}});
  if (family == "gpt2") {
    for (const auto& [key, value] : {std::pair("n_embd", 64), {"n_head", 4}, {"n_layer", 2}, {"n_positions", 32}})
      dict[key] = value;
  } else {
    for (const auto& [key, value] : {std::pair("hidden_size", 64),
                                     {"intermediate_size", 96},
                                     {"num_hidden_layers", 2},
                                     {"num_attention_heads", 4},
                                     {"num_key_value_heads", 2},
                                     {"max_position_embeddings", 32},
                                     {"pad_token_id", 0}})
      dict[key] = value;
  }
  if (family == "mixtral") dict["num_local_experts"] = 3;
  dict["initializer_range"] = 0.1;
  return AutoConfig::from_dict(dict);
}

struct ModelCase {
  std::string method;
  int64_t group = 0;
  bool nested = false;
  bool needs_text = false;
  double tolerance = 0;  // of the logits' norm
};
// 8 bits put a matrix of normal values off by about 0.6 % of its norm, 4 bits by about 9 %, and rounded inputs by as
// much again; the errors of the 14 matrices of a model add up like those of independent draws, to 2.3 % and 34 %.
const std::vector<ModelCase> kModelCases{{"8bit", 0, false, false, 0.03}, {"nf4", 32, false, false, 0.34},
                                         {"nf4", 32, true, false, 0.34},  {"int4", 32, false, false, 0.34},
                                         {"a8bit", 0, false, true, 0.03}, {"a8q", 0, false, false, 0.04},
                                         {"a4q", 32, false, true, 0.48}};

std::vector<int64_t> some_text() {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 200; ++i) ids.push_back((i * i * 7 + 3 * i) % 29);
  return ids;
}

QuantizeOptions options_of(const ModelCase& c, BaseModule& model) {
  QuantizeOptions options{.method = c.method, .group_size = c.group, .double_quant = c.nested};
  if (c.needs_text) options.calibration = calibrate(model, some_text(), {.window = 20});
  return options;
}

// Of each sequence's logits, the nearest first.
std::vector<double> distances(const at::Tensor& a, const at::Tensor& b) {
  std::vector<double> all;
  for (int64_t i = 0; i < a.size(0); ++i) all.push_back(((a[i] - b[i]).norm() / b[i].norm()).item<double>());
  std::sort(all.begin(), all.end());
  return all;
}

double distance(const at::Tensor& a, const at::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

TEST(Quantize, StaysNearTheDenseModelInEveryFamilyAndMethod) {
  for (const std::string family : {"gpt2", "llama", "mixtral", "phi3"}) {
    for (const ModelCase& c : kModelCases) {
      SCOPED_TRACE(family + " " + c.method);
      const auto model = AutoModelForCausalLM::from_config(*family_config(family));
      const at::Tensor dense = logits_of(*model);
      const int64_t bytes = parameter_bytes(*model);
      EXPECT_FALSE(model->is_quantized());
      model->quantize(options_of(c, *model));
      EXPECT_TRUE(model->is_quantized());
      EXPECT_LT(parameter_bytes(*model), bytes);
      const at::Tensor packed = logits_of(*model);
      EXPECT_LT(distance(packed, dense), c.tolerance);
      EXPECT_GT(distance(packed, dense), 0);

      const auto [graphdef, state] = model->split_module();
      EXPECT_TRUE(at::equal(logits_of(*BaseModule::merge_module(graphdef, state)), packed));
    }
  }
}

// At one token, a few, and more than kernels for floats take; alone and in one loop with others.
TEST(Quantize, Int4RoundsInputsToInt8InGenerationOnly) {
  const auto model = make_model<LlamaForCausalLM>(config_of(64, 96));
  model->quantize({.method = "int4"});
  at::manual_seed(8);
  std::map<std::string, const Linear*> maps;
  for (const auto& [path, module] : model->named_modules()) {
    const auto* linear = dynamic_cast<const Linear*>(module);
    if (linear && linear->packed()) maps[path] = linear;
  }
  EXPECT_EQ(maps.size(), 14U);
  for (const auto& [path, linear] : maps) {
    const at::Tensor dense = linear->matrix(float32).detach();
    for (const int64_t tokens : {1, 3, 17, 150}) {
      SCOPED_TRACE(path + ", " + std::to_string(tokens));
      const at::Tensor x = at::randn({tokens, dense.size(1)}), groups = x.view({tokens, -1, 32});
      const at::Tensor largest = groups.abs().amax(2, true);
      const at::Tensor rounded = ((groups * (127 / largest)).round() * (largest / 127)).view_as(x);
      const at::Tensor trained = (*linear)(x.clone().requires_grad_()).detach();
      EXPECT_TRUE(is_close(trained, x.matmul(dense.t()), {1e-5, 1e-5}));
      const at::NoGradGuard no_grad;
      EXPECT_TRUE(is_close((*linear)(x), trained, {1e-5, 1e-5}));
      const c10::InferenceMode as_in_generation;
      const at::Tensor y = (*linear)(x);
      EXPECT_TRUE(is_close(y, rounded.matmul(dense.t()), {1e-5, 1e-5}));
      EXPECT_FALSE(is_close(y, trained, {1e-5, 1e-5}));
      for (const at::Tensor& together : Linear::apply_all(x, {linear, linear})) EXPECT_TRUE(at::equal(together, y));
    }
  }
}

TEST(Quantize, WithoutArgumentsMeans8bit) {
  const auto model = make_model<LlamaForCausalLM>(config_of(64, 96));
  model->quantize();
  const TensorMap params = model->params();
  EXPECT_EQ(params.at("model.layers.0.mlp.down_proj.weight").scalar_type(), at::kChar);
  EXPECT_EQ(params.at("model.layers.0.mlp.down_proj.SCB").sizes(), at::IntArrayRef({64}));
  EXPECT_EQ(params.at("lm_head.weight").scalar_type(), at::kFloat);
  EXPECT_EQ(params.at("model.embed_tokens.weight").scalar_type(), at::kFloat);
  // Codes and scales stay as they are when the rest is cast.
  model->to_dtype(bfloat16);
  EXPECT_EQ(model->params().at("model.layers.0.mlp.down_proj.SCB").scalar_type(), at::kFloat);
  EXPECT_EQ(model->module_dtype(), bfloat16);
}

TEST(Quantize, PacksATiedTableOnce) {
  for (const bool by_word : {false, true}) {
    const auto model = make_model<LlamaForCausalLM>(config_of(64, 96, /*tied=*/true));
    const at::Tensor dense = logits_of(*model);
    QuantizeOptions options{.method = "8bit"};
    if (by_word) {
      options.bit_targeted_params = {"kernel", "embedding"};
    } else {
      options.pattern = ".*";
    }
    model->quantize(options);
    const TensorMap params = model->params();
    EXPECT_EQ(params.at("model.embed_tokens.weight").scalar_type(), at::kChar);
    EXPECT_FALSE(params.contains("lm_head.weight"));
    EXPECT_LT(distance(logits_of(*model), dense), 0.03);
    GenerateOptions generate;
    generate.generation_config.max_new_tokens = 4;
    generate.generation_config.min_new_tokens = 4;
    EXPECT_EQ(model->generate(tiny_ids(1, 3), generate).sequences.size(1), 7);

    const TemporaryDirectory directory;
    model->save_pretrained(directory.path(), {.verbose = false});
    const auto again = AutoModelForCausalLM::from_pretrained(directory.path().string(), {.verbose = false});
    EXPECT_TRUE(at::equal(logits_of(*again), logits_of(*model)));
  }
}

TEST(Quantize, SavesAndLoads) {
  for (const std::string family : {"gpt2", "llama", "mixtral", "phi3"}) {
    for (const ModelCase& c : kModelCases) {
      SCOPED_TRACE(family + " " + c.method + (c.nested ? " nested" : ""));
      const TemporaryDirectory directory;
      const auto model = AutoModelForCausalLM::from_config(*family_config(family));
      model->save_pretrained(directory / "dense", {.verbose = false});
      model->quantize(options_of(c, *model));
      model->save_pretrained(directory / "packed", {.verbose = false});
      const auto again = AutoModelForCausalLM::from_pretrained((directory / "packed").string(), {.verbose = false});
      EXPECT_TRUE(again->is_quantized());
      EXPECT_TRUE(at::equal(logits_of(*again), logits_of(*model)));
      again->save_pretrained(directory / "again", {.verbose = false});
      for (const char* name : {"config.json", "model.safetensors"})
        EXPECT_EQ(read_file(directory / "again" / name), read_file(directory / "packed" / name)) << name;
      if (c.needs_text) continue;
      // The same as it is read, and on a mesh.
      LoadOptions load{.quantization_config = options_of(c, *model), .verbose = false};
      const std::string dense = (directory / "dense").string();
      EXPECT_TRUE(at::equal(logits_of(*AutoModelForCausalLM::from_pretrained(dense, load)), logits_of(*model)));
      load.sharding.auto_shard_model = true;
      load.sharding.axis_dims = {1, 2, 1, 2, 1};
      const at::Tensor expected = logits_of(*model);
      on_mesh({1, 2, 1, 2, 1}, [&](const Mesh&, World&) {
        const auto sharded = AutoModelForCausalLM::from_pretrained(dense, load);
        EXPECT_LT(distance(logits_of(*sharded), expected), 1e-5);
        sharded->save_pretrained(directory / "mesh", {.verbose = false});
      });
      EXPECT_EQ(read_file(directory / "mesh/model.safetensors"), read_file(directory / "packed/model.safetensors"));
    }
  }
}

TEST(Quantize, GivesTheLogitsOfOneDeviceOnAnyMesh) {
  // Cuts between groups and inside of them; heads of 16 and of 32.
  for (const auto& [hidden, inner] : {std::pair<int64_t, int64_t>{64, 96}, {128, 256}}) {
    for (const ModelCase& c : kModelCases) {
      SCOPED_TRACE(c.method + " " + std::to_string(hidden));
      const auto config = config_of(hidden, inner);
      const auto dense = make_model<LlamaForCausalLM>(config);
      QuantizeOptions options = options_of(c, *dense);
      if (!c.needs_text && c.method != "a8q") options.pattern = ".*";
      dense->quantize(options);
      const ModelInputs inputs{.input_ids = tiny_ids(/*batch=*/6)};
      const at::Tensor expected = logits_of(*dense, inputs);
      // Where inputs are rounded, a sum in another order may move one over the edge to the next value: then the rest of
      // its sequence differs, by no more than rounding costs.
      const bool rounds = c.method == "a8q";
      const auto expect_equal = [&](const BaseModule& model) {
        const std::vector<double> all = distances(logits_of(model, inputs), expected);
        EXPECT_LT(all[all.size() / 2], 1e-5);
        EXPECT_LT(all.back(), rounds ? c.tolerance : 1e-5);
      };
      for (const std::vector<int64_t>& axes :
           std::vector<std::vector<int64_t>>{{1, 1, 1, 2, 1}, {1, 2, 1, 2, 1}, {2, 1, 1, 1, 2}, {1, 1, 1, 4, 1}}) {
        on_mesh(axes, [&](const Mesh& mesh, World&) {
          // Before the weights are packed, and after.
          for (const bool first : {true, false}) {
            const auto model = make_model<LlamaForCausalLM>(config);
            if (first) model->shard_model({}, mesh);
            model->quantize(options);
            if (!first) model->shard_model({}, mesh);
            expect_equal(*model);
            model->gather_model();
            expect_equal(*model);
            model->fully_shard();
            expect_equal(*model);
            for (const auto& [path, parameter] : model->named_parameters())
              EXPECT_TRUE(at::equal(parameter->whole(), dense->params().at(path))) << path;
          }
        });
      }
    }
  }
}

TEST(Calibrate, SeesTheSameOnAnyMesh) {
  for (const std::string family : {"llama", "mixtral", "gpt2"}) {
    const auto config = family_config(family);
    const auto one = AutoModelForCausalLM::from_config(*config);
    // Windows that ranks share out, one that is left over, and a shorter one at the end.
    const auto expected = calibrate(*one, some_text(), {.window = 21});
    for (const std::vector<int64_t>& axes :
         std::vector<std::vector<int64_t>>{{1, 1, 1, 2, 1}, {1, 2, 1, 2, 1}, {2, 1, 1, 1, 2}, {1, 1, 1, 4, 1}}) {
      SCOPED_TRACE(testing::Message() << family << " " << at::IntArrayRef(axes));
      on_mesh(axes, [&](const Mesh& mesh, World&) {
        const auto model = AutoModelForCausalLM::from_config(*config);
        model->shard_model({}, mesh);
        const auto found = calibrate(*model, some_text(), {.window = 21});
        ASSERT_EQ(found->size(), expected->size());
        for (const auto& [path, seen] : *expected) {
          const auto& own = found->at(path);
          EXPECT_TRUE(is_close(own.mean_abs, seen.mean_abs, {1e-4, 1e-6})) << path;
          EXPECT_TRUE(is_close(own.mean_square, seen.mean_square, {1e-4, 1e-6})) << path;
          EXPECT_TRUE(is_close(own.max_abs, seen.max_abs, {1e-4, 1e-6})) << path;
        }
        model->quantize({.method = "a8bit", .calibration = found});
        EXPECT_TRUE(model->is_quantized());
      });
    }
  }
}

TEST(Quantize, TrainsWhatStaysDense) {
  for (const bool sharded : {false, true}) {
    const auto check = [&](const Mesh* mesh) {
      const auto model = make_model<LlamaForCausalLM>(config_of(64, 96));
      const auto twin = make_model<LlamaForCausalLM>(config_of(64, 96));
      model->quantize({.method = "nf4", .group_size = 32});
      // The dense model with the weights that the codes stand for.
      TensorMap same;
      for (const auto& [path, module] : model->named_modules()) {
        if (const auto matrix = quantization::packed_matrix(*module))
          same.set(path + ".weight", matrix->dequantize(float32));
      }
      twin->merge_params(same);
      if (mesh) model->shard_model({}, *mesh);
      const ModelInputs inputs{.input_ids = tiny_ids(4, 8), .labels = tiny_ids(4, 8)};
      const at::Tensor loss = (*model)(inputs).loss, expected = (*twin)(inputs).loss;
      EXPECT_TRUE(is_close(loss, expected));
      loss.backward();
      expected.backward();
      for (const auto& [path, parameter] : twin->named_parameters()) {
        for (const auto& [own_path, own] : model->named_parameters()) {
          if (own_path != path || own->fixed_dtype) continue;
          const at::Tensor grad =
              own->sharding() ? own->sharding()->gather_whole(own->value().grad()) : own->value().grad();
          EXPECT_TRUE(is_close(grad, parameter->value().grad(), {1e-3, 1e-5})) << path;
        }
      }
    };
    if (sharded) {
      on_mesh({1, 2, 1, 2, 1}, [&](const Mesh& mesh, World&) { check(&mesh); });
    } else {
      check(nullptr);
    }
  }
}

TEST(Quantize, LoadsWithThePackedModelAndOneTensorInMemory) {
  using namespace testing_support;
  return_freed_memory();
  const TemporaryDirectory directory;
  LlamaConfig config = config_of(512, 2048);
  config.num_hidden_layers = 12;
  make_model<LlamaForCausalLM>(config)->save_pretrained(directory.path(), {.verbose = false});
  const auto load = [&] {
    return AutoModelForCausalLM::from_pretrained(
        directory.path().string(), {.quantization_config = QuantizeOptions{.method = "nf4"}, .verbose = false});
  };
  load();  // pages in the code
  reset_peak();
  const int64_t before = resident_bytes();
  const auto model = load();
  if (!kMemoryIsOurs) GTEST_SKIP() << kMemoryIsNotOurs;
  const int64_t largest = 2048 * 512 * 4;
  // A tensor in the mapped file, one of floats that is packed, and what torch needs to do it. The dense model has 12
  // times 16 MB.
  EXPECT_LT(peak_resident_bytes() - before, parameter_bytes(*model) * 11 / 10 + 3 * largest + (8 << 20));
  EXPECT_LT(resident_bytes() - before, parameter_bytes(*model) * 11 / 10 + (8 << 20));
}

TEST(KvCache, KeepsKeysAndValuesIn8Bits) {
  LlamaConfig config = config_of(64, 96);
  const auto dense = make_model<LlamaForCausalLM>(config);
  config.quantization.kv_cache = Json::object({{"dtype", "int8"}});
  const auto packed = make_model<LlamaForCausalLM>(config);
  // Step by step, with a prompt of several tokens first, and rows that begin later.
  const auto run = [](const BaseModule& model) {
    const auto cache = model.init_cache(2, 12, at::tensor({0, 2}));
    std::vector<at::Tensor> logits;
    for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {4, 5}, {5, 6}, {6, 7}}) {
      ModelInputs inputs{.input_ids = tiny_ids().slice(1, begin, end)};
      inputs.past_key_values = cache;
      logits.push_back(model(inputs).logits.detach());
    }
    return at::cat(logits, 1).slice(1, 2);
  };
  const at::Tensor expected = run(*dense), found = run(*packed);
  EXPECT_LT(distance(found, expected), 0.02);
  EXPECT_GT(distance(found, expected), 0);
  const auto metadata = packed->create_cache_metadata(2, 12);
  EXPECT_EQ(metadata.bytes() / dense->create_cache_metadata(2, 12).bytes(), (16.0 + 4) / (16 * 4));
  GenerateOptions options;
  options.generation_config.max_new_tokens = options.generation_config.min_new_tokens = 5;
  options.generation_config.num_beams = 3;
  EXPECT_EQ(packed->generate(tiny_ids(2, 3), options).sequences.size(1), 8);
  on_mesh({1, 1, 1, 2, 2}, [&](const Mesh& mesh, World&) {
    const auto sharded = make_model<LlamaForCausalLM>(config);
    sharded->shard_model({}, mesh);
    GenerateOptions greedy;
    greedy.generation_config.max_new_tokens = greedy.generation_config.min_new_tokens = 5;
    EXPECT_TRUE(at::equal(sharded->generate(tiny_ids(2, 3), greedy).sequences,
                          packed->generate(tiny_ids(2, 3), greedy).sequences));
  });

  config.quantization.kv_cache = Json::object({{"dtype", "nf4"}});
  const auto wrong = make_model<LlamaForCausalLM>(config);
  EXPECT_THAT([&] { wrong->init_cache(1, 4); },
              ThrowsMessage<NotSupportedError>(HasSubstr("must be {\"dtype\": \"int8\"}")));
}

TEST(Quantize, SaysWhatIsWrong) {
  const auto model = make_model<LlamaForCausalLM>(config_of(64, 96));
  EXPECT_THAT([&] { model->quantize({.method = "nf4"}); },
              ThrowsMessage<ConfigError>("[quantize] the group size must divide the 96 columns of the matrix; got 64. "
                                         "The layer is \"model.layers.0.mlp.down_proj\"."));
  EXPECT_THAT([&] { model->quantize({.pattern = "qproj"}); },
              ThrowsMessage<ConfigError>("[quantize] no layer of LlamaForCausalLM matches the pattern \"qproj\". Paths "
                                         "look like model.layers.0.self_attn.q_proj."));
  EXPECT_THAT([&] { model->quantize({.pattern = "(q"}); },
              ThrowsMessage<ConfigError>(HasSubstr("is not a valid regular expression")));
  EXPECT_THAT([&] { model->quantize({.bit_targeted_params = {"kernels"}}); },
              ThrowsMessage<ConfigError>(HasSubstr("takes kernel, weight and embedding; got \"kernels\"")));
  EXPECT_THAT([&] { model->quantize({.method = "a8bit"}); },
              ThrowsMessage<ConfigError>(HasSubstr("a8bit needs calibration data")));
  EXPECT_THAT([&] { calibrate(*model, {}); }, ThrowsMessage<ConfigError>(HasSubstr("at least one token")));
  EXPECT_FALSE(model->is_quantized());
  model->quantize({.quantize_tensors = false});
  EXPECT_FALSE(model->is_quantized());
  model->quantize();
  EXPECT_THAT(
      [&] { model->quantize(); },
      ThrowsMessage<ConfigError>("[quantize] LlamaForCausalLM is already quantized. Quantize the original model."));

  const TemporaryDirectory directory;
  model->save_pretrained(directory.path(), {.verbose = false});
  const std::string path = directory.path().string();
  EXPECT_THAT([&] { AutoModelForCausalLM::from_pretrained(path, {.load_in_8bit = true, .verbose = false}); },
              ThrowsMessage<ConfigError>(HasSubstr("is already quantized")));
  Json config = Json::parse_file((directory / "config.json").string());
  config["quantization_config"] = Json::object({{"quant_method", "aqlm"}, {"bits", 4}});
  write_file_atomically(directory / "config.json", config.dump());
  EXPECT_THAT([&] { AutoModelForCausalLM::from_pretrained(path, {.verbose = false}); },
              ThrowsMessage<NotSupportedError>(
                  HasSubstr("the weights are quantized as \"aqlm\"; supported: awq, bitsandbytes, ")));
  config["quantization_config"] = "nf4";
  write_file_atomically(directory / "config.json", config.dump());
  EXPECT_THAT([&] { AutoModelForCausalLM::from_pretrained(path, {.verbose = false}); },
              ThrowsMessage<ConfigError>(HasSubstr("quantization_config must be an object; got \"nf4\".")));
}

}  // namespace
}  // namespace easydel
