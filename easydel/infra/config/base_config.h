// What describes a model: its sizes, as config.json has them, and how it is to be split and run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/infra/config/config_settings.h"
#include "easydel/infra/config/rope_fields.h"
#include "easydel/infra/config/token_ids.h"
#include "easydel/infra/fields/field_visitor.h"
#include "easydel/sharding/mesh/mesh.h"
#include "easydel/sharding/mesh/partition_rules.h"

namespace at {
class Tensor;
}

namespace easydel {

class RandomKey;

// A family derives from Config<Family> below, sets its defaults, lists in fields() what its config.json holds, and has
// its rules in validate(). Reading keeps unknown keys, and writing puts them back where they were.
struct BaseConfig {
  virtual ~BaseConfig() = default;

  // What text models have in common. A family lists those that it has, under the names of its own config.json.
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  std::optional<int64_t> num_key_value_heads;  // as many as num_attention_heads
  std::optional<int64_t> head_dim;             // hidden_size / num_attention_heads
  std::string hidden_act;
  int64_t max_position_embeddings = 0;
  double initializer_range = 0.02;
  bool use_cache = true;
  bool tie_word_embeddings = false;
  std::optional<int64_t> pad_token_id;
  std::optional<int64_t> bos_token_id;
  TokenIds eos_token_id;
  RopeParameters rope;

  // What Hugging Face gives every config; in config.json only when it differs from its default.
  std::optional<std::vector<std::string>> architectures;
  std::optional<DType> dtype;  // of the weights in the files
  bool output_hidden_states = false;
  bool output_attentions = false;
  bool return_dict = true;
  bool is_encoder_decoder = false;
  int64_t chunk_size_feed_forward = 0;
  LabelNames id2label;  // empty: LABEL_0 and LABEL_1
  LabelNumbers label2id;
  std::optional<std::string> problem_type;  // regression, single_label_classification, multi_label_classification

  // What EasyDeL adds; in config.json under EasyDeL's keys, and only when it differs from its default.
  ShardingSettings sharding;
  AttentionSettings attention;
  MemorySettings memory;
  MoeSettings moe;
  QuantizationSettings quantization;

  std::string name_or_path;  // where it was read from; never written

  int64_t head_size() const { return head_dim.value_or(num_attention_heads ? hidden_size / num_attention_heads : 0); }
  int64_t key_value_heads() const { return num_key_value_heads.value_or(num_attention_heads); }
  int64_t num_labels() const { return id2label.empty() ? 2 : static_cast<int64_t>(id2label.size()); }
  void set_num_labels(int64_t count);  // names them LABEL_0, LABEL_1, …

  virtual std::string_view model_type() const = 0;
  virtual std::string class_name() const = 0;  // "LlamaConfig"
  virtual std::unique_ptr<BaseConfig> clone() const = 0;

  virtual void fields(FieldVisitor& v) = 0;
  // Puts today's keys in the place of those that this family's older files have, in a whole config or in overrides.
  // What all families share (torch_dtype, rope_theta, aliases of fields) is done without it.
  virtual void rename_older_keys(Json& given, bool is_whole) const {}
  // Fills in what follows from other fields, as reading and writing do first.
  virtual void post_init() {}
  // ConfigError names the class and the key. A family's own calls this one first.
  virtual void validate() const;
  // Without fully_sharded, weights are split over tp and ep alone and whole on each rank of fsdp and sp.
  virtual PartitionRules get_partition_rules(bool fully_sharded = true) const;

  // The value of a field or of an unknown key; null when there is neither.
  Json get(std::string_view key) const;
  // Changes fields by their keys, in any spelling. All or nothing; the result is valid. ConfigError on an unknown key.
  void update(const Json& values);
  // The same for any key: one that is not a field is kept and written too.
  void attach_custom_arguments(const Json& values);
  std::vector<std::string> custom_arguments() const;  // the keys that are not fields
  std::vector<FieldValue> describe() const;           // the family's fields, then the common ones

  Json to_dict() const;
  std::string to_json_string() const;  // as transformers writes it
  void to_json_file(const std::filesystem::path& path) const;
  void save_pretrained(const std::filesystem::path& directory) const;  // as config.json; makes the directory

  Mesh create_mesh(int64_t device_count) const;
  Mesh mesh() const;  // what set_model_mesh was given, else one over all ranks
  void set_model_mesh(std::optional<Mesh> mesh) { model_mesh_ = std::move(mesh); }
  const std::optional<Mesh>& model_mesh() const { return model_mesh_; }  // what set_model_mesh was given

  // Tables as EasyDeL's models hold them; what is not given comes from the config.
  struct RopeOptions {
    std::optional<int64_t> head_size;
    std::optional<int64_t> rotary_dim;
    std::optional<double> base;
    std::optional<DType> dtype;  // of what get_basic_rope returns; the inputs' own
    bool is_neox_style = true;   // halves of a head turn together; false: neighbours do
  };
  using RopeFunction = std::function<std::pair<at::Tensor, at::Tensor>(const at::Tensor& q, const at::Tensor& k,
                                                                       const at::Tensor& positions)>;
  at::Tensor get_basic_inv_frequencies(const RopeOptions& options) const;  // [R / 2], R rotated dimensions
  at::Tensor get_basic_frequencies(const RopeOptions& options) const;      // [positions, R]: cosines, then sines
  RopeFunction get_basic_rope(const RopeOptions& options) const;
  at::Tensor get_basic_causal_mask(std::optional<int64_t> length = std::nullopt) const;  // [1, 1, L, L] bool
  // [batch, 1, length, length] bool for training; undefined when deterministic or when fcm_max_ratio is 0.
  at::Tensor get_fcm_mask(int64_t batch_size, int64_t sequence_length, bool deterministic, const RandomKey& key) const;

  // Same class, equal fields, equal other keys.
  friend bool operator==(const BaseConfig& a, const BaseConfig& b);

 protected:
  BaseConfig() = default;
  BaseConfig(const BaseConfig&) = default;
  BaseConfig(BaseConfig&&) = default;
  BaseConfig& operator=(const BaseConfig&) = default;
  BaseConfig& operator=(BaseConfig&&) = default;

  virtual std::unique_ptr<BaseConfig> make_default() const = 0;
  virtual void assign(BaseConfig&& other) = 0;  // of the same class

 private:
  friend struct ConfigJson;
  Json source_ = Json::object();  // what was read, in current spelling: the place of each key, and unknown keys
  std::optional<Mesh> model_mesh_;
};

}  // namespace easydel
