#include "tests/support/one_answer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "easydel/core/error.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/encoder/seq2seq_inputs.h"
#include "easydel/infra/registry.h"
#include "easydel/layers/recurrent/recurrent_mixer.h"
#include "tests/support/python.h"
#include "tests/support/text_families.h"

namespace easydel::testing_support {
namespace {

constexpr double kTolerance = 1e-9;

// Each family's unusual configs: model_type to name to settings.
const Json& odd_configs() {
  static const Json configs = Json::parse(run_python("../models/odd_configs.py", {}));
  return configs;
}

// One of the family's unusual configs in other sizes, with some switches flipped, without family-specific knowledge.
Json vary(Draw& draw, const std::string& family) {
  std::vector<Json> known;
  for (const auto& [name, settings] : odd_configs().at(family).as_object()) known.push_back(settings);
  Json c = draw.one_of(known);
  c["model_type"] = family;
  const std::unique_ptr<BaseConfig> before = AutoConfig::from_dict(c);

  const int64_t kv_heads = draw.between(1, 4), heads = kv_heads * draw.between(1, 3);
  const int64_t head_dim = draw.one_of<int64_t>({2, 4, 6, 8});
  c["vocab_size"] = draw.between(5, 40);
  c["num_attention_heads"] = heads;
  c["num_key_value_heads"] = kv_heads;
  c["head_dim"] = head_dim;
  c["hidden_size"] = heads * (draw.chance(0.5) ? head_dim : 2 * draw.between(1, 4));
  c["intermediate_size"] = draw.between(1, 24);
  if (draw.chance(0.5)) c["num_hidden_layers"] = draw.between(1, 3);
  c["max_position_embeddings"] = 32;
  if (c.contains("num_heads") && !before->get("expand").is_null())  // of a state space, which fill its channels
    c["num_heads"] = c.at("hidden_size").as_int() * before->get("expand").as_int() / head_dim;
  c["tie_word_embeddings"] = draw.chance(0.4);
  c["pad_token_id"] = 0;
  c["fsdp_is_ep_bound"] = draw.chance(0.5);
  c["sp_is_ep_bound"] = draw.chance(0.5);
  c["use_expert_tensor_mode"] = draw.chance(0.2);
  int64_t experts = 0;
  for (const FieldValue& field : before->describe()) {
    if (field.key == "architectures") break;  // the fields after it are common to all families
    if (field.key.find("experts") != std::string::npos && field.value.is_int()) {
      experts = experts == 0 ? draw.between(1, 6) : draw.between(1, experts);
      c[field.key] = experts;
    }
    if (field.key == "sliding_window" && draw.chance(0.5)) c[field.key] = draw.between(1, 6);
    const bool is_switch = field.type.starts_with("true or false") && field.key != "tie_word_embeddings";
    if (is_switch && draw.chance(0.3)) c[field.key] = draw.chance(0.5);
  }
  return c;
}

bool is_whole_rotation(const BaseConfig& c) {
  const auto rotated = static_cast<int64_t>(static_cast<double>(c.head_size()) * c.rope.partial_rotary_factor);
  return rotated > (c.rope.rope_type == "dynamic" ? 2 : 0) && rotated % 2 == 0;
}

// Draws until the config is valid.
std::unique_ptr<BaseConfig> draw_config(Draw& draw, const std::string& family, const Json& settings) {
  std::string why;
  for (int attempt = 0; attempt < 200; ++attempt) {
    Json dict = vary(draw, family);
    for (const auto& [key, value] : settings.as_object()) dict[key] = value;
    try {
      std::unique_ptr<BaseConfig> config = AutoConfig::from_dict(dict);
      Registry::instance().make_module(*config, TaskType::BaseModule);
      if (is_whole_rotation(*config)) return config;
    } catch (const Error& error) {
      why = error.what();
    }
  }
  fail<Error>("[draw_config] no valid config of ", family, " in 200 draws; the last: ", why);
}

Mesh draw_mesh(Draw& draw, int64_t devices) {
  std::vector<int64_t> dims(5, 1), outer(5, 1);
  const bool has_outer = draw.chance(0.25);  // a DCN dimension changes which ranks form a group
  int64_t left = devices;
  for (const int64_t prime : {2, 3, 5, 7}) {
    for (; left % prime == 0; left /= prime) {
      (has_outer && draw.chance(0.5) ? outer : dims)[static_cast<std::size_t>(draw.between(0, 4))] *= prime;
    }
  }
  return create_mesh({.axis_dims = dims, .dcn_axis_dims = outer, .device_count = devices});
}

// `two_stacks`: an encoder-decoder, which takes neither positions nor packed sequences.
ModelInputs draw_inputs(Draw& draw, const BaseConfig& config, TaskType task, bool two_stacks) {
  const int64_t batch = draw.between(1, 5), tokens = draw.between(2, 15);
  at::Tensor ids = at::empty({batch, tokens}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    ids.mutable_data_ptr<int64_t>()[i] =
        draw.between(std::min<int64_t>(3, config.vocab_size - 1), config.vocab_size - 1);
  }
  ModelInputs inputs;
  const int64_t kind = draw.between(0, two_stacks ? 2 : 3);  // full, padded left, padded right, packed
  at::Tensor keep = at::ones({batch, tokens}, at::kLong);
  if (kind == 1 || kind == 2) {
    for (int64_t row = 0; row < batch; ++row) {
      const int64_t cut = draw.between(0, tokens - 1);
      keep[row].narrow(0, kind == 1 ? 0 : tokens - cut, cut).zero_();
    }
    inputs.attention_mask = keep;
    if (!two_stacks) inputs.position_ids = (keep.cumsum(-1) - 1).clamp_min(0);
  } else if (kind == 3) {
    inputs.segment_ids = at::zeros({batch, tokens}, at::kLong);
    for (int64_t row = 0; row < batch; ++row) {
      int64_t segment = 0;
      for (int64_t t = 0; t < tokens; ++t) {
        if (draw.chance(0.25)) ++segment;
        inputs.segment_ids[row][t] = segment;
      }
      if (draw.chance(0.3)) inputs.segment_ids[row].narrow(0, tokens - 1, 1).fill_(-1);
    }
    keep = inputs.segment_ids.ge(0).to(at::kLong);
  }
  inputs.input_ids = ids.masked_fill(keep.eq(0), 0);
  const auto drawn = [&](at::IntArrayRef shape, int64_t low, int64_t high) {
    at::Tensor x = at::empty(shape, at::kLong);
    for (int64_t i = 0; i < x.numel(); ++i) x.mutable_data_ptr<int64_t>()[i] = draw.between(low, high);
    return x;
  };
  if (task == TaskType::SequenceClassification) {
    inputs.labels = drawn({batch}, 0, 1);
    if (two_stacks) {  // a row ends with an end token
      inputs.input_ids = ids.masked_fill(ids.eq(*config.eos_token_id.begin()), 3);
      inputs.input_ids.select(1, tokens - 1).fill_(*config.eos_token_id.begin());
      inputs.attention_mask.reset();
    }
  } else if (task == TaskType::QuestionAnswering) {
    inputs.start_positions = drawn({batch}, 0, tokens);
    inputs.end_positions = drawn({batch}, 0, tokens - 1);
    inputs.start_positions[0] = 0;  // one answer counts
  } else {
    inputs.labels = ids.masked_fill(keep.eq(0), -100);
    if (task == TaskType::TokenClassification)
      inputs.labels = drawn({batch, tokens}, 0, 1).masked_fill(keep.eq(0), -100);
    if (task == TaskType::SequenceToSequence)
      inputs.labels = drawn({batch, draw.between(1, 9)}, 0, config.vocab_size - 1);
    LossConfig loss;
    if (draw.chance(0.2)) loss.label_smoothing = 0.1;
    if (draw.chance(0.2)) loss.z_loss_coefficient = 0.01;
    if (draw.chance(0.1)) loss.reduction = "sum";
    if (draw.chance(0.3)) loss.chunk_size = draw.between(1, 7);
    inputs.loss_config = loss;
  }
  inputs.output_logits = draw.chance(0.3);
  for (at::Tensor* tensor : {&inputs.input_ids, &inputs.attention_mask, &inputs.position_ids, &inputs.segment_ids,
                             &inputs.labels, &inputs.start_positions, &inputs.end_positions}) {
    if (tensor->defined()) *tensor = tensor->to(device());
  }
  return inputs;
}

double error_of(const at::Tensor& got, const at::Tensor& expected, double scale) {
  if (expected.numel() == 0) return 0;
  const double error = (got - expected).abs().max().item<double>() / std::max(scale, 1e-300);
  return std::isnan(error) ? INFINITY : error;
}

double scale_of(const at::Tensor& x) { return x.numel() == 0 ? 0 : x.abs().max().item<double>(); }

}  // namespace

at::Device device() {
  const char* name = std::getenv("EASYDEL_TEST_DEVICE");
  return name ? at::Device(name) : at::Device(at::kCPU);
}

PartitionRules draw_rules(Draw& draw, const BaseModule& module) {
  std::vector<PartitionRule> rules;
  for (const auto& [path, parameter] : module.named_parameters()) {
    std::vector<std::string> axes{"dp", "fsdp", "ep", "tp", "sp"};
    std::vector<SpecDim> dims;
    for (std::size_t d = 0; d < parameter->shape.size(); ++d) {
      AxisNames chosen;
      while (!axes.empty() && draw.chance(0.45)) {
        const auto index = draw.between(0, static_cast<int64_t>(axes.size()) - 1);
        chosen.push_back(axes[static_cast<std::size_t>(index)]);
        axes.erase(axes.begin() + index);
      }
      dims.emplace_back(chosen);
    }
    std::string pattern = "^";
    for (const char c : path) pattern += c == '.' ? std::string("\\.") : std::string(1, c);
    rules.push_back({pattern + "$", PartitionSpec(dims)});
  }
  return PartitionRules(rules);
}

std::string Problem::to_string() const {
  std::string text = concat("seed ", seed, ", ", task_name(task), ", mesh ", mesh.to_string(), ", input ",
                            inputs.input_ids.sizes(), inputs.attention_mask.defined() ? ", padded" : "",
                            inputs.segment_ids.defined() ? ", packed" : "", ", ", config->to_dict().dump());
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.dcn_size > 1) text += concat(", ", axis.name, " in ", axis.dcn_size, " outer parts");
  }
  if (rules) {
    for (const PartitionRule& rule : rules->rules()) text += concat("\n  ", rule.pattern, " ", rule.spec.to_string());
  }
  return text;
}

bool has_states(const BaseConfig& config) {
  const auto model = Registry::instance().make_module(config, TaskType::BaseModule);
  for (const auto& [path, module] : std::as_const(*model).named_modules()) {
    if (dynamic_cast<const RecurrentMixer*>(module)) return true;
  }
  return false;
}

Problem draw_problem(uint64_t seed, int64_t devices) {
  Draw draw(seed);
  Problem p;
  p.seed = seed;
  const std::vector<std::string> families = text_families();
  const std::string& family = families[seed % families.size()];
  Json settings = Json::object();
  settings["attn_mechanism"] = draw.one_of<std::string>({"auto", "vanilla", "blockwise", "ring"});
  if (draw.chance(0.25))
    settings["gradient_checkpointing"] = draw.one_of<std::string>({"nothing_saveable", "checkpoint_dots"});
  const std::vector<TaskType> tasks = Registry::instance().tasks(family);
  const bool classifies = std::find(tasks.begin(), tasks.end(), TaskType::SequenceClassification) != tasks.end();
  const bool decodes = std::find(tasks.begin(), tasks.end(), TaskType::CausalLM) != tasks.end();
  p.task = draw.chance(0.15) && classifies ? TaskType::SequenceClassification : TaskType::CausalLM;
  if (!decodes) {
    std::vector<TaskType> heads = tasks;
    std::erase(heads, TaskType::BaseModule);
    p.task = draw.one_of(heads);
  }
  if (draw.chance(0.1)) settings["shard_attention_computation"] = false;
  p.config = draw_config(draw, family, settings);
  const std::shared_ptr<BaseModule> module = Registry::instance().make_module(*p.config, p.task);
  p.inputs = draw_inputs(draw, *p.config, p.task, is_seq2seq(*module));
  p.mesh = draw_mesh(draw, devices > 0 ? devices : draw.between(1, 8));
  // The ring has no gradient of a bias on the scores.
  const bool has_bias = !p.config->get("relative_attention_num_buckets").is_null();
  if (has_bias && p.mesh.size("sp") > 1 && p.config->attention.mechanism == "ring")
    p.config->attention.mechanism = "auto";
  const int64_t kind = draw.between(0, 5);
  if (kind == 0) p.rules = p.config->get_partition_rules(false);
  if (kind >= 3) p.rules = draw_rules(draw, *module);
  if (draw.chance(0.3)) p.config->sharding.zero_stage = draw.between(1, 2);
  return p;
}

std::shared_ptr<BaseModule> make_model(const Problem& p) {
  std::shared_ptr<BaseModule> model = Registry::instance().make_module(*p.config, p.task);
  model->initialize({.dtype = float64, .param_dtype = float64, .rngs = RandomKey(p.seed), .device = device()});
  const at::NoGradGuard no_grad;
  for (const auto& [path, parameter] : model->named_parameters()) {
    at::Tensor noise = at::empty_like(parameter->value());
    fill_normal(noise, RandomKey(p.seed).fold("noise").fold(path), 0, 0.3);
    parameter->value().add_(noise);
  }
  return model;
}

Answer answer_on_one_device(const Problem& p) {
  const auto model = make_model(p);
  const ModelOutput out = (*model)(p.inputs);
  out.loss.backward();
  Answer answer{out.loss.detach(), out.logits.defined() ? out.logits.detach() : at::Tensor(), {}};
  for (const auto& [path, parameter] : model->named_parameters()) {
    const at::Tensor grad = parameter->value().grad();
    answer.gradients[path] = grad.defined() ? grad : at::zeros_like(parameter->value());
  }
  return answer;
}

std::string compare_on_mesh(const Problem& p, const Answer& expected) {
  const auto model = make_model(p);
  model->shard_model(p.rules, p.mesh);
  // The second step prefetches what the first recorded; weights that change in between are gathered again.
  if (p.seed % 2 == 0) {
    (*model)(p.inputs).loss.backward();
    const at::NoGradGuard no_grad;
    for (const auto& [path, parameter] : model->named_parameters()) {
      parameter->value().mutable_grad().reset();
      parameter->value().mul_(2).div_(2);
    }
  }
  const ModelOutput out = (*model)(p.inputs);
  out.loss.backward();
  std::string wrong;
  const auto compare = [&](const std::string& name, const at::Tensor& got, const at::Tensor& want, double scale) {
    if (got.sizes() != want.sizes()) {
      wrong += concat("\n  ", name, ": shape ", got.sizes(), " instead of ", want.sizes());
    } else if (const double error = error_of(got, want, scale); !(error < kTolerance)) {
      wrong += concat("\n  ", name, ": off by ", error);
    }
  };
  compare("loss", out.loss.detach(), expected.loss, scale_of(expected.loss));
  if (expected.logits.defined() && out.logits.defined()) {
    compare("logits", out.logits.detach(), expected.logits, scale_of(expected.logits));
  }
  double largest = 0;
  for (const auto& [path, grad] : expected.gradients) largest = std::max(largest, scale_of(grad));
  for (const auto& [path, parameter] : model->named_parameters()) {
    const at::Tensor& want = expected.gradients.at(path);
    at::Tensor got = parameter->value().grad();
    if (!got.defined()) got = at::zeros_like(parameter->value());
    // A gradient that is zero except for rounding (a bias that softmax ignores, say) is compared at the scale of the
    // others.
    compare("grad " + path, got, parameter->sharding() ? parameter->sharding()->part_of(want) : want,
            std::max(scale_of(want), 1e-4 * largest));
  }
  return wrong;
}

}  // namespace easydel::testing_support
