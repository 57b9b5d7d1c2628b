// Nemotron 3 and 4, Minitron: squared ReLU without a gate, layer norms whose weights count from one.
#pragma once

#include "easydel/infra/config/decoder_config.h"

namespace easydel {

struct NemotronConfig : Config<NemotronConfig, DecoderConfig> {
  static constexpr std::string_view kModelType = "nemotron";

  NemotronConfig();

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void rename_older_keys(Json& given, bool is_whole) const override;
};

}  // namespace easydel
