#include "easydel/infra/config/config_notes.h"

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/operations/attention/attention.h"

namespace easydel {

std::vector<std::string> config_notes(const BaseConfig& config) {
  const AttentionSettings& attention = config.attention;
  const AttentionSettings defaults;
  std::vector<std::string> notes;
  const auto note = [&](bool applies, const auto&... text) {
    if (applies) notes.push_back(concat("[", config.class_name(), "] ", text...));
  };
  const auto stand_in = operations::attention_stand_in(attention.mechanism);
  note(stand_in.has_value(), "attn_mechanism \"", attention.mechanism, "\" is computed as \"", stand_in.value_or(""),
       "\".");
  note(attention.decode_mechanism.has_value(), "decode_attn_mechanism \"", attention.decode_mechanism.value_or(""),
       "\" has no effect: the kernel for a cache is chosen automatically.");
  note(attention.softmax_dtype != defaults.softmax_dtype, "attn_softmax_dtype ", dtype_name(attention.softmax_dtype),
       " has no effect: the softmax is float32 or better.");
  note(attention.blocksize_b != defaults.blocksize_b, "blocksize_b ", attention.blocksize_b,
       " has no effect: rows are distributed over threads.");
  note(config.memory.use_scan_mlp, "use_scan_mlp has no effect: use gradient_checkpointing to save memory.");
  note(config.memory.scan_mlp_chunk_size != MemorySettings().scan_mlp_chunk_size, "scan_mlp_chunk_size ",
       config.memory.scan_mlp_chunk_size, " has no effect: it belongs to use_scan_mlp.");
  note(config.sharding.use_sharded_kv_caching,
       "use_sharded_kv_caching has no effect: the cache is split over the sequence whenever the mesh splits the "
       "sequence.");
  return notes;
}

void log_config_notes(const BaseConfig& config) {
  for (const std::string& note : config_notes(config)) log::info(note);
}

}  // namespace easydel
