// What the configs of decoders that see have in common: a tower's config and a decoder's inside of one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "easydel/infra/config/sub_config.h"

namespace easydel {

// What a config takes over from the decoder inside of it: sizes and special tokens.
void take_from_decoder(BaseConfig& config, const SubConfig& text);

// The rules of the parts, with or without the prefix of the whole, then `own`, then none for the rest.
PartitionRules image_rules(const BaseConfig& config, const std::vector<std::pair<std::string, const SubConfig*>>& parts,
                           std::vector<PartitionRule> own, bool fully_sharded);

}  // namespace easydel
