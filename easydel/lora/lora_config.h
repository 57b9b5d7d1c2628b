// What an adapter is, in peft's words: the content of adapter_config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

// How a fresh adapter is drawn.
enum class LoraInit {
  Default,   // peft's true: A uniform as torch draws a Linear, B zero; the model computes what it did
  Gaussian,  // A normal with a standard deviation of 1 / r, B zero
  Random,    // peft's false: A and B both uniform
  Pissa,     // the largest singular values of the weight, which are taken off it
  Olora,     // its first columns of Q and rows of R, likewise
};

struct LoraConfig {
  int64_t r = 8;
  double lora_alpha = 8;
  double lora_dropout = 0;
  bool use_rslora = false;  // alpha / sqrt(r) instead of alpha / r
  bool use_dora = false;
  LoraInit init = LoraInit::Default;
  // Layers of another rank or alpha, by the end of their path or a pattern for it; the first counts.
  std::vector<std::pair<std::string, int64_t>> rank_pattern = {};
  std::vector<std::pair<std::string, double>> alpha_pattern = {};
  std::vector<std::string> modules_to_save = {};  // ends of paths of modules that are trained and saved as they are
  Json file = {};                                 // all keys of the file that it was read from

  // FormatError names the key; NotSupportedError on what is not supported: another peft_type, biases, ….
  static LoraConfig from_json(const Json& json, const std::string& where);
  // ConfigError names the key and its value.
  void validate(const std::string& where) const;

  bool takes_from_base() const { return init == LoraInit::Pissa || init == LoraInit::Olora; }
  int64_t rank_of(std::string_view path) const;
  double alpha_of(std::string_view path) const;
  double scaling_of(std::string_view path, int64_t rank) const;
};

// Whether a path ends in this name, at a dot: "q_proj" finds "model.layers.0.self_attn.q_proj". A name with other
// characters than those of paths is a regular expression for the end.
bool ends_in(std::string_view path, const std::string& name);
// Whether the regular expression is found anywhere in the path.
bool is_found(std::string_view path, const std::string& pattern);

}  // namespace easydel
