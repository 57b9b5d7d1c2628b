// A small config for the tests of what all configs share.
#pragma once

#include "easydel/infra/config/config.h"
#include "easydel/infra/config/config_check.h"

namespace easydel {

struct ToyConfig : Config<ToyConfig> {
  static constexpr std::string_view kModelType = "toy";

  ToyConfig() {
    hidden_size = 8;
    num_attention_heads = 2;
    max_position_embeddings = 16;
    hidden_act = "silu";
  }

  int64_t depth = 3;
  double rate = 0.5;
  bool open = false;
  std::optional<std::string> nickname;
  std::vector<int64_t> sizes = {1, 2};

  void fields(FieldVisitor& v) override {
    v("depth", depth, "How deep.", {"n_depth"});
    v("rate", rate, "How fast.");
    v("open", open, "Whether it is.");
    v("nickname", nickname, "What friends say.");
    v("sizes", sizes, "All of them.");
    v("hidden_size", hidden_size, "Width.");
    v("eos_token_id", eos_token_id, "The end.");
    v("rope_parameters", rope, "Positions.");
  }
  void validate() const override {
    BaseConfig::validate();
    ConfigCheck(*this).at_least("depth", depth, 1);
  }
};

}  // namespace easydel
