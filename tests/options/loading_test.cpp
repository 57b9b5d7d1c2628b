// What the options of making, loading and saving models and states do.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "easydel/core/files/file.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/config/compute_settings.h"
#include "easydel/infra/state/state.h"
#include "easydel/layers/linear.h"
#include "easydel/optim/optimizers.h"
#include "easydel/quantization/method.h"
#include "easydel/sharding/world/current_world.h"
#include "tests/infra/on_mesh.h"
#include "tests/io/pickle_builder.h"
#include "tests/io/zip_builder.h"
#include "tests/support/probe.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tensors.h"

namespace easydel::loading_probes {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::is_refused;
using testing_support::LogLines;
using testing_support::progress_of;
using CreateOptions = State::CreateOptions;
using RopeOptions = BaseConfig::RopeOptions;

// The files of a model that is wide enough to be packed.
class Files {
 public:
  Files() {
    LlamaConfig config = tiny_config();
    config.hidden_size = 64;
    config.intermediate_size = 128;
    model = make_model<LlamaForCausalLM>(config);
    model->save_pretrained(directory.path(), {.verbose = false});
  }
  template <class Auto = AutoModelForCausalLM>
  std::shared_ptr<BaseModule> load(LoadOptions options = {}) const {
    options.verbose = false;
    return Auto::from_pretrained(directory.path().string(), options);
  }
  // On one of eight ranks, of which no other runs: reading needs none.
  std::shared_ptr<BaseModule> load_on_eight(LoadOptions options) const {
    const WorldScope scope(planned_world(8, 5));
    if (!options.auto_shard_params) options.sharding.auto_shard_model = true;
    return load(std::move(options));
  }

  TemporaryDirectory directory;
  std::shared_ptr<LlamaForCausalLM> model;
};

constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kTable = "model.embed_tokens.weight";

PROBE(ModuleOptions, dtype) { EXPECT_EQ(logits_of(*tiny_llama({.dtype = bfloat16})).scalar_type(), bfloat16); }

PROBE(ModuleOptions, param_dtype) {
  EXPECT_EQ(tiny_llama({.param_dtype = bfloat16})->params().at(kQuery).scalar_type(), bfloat16);
}

// What torch has while the model computes, seen by a layer.
Precision precision_inside(const BaseModule& model) {
  class Watcher : public LinearAdapter {
   public:
    at::Tensor operator()(const at::Tensor&, const at::Tensor& y) const override {
      const auto now = at::globalContext().float32MatmulPrecision();
      seen = now == at::Float32MatmulPrecision::HIGHEST ? Precision::Highest
             : now == at::Float32MatmulPrecision::HIGH  ? Precision::High
                                                        : Precision::Default;
      return y;
    }
    at::Tensor merged(const at::Tensor& matrix) const override { return matrix; }
    mutable Precision seen = Precision::Unset;
  };
  const auto watcher = std::make_shared<Watcher>();
  for (const auto& [path, module] : const_cast<BaseModule&>(model).named_modules()) {
    if (auto* linear = dynamic_cast<Linear*>(module)) linear->set_adapter(watcher);
  }
  logits_of(model);
  return watcher->seen;
}

PROBE(ModuleOptions, precision) {
  for (const Precision precision : {Precision::Default, Precision::High, Precision::Highest})
    EXPECT_EQ(precision_inside(*tiny_llama({.precision = precision})), precision);
}

PROBE(ModuleOptions, rngs) {
  const at::Tensor first = tiny_llama({.rngs = RandomKey(1)})->params().at(kQuery);
  EXPECT_TRUE(at::equal(first, tiny_llama({.rngs = RandomKey(1)})->params().at(kQuery)));
  EXPECT_FALSE(at::equal(first, tiny_llama({.rngs = RandomKey(2)})->params().at(kQuery)));
}

// A GPU that no machine has.
const at::Device kNoSuchDevice(at::kCUDA, 99);

PROBE(ModuleOptions, device) {
  EXPECT_TRUE(is_refused("cuda:99", [] { init_model(tiny_config(), TaskType::CausalLM, {.device = kNoSuchDevice}); }));
}

PROBE(LoadOptions, device) {
  EXPECT_TRUE(is_refused("cuda:99", [] { Files().load({.device = kNoSuchDevice}); }));
}

PROBE(LoadOptions, dtype) { EXPECT_EQ(logits_of(*Files().load({.dtype = bfloat16})).scalar_type(), bfloat16); }

PROBE(LoadOptions, param_dtype) { EXPECT_EQ(Files().load({.param_dtype = bfloat16})->module_dtype(), bfloat16); }

PROBE(LoadOptions, precision) {
  EXPECT_EQ(precision_inside(*Files().load({.precision = "high"})), Precision::High);
  EXPECT_EQ(precision_inside(*Files().load({.precision = "fastest"})), Precision::Default);
  EXPECT_TRUE(is_refused("precision", [] { Files().load({.precision = "low"}); }));
}

PROBE(LoadOptions, sharding) {
  EXPECT_EQ(Files().load_on_eight({.sharding = {.axis_dims = {1, 2, 1, 4, 1}}})->mesh(), mesh_of({1, 2, 1, 4, 1}));
}

// Axes under other names, and what each of them is for.
const std::vector<std::string> kNames = {"data", "fsdp", "ep", "model", "sp"};
PartitionAxis renamed_axes() {
  PartitionAxis axes;
  axes.data_parallel_axis = "data";
  axes.tensor_parallel_axis = "model";
  return axes;
}

TEST(LoadSharding, TakesNamesOfAxes) {
  const auto model = Files().load_on_eight(
      {.sharding = {.axis_dims = {1, 4, 1, 2, 1}, .axis_names = kNames, .partition_axis = renamed_axes()}});
  EXPECT_EQ(model->mesh(), Mesh({{"data"}, {"fsdp", 4}, {"ep"}, {"model", 2}, {"sp"}}));
}

TEST(LoadSharding, TakesAnOuterNetwork) {
  const auto model =
      Files().load_on_eight({.sharding = {.axis_dims = {1, 2, 1, 2, 1}, .dcn_axis_dims = {1, 2, 1, 1, 1}}});
  EXPECT_EQ(model->mesh(), Mesh({{"dp"}, {"fsdp", 4, 2}, {"ep"}, {"tp", 2}, {"sp"}}));
}

TEST(LoadSharding, TakesWhatAxesAreFor) {
  const Files files;
  LoadOptions options{.sharding = {.axis_dims = {1, 4, 1, 2, 1}, .axis_names = kNames}};
  EXPECT_TRUE(is_refused("tp", [&] { files.load_on_eight(options); }));
  options.sharding.partition_axis = renamed_axes();
  EXPECT_EQ(files.load_on_eight(options)->params_sharding().at("lm_head.weight").spec,
            (PartitionSpec{"model", {"fsdp", "sp"}}));
}

// Without it every rank computes all heads.
PROBE(ShardingOptions, shard_attention_computation) {
  const Files files;
  LoadOptions options{.sharding = {.axis_dims = {1, 2, 1, 4, 1}}};
  EXPECT_EQ(files.load_on_eight(options)->parallel()->axes(LogicalAxis::Head), AxisNames{"tp"});
  options.sharding.shard_attention_computation = false;
  EXPECT_EQ(files.load_on_eight(options)->parallel()->axes(LogicalAxis::Head), AxisNames{});
}

PROBE(LoadOptions, partition_rules) {
  const auto model = Files().load_on_eight({.partition_rules = PartitionRules{{"q_proj", {"fsdp"}}, {".*", {}}}});
  EXPECT_THAT(model->params().at(kQuery).sizes(), ElementsAre(8, 64));
  EXPECT_THAT(model->params().at(kTable).sizes(), ElementsAre(29, 64));
}

PROBE(LoadOptions, shard_fns) {
  const Files files;
  const auto model = files.load({.shard_fns = {{kTable, [](const at::Tensor& whole) { return whole * 3; }}}});
  EXPECT_TRUE(at::equal(model->params().at(kTable), files.model->params().at(kTable) * 3));
}

TEST(LoadSharding, SplitsWeightsWhereAsked) {
  const Files files;
  const WorldScope scope(planned_world(8, 5));
  EXPECT_EQ(files.load()->params().at(kQuery).numel(), 64 * 64);
  EXPECT_EQ(files.load({.sharding = {.auto_shard_model = true}})->params().at(kQuery).numel(), 64 * 64 / 8);
}

PROBE(LoadOptions, auto_shard_params) {
  const Files files;
  const WorldScope scope(planned_world(8, 5));
  EXPECT_EQ(files.load({.auto_shard_params = true})->params().at(kQuery).numel(), 64 * 64 / 8);
}

PROBE(LoadOptions, backend) {
  const Files files;
  EXPECT_TRUE(files.load({.device = kNoSuchDevice, .backend = "cpu"})->params().at(kQuery).is_cpu());
  EXPECT_TRUE(is_refused("backend", [&] { files.load({.backend = "tpu"}); }));
}

PROBE(LoadOptions, platform) {
  EXPECT_NO_THROW(Files().load({.platform = "torch"}));
  EXPECT_TRUE(is_refused("platform \"pallas\"", [] { Files().load({.platform = "pallas"}); }));
}

PROBE(LoadOptions, config_kwargs) {
  const Files files;
  const auto model = files.load({.config_kwargs = Json::object({{"rms_norm_eps", 0.5}})});
  EXPECT_FALSE(at::allclose(logits_of(*model), logits_of(*files.model)));
  EXPECT_TRUE(is_refused("rms_norm_epsilon",
                         [&] { files.load({.config_kwargs = Json::object({{"rms_norm_epsilon", 0.5}})}); }));
}

DType stored(const Files& files, const LoadOptions& options, const char* path = kQuery) {
  return files.load(options)->params().at(path).scalar_type();
}

PROBE(LoadOptions, load_in_8bit) {
  const Files files;
  EXPECT_EQ(stored(files, {}), float32);
  EXPECT_EQ(stored(files, {.load_in_8bit = true}), int8);
}

PROBE(LoadOptions, quantization_config) {
  const Files files;
  const auto packed = [](QuantizeOptions how) { return LoadOptions{.quantization_config = std::move(how)}; };
  EXPECT_EQ(stored(files, packed({.method = "nf4"})), uint8);
  EXPECT_EQ(stored(files, packed({})), int8);
  EXPECT_EQ(stored(files, packed({.bit_targeted_params = {"embedding"}}), kTable), int8);
  EXPECT_EQ(stored(files, packed({.bit_targeted_params = {"embedding"}}), kQuery), float32);
  EXPECT_EQ(stored(files, packed({.pattern = "v_proj"}), kQuery), float32);
  EXPECT_EQ(stored(files, packed({.pattern = "v_proj"}), "model.layers.0.self_attn.v_proj.weight"), int8);
  const char* scales = "model.layers.0.self_attn.q_proj.weight.absmax";
  EXPECT_EQ(files.load(packed({.method = "nf4", .group_size = 32}))->params().at(scales).numel(), 128);
  EXPECT_EQ(files.load(packed({.method = "nf4"}))->params().at(scales).numel(), 64);  // a scale for each 64 columns
  EXPECT_EQ(stored(files, packed({.method = "nf4"}), scales), float32);
  EXPECT_EQ(stored(files, packed({.method = "nf4", .double_quant = true}), scales), uint8);
  EXPECT_EQ(stored(files, packed({.method = "nf4", .quantize_tensors = false})), float32);
  EXPECT_TRUE(is_refused("multiple of 32",
                         [&] { files.load(packed({.method = "nf4", .group_size = 24, .quantize_tensors = false})); }));
  const LogLines log;
  files.load(packed({.verbose = true}));
  EXPECT_TRUE(log.contain(" layers as 8bit"));
  // Where the config itself asks for packed weights, the caller's options count.
  LoadOptions both = packed({.pattern = "v_proj"});
  both.config_kwargs = Json::object({{"quantization_config", Json::object({{"dtype", "nf4"}})}});
  EXPECT_EQ(stored(files, both, kQuery), float32);
  EXPECT_TRUE(
      is_refused("calibration", [&] { files.load(packed({.calibration = std::make_shared<const Calibration>()})); }));
  EXPECT_TRUE(is_refused("load_in_8bit", [&] {
    files.load({.quantization_config = QuantizeOptions{.method = "nf4"}, .load_in_8bit = true});
  }));
}

PROBE(LoadOptions, verbose_params) {
  const LogLines log;
  Files().load({.verbose_params = true});
  EXPECT_TRUE(log.contain("LlamaForCausalLM: "));
}

PROBE(LoadOptions, from_torch) {
  const Files files;
  EXPECT_NO_THROW(files.load({.from_torch = false}));
  // A file of torch.save's in the place of what save_pretrained wrote; it is read, and has too few weights.
  fs::remove(files.directory / "model.safetensors");
  const std::string weight = pickled::dict({pickled::text("w"), pickled::rebuild({})});
  write_file_atomically(files.directory / "pytorch_model.bin",
                        make_zip({{"a/data.pkl", pickled::whole(weight)}, {"a/data/0", std::string(24, '\0')}}).bytes);
  EXPECT_TRUE(is_refused("the tensors do not match", [&] { files.load(); }));
  EXPECT_TRUE(is_refused("from_torch", [&] { files.load({.from_torch = false}); }));
}

PROBE(LoadOptions, rngs) {
  const Files files;
  const LogLines quiet;  // about the head that the files do not have
  const auto head = [&](int seed) {
    return files.load<AutoModelForSequenceClassification>({.rngs = RandomKey(seed)})->params().at("score.weight");
  };
  EXPECT_TRUE(at::equal(head(1), head(1)));
  EXPECT_FALSE(at::equal(head(1), head(2)));
}

PROBE(LoadOptions, verbose) {
  const Files files;
  const auto shown = [&](bool verbose) {
    return progress_of(
        [&] { AutoModelForCausalLM::from_pretrained(files.directory.path().string(), {.verbose = verbose}); });
  };
  EXPECT_THAT(shown(true), HasSubstr("loading "));
  EXPECT_EQ(shown(false), "");
}

PROBE(ConfigOptions, overrides) {
  const Json given = Json::object({{"model_type", "llama"}, {"hidden_size", 64}});
  EXPECT_EQ(AutoConfig::from_dict(given, {.overrides = Json::object({{"hidden_size", 128}})})->hidden_size, 128);
}

PROBE(BaseConfig, name_or_path) {
  const Files files;
  EXPECT_EQ(files.load()->config().name_or_path, files.directory.path().string());
}

// Where a model runs -------------------------------------------------------------------------------------------------

PROBE(ComputeOptions, device) { EXPECT_TRUE(compute_settings({.device = kNoSuchDevice}).device == kNoSuchDevice); }
PROBE(ComputeOptions, dtype) {
  EXPECT_EQ(compute_settings({.device = at::kCPU}).dtype, float32);
  EXPECT_EQ(compute_settings({.device = at::kCPU, .dtype = bfloat16}).dtype, bfloat16);
}
PROBE(ComputeOptions, param_dtype) {
  EXPECT_EQ(compute_settings({.device = at::kCPU, .dtype = bfloat16}).param_dtype, bfloat16);
  EXPECT_EQ(compute_settings({.device = at::kCPU, .dtype = bfloat16, .param_dtype = float16}).param_dtype, float16);
}
PROBE(ComputeOptions, is_training) {
  EXPECT_EQ(compute_settings({.device = at::kCPU, .dtype = bfloat16, .is_training = true}).param_dtype, float32);
}

PROBE(ComputeSettings, device) { EXPECT_THAT(describe({.device = kNoSuchDevice}, Mesh()), HasSubstr(" on cuda:99,")); }
PROBE(ComputeSettings, dtype) {
  EXPECT_THAT(describe({.dtype = bfloat16}, Mesh()), HasSubstr("computing in bfloat16 "));
}
PROBE(ComputeSettings, param_dtype) {
  EXPECT_THAT(describe({.param_dtype = float16}, Mesh()), HasSubstr("stored in float16"));
}

// Rotary tables ------------------------------------------------------------------------------------------------------

at::Tensor frequencies(const RopeOptions& options) { return tiny_config().get_basic_inv_frequencies(options); }

PROBE(RopeOptions, head_size) {
  EXPECT_EQ(frequencies({}).numel(), 2);  // heads of four
  EXPECT_EQ(frequencies({.head_size = 12}).numel(), 6);
}
PROBE(RopeOptions, rotary_dim) { EXPECT_EQ(frequencies({.head_size = 12, .rotary_dim = 8}).numel(), 4); }
PROBE(RopeOptions, base) {
  EXPECT_NEAR(frequencies({.base = 100.0})[1].item<double>(), 0.1, 1e-6);
  EXPECT_NEAR(frequencies({})[1].item<double>(), 0.01, 1e-6);
}
PROBE(RopeOptions, dtype) {
  const at::Tensor q = at::ones({1, 3, 2, 4}), positions = at::arange(3).unsqueeze(0);
  const LlamaConfig config = tiny_config();
  EXPECT_EQ(config.get_basic_rope({})(q, q, positions).first.scalar_type(), float32);
  EXPECT_EQ(config.get_basic_rope({.dtype = bfloat16})(q, q, positions).first.scalar_type(), bfloat16);
}
// At position one the first pair turns by one radian: with its neighbour, or with the other half of the head.
PROBE(RopeOptions, is_neox_style) {
  const at::Tensor q = at::tensor({1.0f, 0.0f, 0.0f, 0.0f}).view({1, 1, 1, 4}), positions = at::ones({1, 1}, at::kLong);
  const auto turned = [&](const RopeOptions& options) {
    return tiny_config().get_basic_rope(options)(q, q, positions).first.flatten();
  };
  const float c = std::cos(1.0f), s = std::sin(1.0f);
  EXPECT_TRUE(is_close(turned({}), at::tensor({c, 0.0f, s, 0.0f})));
  EXPECT_TRUE(is_close(turned({.is_neox_style = false}), at::tensor({c, s, 0.0f, 0.0f})));
}

// Caches -------------------------------------------------------------------------------------------------------------

PROBE(OperationsCacheOptions, batch_size) {
  const auto cache = std::dynamic_pointer_cast<TransformerCache>(
      tiny_llama()->init_operations_cache({.batch_size = 3, .max_length = 8}));
  EXPECT_EQ(cache->metadata().batch_size, 3);
  EXPECT_TRUE(
      is_refused("batch_size", [] { tiny_llama()->init_operations_cache({.batch_size = 0, .max_length = 8}); }));
}
PROBE(OperationsCacheOptions, max_length) {
  EXPECT_EQ(tiny_llama()->init_operations_cache({.max_length = 9})->max_length(), 9);
  EXPECT_TRUE(is_refused("max_length", [] { tiny_llama()->init_operations_cache({}); }));
}
// Tokens before the start of a row are padding, which nothing after them sees.
PROBE(OperationsCacheOptions, starts) {
  const auto model = tiny_llama();
  const at::Tensor ids = tiny_ids(1, 6);
  const auto last = [&](const at::Tensor& given, const at::Tensor& starts) {
    ModelInputs inputs{.input_ids = given};
    inputs.past_key_values = model->init_operations_cache({.max_length = 8, .starts = starts});
    return logits_of(*model, inputs).select(1, -1);
  };
  EXPECT_TRUE(is_close(last(ids, at::tensor({2}, at::kLong)), last(ids.narrow(1, 2, 4), {}), {1e-4, 1e-5}));
  EXPECT_FALSE(at::allclose(last(ids, {}), last(ids.narrow(1, 2, 4), {})));
}
PROBE(OperationsCacheOptions, page_size) {
  const auto cache = tiny_llama()->init_operations_cache({.max_length = 16, .page_size = 4, .hbm_utilization = 1e-4});
  EXPECT_TRUE(cache->is_ragged());
  EXPECT_FALSE(tiny_llama()->init_operations_cache({.max_length = 16})->is_ragged());
}
PROBE(OperationsCacheOptions, hbm_utilization) {
  const auto pages = [](double share) {
    return std::dynamic_pointer_cast<RaggedPagesCache>(
               tiny_llama()->init_operations_cache({.max_length = 16, .page_size = 4, .hbm_utilization = share}))
        ->metadata()
        .num_pages;
  };
  EXPECT_GT(pages(2e-4), pages(1e-4));
  EXPECT_TRUE(is_refused("hbm_utilization", [&] { pages(1.5); }));
}

// Saving -------------------------------------------------------------------------------------------------------------

PROBE(SaveOptions, max_shard_size) {
  const Files files;
  EXPECT_FALSE(fs::exists(files.directory / "model.safetensors.index.json"));
  files.model->save_pretrained(files.directory / "parts", {.max_shard_size = "100KB", .verbose = false});
  EXPECT_TRUE(fs::exists(files.directory / "parts/model.safetensors.index.json"));
}
PROBE(SaveOptions, float_dtype) {
  const Files files;
  files.model->save_pretrained(files.directory / "half", {.float_dtype = float16, .verbose = false});
  EXPECT_EQ(Json::parse_file((files.directory / "half/config.json").string()).at("dtype"), Json("float16"));
}

std::shared_ptr<LlamaForCausalLM> odd_llama() {
  auto model = tiny_llama();
  model->merge_params({{"model.norm.weight", at::ones({16}, bfloat16)}});
  return model;
}

PROBE(SaveOptions, mismatch_allowed) {
  const TemporaryDirectory directory;
  EXPECT_NO_THROW(odd_llama()->save_pretrained(directory / "a", {.verbose = false}));
  EXPECT_TRUE(is_refused("\"model.norm.weight\" is bfloat16", [&] {
    odd_llama()->save_pretrained(directory / "b", {.mismatch_allowed = false, .verbose = false});
  }));
}
PROBE(SaveOptions, step) {
  const TemporaryDirectory directory;
  tiny_llama()->save_pretrained(directory.path(), {.step = 7, .verbose = false});
  EXPECT_TRUE(fs::exists(directory / "run-7/model.safetensors"));
}
PROBE(SaveOptions, verbose) {
  const TemporaryDirectory directory;
  EXPECT_NE(progress_of([&] { tiny_llama()->save_pretrained(directory / "a"); }), "");
  EXPECT_EQ(progress_of([&] { tiny_llama()->save_pretrained(directory / "b", {.verbose = false}); }), "");
}

State some_state() { return tiny_llama()->to_state(optim::adamw(1e-3)); }

PROBE(SaveStateOptions, float_dtype) {
  const TemporaryDirectory directory;
  some_state().save_state(directory / "a", {.float_dtype = float16, .verbose = false});
  EXPECT_EQ(Json::parse_file((directory / "a/config.json").string()).at("dtype"), Json("float16"));
}
PROBE(SaveStateOptions, verbose) {
  const TemporaryDirectory directory;
  EXPECT_NE(progress_of([&] { some_state().save_state(directory / "a"); }), "");
  EXPECT_EQ(progress_of([&] { some_state().save_state(directory / "b", {.verbose = false}); }), "");
}
PROBE(SaveStateOptions, mismatch_allowed) {
  const TemporaryDirectory directory;
  const State state = odd_llama()->to_state();
  EXPECT_NO_THROW(state.save_state(directory / "a", {.verbose = false}));
  EXPECT_TRUE(is_refused("\"model.norm.weight\" is bfloat16",
                         [&] { state.save_state(directory / "b", {.verbose = false, .mismatch_allowed = false}); }));
}
PROBE(SaveStateOptions, save_optimizer) {
  const TemporaryDirectory directory;
  some_state().save_state(directory / "a", {.verbose = false});
  some_state().save_state(directory / "b", {.verbose = false, .save_optimizer = false});
  EXPECT_TRUE(fs::exists(directory / "a/optimizer.safetensors"));
  EXPECT_FALSE(fs::exists(directory / "b/optimizer.safetensors"));
}
PROBE(SaveStateOptions, enable) {
  const TemporaryDirectory directory;
  some_state().save_state(directory / "a", {.verbose = false, .enable = false});
  EXPECT_FALSE(fs::exists(directory / "a"));
}
PROBE(SaveStateOptions, max_shard_size) {
  const TemporaryDirectory directory;
  some_state().save_state(directory / "a", {.verbose = false, .max_shard_size = "10KB"});
  EXPECT_TRUE(fs::exists(directory / "a/model.safetensors.index.json"));
}
PROBE(SaveStateOptions, also) {
  const TemporaryDirectory directory;
  some_state().save_state(directory / "a", {.verbose = false, .also = [](const fs::path& fresh) {
                                              write_file_atomically(fresh / "notes.txt", "mine");
                                            }});
  EXPECT_EQ(read_file(directory / "a/notes.txt"), "mine");
}

// Making a state -----------------------------------------------------------------------------------------------------

PROBE(CreateOptions, step) {
  const auto model = tiny_llama();
  EXPECT_EQ(State::create({.model = model.get()}).step, 0);
  EXPECT_EQ(State::create({.step = 7, .model = model.get()}).step, 7);
}

// A state of these parts, with another vocabulary, other weights or other buffers than a tiny Llama has.
State of_parts(const BaseModule& definition, const BaseModule& weights) {
  const auto [def, own, other] = definition.split_module_parts();
  return State::create({.graphdef = def, .graphstate = weights.params(), .graphother = other});
}

PROBE(CreateOptions, graphdef) {
  LlamaConfig config = tiny_config();
  config.norm_eps = 0.5;
  const auto other = make_model<LlamaForCausalLM>(config), own = tiny_llama();
  EXPECT_TRUE(at::equal(logits_of(*of_parts(*other, *own).model()), logits_of(*other)));
  EXPECT_FALSE(at::allclose(logits_of(*other), logits_of(*own)));
  EXPECT_TRUE(is_refused("graphdef", [&] { State::create({.graphdef = own->graphdef(), .model = own.get()}); }));
}
PROBE(CreateOptions, graphstate) {
  const auto own = tiny_llama(), other = tiny_llama({.rngs = RandomKey(9)});
  EXPECT_TRUE(at::equal(logits_of(*of_parts(*own, *other).model()), logits_of(*other)));
  EXPECT_TRUE(is_refused("graphstate", [&] { State::create({.graphstate = own->params(), .model = own.get()}); }));
}
PROBE(CreateOptions, graphother) {
  const auto own = tiny_llama();
  const auto [def, params, other] = own->split_module_parts();
  const GraphOther more{{"counter", at::ones({1})}};
  EXPECT_TRUE(
      at::equal(State::create({.graphdef = def, .graphstate = params, .graphother = more}).graphother.at("counter"),
                at::ones({1})));
  EXPECT_TRUE(is_refused("graphother", [&] { State::create({.graphdef = def, .graphstate = params}); }));
}
PROBE(CreateOptions, model) {
  const auto model = tiny_llama();
  EXPECT_TRUE(at::equal(logits_of(*State::create({.model = model.get()}).model()), logits_of(*model)));
  EXPECT_TRUE(is_refused("a model", [] { State::create({}); }));
}
PROBE(CreateOptions, tx) {
  const auto model = tiny_llama();
  const auto tx = optim::sgd(0.1);
  EXPECT_EQ(State::create({.model = model.get(), .tx = tx}).tx, tx);
  EXPECT_EQ(State::create({.model = model.get()}).tx, nullptr);
}
PROBE(CreateOptions, opt_state) {
  const auto model = tiny_llama();
  const auto tx = optim::sgd({.learning_rate = 0.1, .momentum = 0.9});
  optim::OptState given = tx->init(model->params());
  given.counts["count"] = 5;
  EXPECT_EQ(State::create({.model = model.get(), .tx = tx, .opt_state = given}).opt_state->counts.at("count"), 5);
}
PROBE(CreateOptions, init_opt_state) {
  const auto model = tiny_llama();
  const auto tx = optim::adamw(0.1);
  EXPECT_FALSE(State::create({.model = model.get(), .tx = tx}).opt_state.has_value());
  EXPECT_TRUE(State::create({.model = model.get(), .tx = tx, .init_opt_state = true}).opt_state.has_value());
  EXPECT_TRUE(is_refused("init_opt_state", [&] { State::create({.model = model.get(), .init_opt_state = true}); }));
}

}  // namespace
}  // namespace easydel::loading_probes
