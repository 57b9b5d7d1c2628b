// The rules that configs share, each with its message: [LlamaConfig] hidden_size must be at least 1; got 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/error.h"
#include "easydel/infra/config/base_config.h"

namespace easydel {

class ConfigCheck {
 public:
  explicit ConfigCheck(const BaseConfig& config) : config_(config), where_("[" + config.class_name() + "] ") {}

  // Also below 2^31, so that products of two sizes fit. Passes without a value.
  void at_least(const char* key, std::optional<int64_t> value, int64_t least) const;
  void above_zero(const char* key, double value) const;
  // Asked before anything is made of them, since files can claim any number.
  void layers() const;
  void between_zero_and_one(const char* key, double value) const;
  void multiple(const char* key, int64_t value, const char* of_key, int64_t of) const;
  void one_of(const char* key, const std::string& value, const std::vector<std::string>& known) const;
  // A token may go to one expert or to all: the key is num_experts_per_tok. Passes without a value.
  void top_k(std::optional<int64_t> value, const char* experts_key, int64_t experts) const;
  // Experts in equal groups, of which a token's experts come from some: the keys are n_group and topk_group.
  void groups(int64_t groups, int64_t top, const char* experts_key, int64_t experts, int64_t top_k) const;
  void activation(const char* key, const std::string& name) const;
  void operations() const;  // the names of attention mechanisms and checkpoint policies
  void rope() const;        // all of rope_parameters
  // NotSupportedError when attention is to go both ways.
  void causal(const char* key, std::optional<bool> both_ways) const;

  // The sizes that a decoder has under their usual names: positive, heads that divide. Without whole_heads, the size of
  // a head is rounded down where hidden_size is not a multiple of their number.
  void decoder(bool whole_heads = true) const;

 private:
  const BaseConfig& config_;
  std::string where_;
};

}  // namespace easydel
