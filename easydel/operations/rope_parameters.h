// The `rope_parameters` / `rope_scaling` block of a config, in any spelling.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace easydel {

struct RopeParameters {
  std::string rope_type = "default";  // default, linear, dynamic, yarn, llama3, longrope
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;  // the share of each head that is rotated
  std::optional<double> factor;        // absent: yarn and longrope use max_position_embeddings / the original one
  std::optional<int64_t> original_max_position_embeddings;
  std::optional<double> attention_factor;                   // yarn, longrope
  std::optional<double> beta_fast, beta_slow;               // yarn
  std::optional<double> mscale, mscale_all_dim;             // yarn, as deepseek writes it
  std::optional<double> low_freq_factor, high_freq_factor;  // llama3
  std::vector<double> short_factor, long_factor;            // longrope
  bool truncate = true;                                     // yarn
};

}  // namespace easydel
