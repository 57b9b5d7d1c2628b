#include "easydel/optim/make_optimizer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/tree.h"
#include "easydel/optim/wrappers.h"

namespace easydel::optim {
namespace {

constexpr const char* kWhere = "make_optimizer";

template <class Names>
std::string joined(const Names& names) {
  std::string out;
  for (const auto& name : names) out += concat(out.empty() ? "" : ", ", name);
  return out;
}

template <class Names>
[[noreturn]] void fail_unknown(const std::string& key, const std::string& given, const Names& known) {
  const std::string near = nearest_name(given, known);
  fail<ConfigError>("[", kWhere, "] unknown ", key, " \"", given, "\"; known: ", joined(known), ".",
                    near.empty() ? "" : concat(" Did you mean \"", near, "\"?"));
}

// The options of one optimizer; those that are never read are unknown.
class Kwargs {
 public:
  Kwargs(std::string optimizer, const Json& json) : optimizer_(std::move(optimizer)), json_(json) {
    require<ConfigError>(json.is_null() || json.is_object(), "[", kWhere,
                         "] extra_optimizer_kwargs must be an object; got ", json.type_name(), ".");
  }

  void read(const char* key, double& value) {
    if (const Json* json = find(key)) value = number(key, *json);
  }
  void read(const char* key, std::optional<double>& value) {
    if (const Json* json = find(key)) value = json->is_null() ? std::nullopt : std::optional(number(key, *json));
  }
  void read(const char* key, std::optional<Schedule>& value) {
    if (const Json* json = find(key))
      value = json->is_null() ? std::nullopt : std::optional<Schedule>(number(key, *json));
  }
  void read(const char* key, int64_t& value) {
    const Json* json = find(key);
    if (!json) return;
    require<ConfigError>(json->is_int(), at(key), " must be an integer; got ", json->dump(), ".");
    value = json->as_int();
  }
  void read(const char* key, bool& value) {
    const Json* json = find(key);
    if (!json) return;
    require<ConfigError>(json->is_bool(), at(key), " must be true or false; got ", json->dump(), ".");
    value = json->as_bool();
  }
  void read(const char* key, std::string& value) {
    const Json* json = find(key);
    if (!json) return;
    require<ConfigError>(json->is_string(), at(key), " must be a string; got ", json->dump(), ".");
    value = json->as_string();
  }
  void read(const char* key, at::ScalarType& value) {
    if (const Json* json = find(key)) value = dtype(key, *json);
  }
  void read(const char* key, std::optional<at::ScalarType>& value) {
    if (const Json* json = find(key)) value = json->is_null() ? std::nullopt : std::optional(dtype(key, *json));
  }
  // One triple, or a list of them.
  void read(const char* key, std::vector<std::array<double, 3>>& value) {
    const Json* json = find(key);
    if (!json) return;
    require<ConfigError>(json->is_array() && json->size() > 0, at(key), " must be a list of numbers; got ",
                         json->dump(), ".");
    value.clear();
    if (json->at(0).is_number()) {
      value.push_back(triple(key, *json));
    } else {
      for (const Json& item : json->as_array()) value.push_back(triple(key, item));
    }
  }

  void check_all_read() const {
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.as_object()) {
      if (!read_.contains(key)) fail_unknown(concat("option of ", optimizer_), key, read_);
    }
  }

 private:
  const Json* find(const char* key) {
    read_.insert(key);
    return json_.find(key);
  }
  std::string at(const char* key) const { return concat("[", kWhere, "] extra_optimizer_kwargs.", key); }
  double number(const char* key, const Json& json) const {
    require<ConfigError>(json.is_number() && std::isfinite(json.as_double()), at(key), " must be a finite number; got ",
                         json.dump(), ".");
    return json.as_double();
  }
  at::ScalarType dtype(const char* key, const Json& json) const {
    require<ConfigError>(json.is_string(), at(key), " must be the name of a dtype; got ", json.dump(), ".");
    static const std::map<std::string, at::ScalarType> known{
        {"bfloat16", at::kBFloat16}, {"float16", at::kHalf}, {"float32", at::kFloat}, {"float64", at::kDouble}};
    const auto found = known.find(json.as_string());
    require<ConfigError>(found != known.end(), at(key), " must be bfloat16, float16, float32 or float64; got ",
                         json.dump(), ".");
    return found->second;
  }
  std::array<double, 3> triple(const char* key, const Json& json) const {
    require<ConfigError>(json.is_array() && json.size() == 3, at(key), " must be three numbers; got ", json.dump(),
                         ".");
    return {number(key, json.at(0)), number(key, json.at(1)), number(key, json.at(2))};
  }

  std::string optimizer_;
  const Json& json_;
  std::set<std::string> read_;
};

// Weight decay for optimizers without their own: applied after them, as EasyDeL does.
GradientTransformation with_decay(GradientTransformation inner, const OptimizerConfig& config, const Schedule& rate) {
  if (config.weight_decay == 0) return inner;
  const Schedule decay("weight_decay",
                       [rate, value = config.weight_decay](int64_t step) { return -rate(step) * value; });
  return chain({std::move(inner), add_decayed_weights(decay, config.weight_decay_mask)});
}

using Builder = GradientTransformation (*)(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs);

// Options of both adam and adamw.
template <class Options>
void read_adam(Kwargs& kwargs, Options& o) {
  kwargs.read("b1", o.b1);
  kwargs.read("b2", o.b2);
  kwargs.read("eps", o.eps);
  kwargs.read("eps_root", o.eps_root);
  kwargs.read("mu_dtype", o.mu_dtype);
  kwargs.read("nesterov", o.nesterov);
  kwargs.check_all_read();
}

GradientTransformation make_adamw(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  AdamwOptions o{.learning_rate = rate, .weight_decay = config.weight_decay, .mask = config.weight_decay_mask};
  read_adam(kwargs, o);
  return adamw(o);
}

GradientTransformation make_adamw_8bit(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  Adamw8bitOptions o{.learning_rate = rate, .weight_decay = config.weight_decay, .mask = config.weight_decay_mask};
  std::string full_precision = "embed|wte|wpe";  // rare rows, as transformers' Trainer does
  kwargs.read("b1", o.b1);
  kwargs.read("b2", o.b2);
  kwargs.read("eps", o.eps);
  kwargs.read("min_8bit_size", o.min_8bit_size);
  kwargs.read("full_precision", full_precision);
  kwargs.check_all_read();
  if (!full_precision.empty()) o.full_precision = matching(full_precision);
  return adamw_8bit(o);
}

GradientTransformation make_adam(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  AdamOptions o{.learning_rate = rate};
  read_adam(kwargs, o);
  return with_decay(adam(o), config, rate);
}

GradientTransformation make_adafactor(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  AdafactorOptions o{.learning_rate = rate, .weight_decay_mask = config.weight_decay_mask};
  kwargs.read("min_dim_size_to_factor", o.min_dim_size_to_factor);
  kwargs.read("decay_rate", o.decay_rate);
  kwargs.read("decay_offset", o.decay_offset);
  kwargs.read("multiply_by_parameter_scale", o.multiply_by_parameter_scale);
  kwargs.read("clipping_threshold", o.clipping_threshold);
  kwargs.read("momentum", o.momentum);
  kwargs.read("dtype_momentum", o.dtype_momentum);
  kwargs.read("weight_decay_rate", o.weight_decay_rate);
  kwargs.read("eps", o.eps);
  kwargs.read("factored", o.factored);
  kwargs.check_all_read();
  return with_decay(adafactor(o), config, rate);
}

GradientTransformation make_lion(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  LionOptions o{.learning_rate = rate, .weight_decay = config.weight_decay, .mask = config.weight_decay_mask};
  kwargs.read("b1", o.b1);
  kwargs.read("b2", o.b2);
  kwargs.read("mu_dtype", o.mu_dtype);
  kwargs.check_all_read();
  return lion(o);
}

GradientTransformation make_rmsprop(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  RmspropOptions o{.learning_rate = rate};
  kwargs.read("decay", o.decay);
  kwargs.read("eps", o.eps);
  kwargs.read("initial_scale", o.initial_scale);
  kwargs.read("eps_in_sqrt", o.eps_in_sqrt);
  kwargs.read("centered", o.centered);
  kwargs.read("momentum", o.momentum);
  kwargs.read("nesterov", o.nesterov);
  kwargs.read("bias_correction", o.bias_correction);
  kwargs.check_all_read();
  return with_decay(rmsprop(o), config, rate);
}

GradientTransformation make_sgd(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  SgdOptions o{.learning_rate = rate};
  kwargs.read("momentum", o.momentum);
  kwargs.read("nesterov", o.nesterov);
  kwargs.read("accumulator_dtype", o.accumulator_dtype);
  kwargs.check_all_read();
  return with_decay(sgd(o), config, rate);
}

GradientTransformation make_muon(const OptimizerConfig& config, const Schedule& rate, Kwargs& kwargs) {
  // A Linear stores its outputs first.
  MuonOptions o{.learning_rate = rate, .weight_decay_mask = config.weight_decay_mask, .reduction_axis = 1};
  kwargs.read("ns_coeffs", o.ns_coeffs);
  kwargs.read("ns_steps", o.ns_steps);
  kwargs.read("beta", o.beta);
  kwargs.read("eps", o.eps);
  kwargs.read("weight_decay", o.weight_decay);
  kwargs.read("mu_dtype", o.mu_dtype);
  kwargs.read("nesterov", o.nesterov);
  kwargs.read("adaptive", o.adaptive);
  kwargs.read("preconditioning", o.preconditioning);
  kwargs.read("adam_b1", o.adam_b1);
  kwargs.read("adam_b2", o.adam_b2);
  kwargs.read("adam_eps_root", o.adam_eps_root);
  kwargs.read("adam_weight_decay", o.adam_weight_decay);
  kwargs.read("adam_learning_rate", o.adam_learning_rate);
  kwargs.read("consistent_rms", o.consistent_rms);
  kwargs.read("reduction_axis", o.reduction_axis);
  kwargs.check_all_read();
  return with_decay(muon(o), config, rate);
}

const std::map<std::string, Builder>& builders() {
  static const std::map<std::string, Builder> all{
      {"adafactor", make_adafactor}, {"adam", make_adam}, {"adamw", make_adamw}, {"adamw_8bit", make_adamw_8bit},
      {"lion", make_lion},           {"muon", make_muon}, {"sgd", make_sgd},     {"rmsprop", make_rmsprop}};
  return all;
}

void require_range(bool in_range, const char* key, const char* rule, double value) {
  require<ConfigError>(in_range, "[", kWhere, "] ", key, " must be ", rule, "; got ", value, ".");
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const auto& [name, builder] : builders()) names.push_back(name);
  return names;
}

std::vector<std::string> scheduler_names() {
  return {"constant", "cosine", "exponential", "linear", "none", "warmup_stable_decay"};
}

Schedule make_schedule(const OptimizerConfig& c) {
  const auto names = scheduler_names();
  if (std::find(names.begin(), names.end(), c.scheduler) == names.end()) fail_unknown("scheduler", c.scheduler, names);
  check_not_negative(kWhere, "learning_rate", c.learning_rate);
  if (c.learning_rate_end) check_not_negative(kWhere, "learning_rate_end", *c.learning_rate_end);
  require<ConfigError>(c.warmup_steps >= 0, "[", kWhere, "] warmup_steps must not be negative; got ", c.warmup_steps,
                       ".");
  if (c.scheduler == "none") {
    require<ConfigError>(c.warmup_steps == 0, "[", kWhere, "] warmup_steps needs a scheduler; got ", c.warmup_steps,
                         " steps and \"none\". \"constant\" stays at the learning rate after the warmup.");
    return constant_schedule(c.learning_rate);
  }
  constexpr double kWarmupBegin = 1e-8;
  if (c.scheduler == "constant") {
    return c.warmup_steps ? warmup_constant_schedule(kWarmupBegin, c.learning_rate, c.warmup_steps)
                          : constant_schedule(c.learning_rate);
  }
  require<ConfigError>(c.total_steps > c.warmup_steps, "[", kWhere,
                       "] total_steps must be more than warmup_steps; got ", c.total_steps, " and ", c.warmup_steps,
                       ".");
  require<ConfigError>(c.scheduler != "linear" || c.learning_rate_end, "[", kWhere,
                       "] the scheduler \"linear\" needs learning_rate_end.");
  const int64_t rest = c.total_steps - c.warmup_steps;
  const double end = c.learning_rate_end.value_or(0);
  const auto after_warmup = [&](const Schedule& schedule) {
    if (c.warmup_steps == 0) return schedule;
    return Schedule(
        "warmup_" + schedule.name(),
        join_schedules({linear_schedule(kWarmupBegin, c.learning_rate, c.warmup_steps), schedule}, {c.warmup_steps}));
  };
  if (c.scheduler == "linear") return after_warmup(linear_schedule(c.learning_rate, end, rest));
  if (c.scheduler == "exponential") {
    require<ConfigError>(c.learning_rate_end && end > 0 && c.learning_rate > 0, "[", kWhere,
                         "] the scheduler \"exponential\" needs a learning_rate and a learning_rate_end above 0; got ",
                         c.learning_rate, " and ", end, ".");
    return after_warmup(exponential_decay({.init_value = c.learning_rate,
                                           .transition_steps = rest,
                                           .decay_rate = end / c.learning_rate,
                                           .end_value = end}));
  }
  if (c.scheduler == "warmup_stable_decay") {
    return warmup_stable_decay_schedule({.init_value = c.warmup_steps ? kWarmupBegin : c.learning_rate,
                                         .peak_value = c.learning_rate,
                                         .warmup_steps = c.warmup_steps,
                                         .decay_steps = c.decay_steps.value_or(std::max<int64_t>(rest / 5, 1)),
                                         .total_steps = c.total_steps,
                                         .end_value = end});
  }
  const double alpha = c.learning_rate == 0 ? 0 : end / c.learning_rate;
  return after_warmup(cosine_decay_schedule({.init_value = c.learning_rate, .decay_steps = rest, .alpha = alpha}));
}

Optimizer make_optimizer(const OptimizerConfig& config) {
  const auto found = builders().find(config.optimizer);
  if (found == builders().end()) fail_unknown("optimizer", config.optimizer, optimizer_names());
  check_not_negative(kWhere, "weight_decay", config.weight_decay);
  if (config.clip_grad) check_positive(kWhere, "clip_grad", *config.clip_grad);
  require_range(config.gradient_accumulation_steps >= 1, "gradient_accumulation_steps", "at least 1",
                static_cast<double>(config.gradient_accumulation_steps));
  const Schedule schedule = make_schedule(config);
  Kwargs kwargs(config.optimizer, config.extra_optimizer_kwargs);
  GradientTransformation tx = found->second(config, schedule, kwargs);
  if (config.clip_grad) tx = chain({clip_by_global_norm(*config.clip_grad), std::move(tx)});
  if (config.gradient_accumulation_steps > 1) tx = MultiSteps(std::move(tx), config.gradient_accumulation_steps);
  return {std::move(tx), schedule};
}

}  // namespace easydel::optim
