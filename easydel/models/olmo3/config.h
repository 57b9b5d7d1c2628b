// OLMo 3: OLMo 2 with windows in three of four layers, which may have rotary tables of their own.
#pragma once

#include "easydel/models/gemma3/config.h"

namespace easydel {

struct Olmo3Config : Config<Olmo3Config, DecoderConfig> {
  static constexpr std::string_view kModelType = "olmo3";

  Olmo3Config();

  RopeByLayerType rope_by_type;  // `rope` is that of the full-attention layers

  void fields(FieldVisitor& v) override;
  void post_init() override;
  void validate() const override;
  void rename_older_keys(Json& given, bool is_whole) const override;
};

}  // namespace easydel
