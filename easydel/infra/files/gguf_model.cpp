#include "easydel/infra/files/gguf_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/infra/files/gguf_names.h"
#include "easydel/io/read_view.h"

namespace easydel {
namespace {

// The family that it becomes, and the class of its language model.
struct GgufFamily {
  const char *model_type = nullptr, *class_name = nullptr;
};
struct Architecture {
  std::string_view name;
  bool pairs_rows;           // of q and k
  bool rotates_whole_heads;  // rope.dimension_count is the size of a head
  GgufFamily dense, sparse;  // without and with experts
  const GgufExperts* experts = nullptr;
};
constexpr std::array<Architecture, 4> kArchitectures{
    {{"llama", true, true, {"llama", "LlamaForCausalLM"}, {"mixtral", "MixtralForCausalLM"}, &kMixtralExperts},
     {"qwen2", false, false, {"qwen2", "Qwen2ForCausalLM"}, {}},
     {"qwen3", false, false, {"qwen3", "Qwen3ForCausalLM"}, {}},
     {"qwen3moe", false, false, {}, {"qwen3_moe", "Qwen3MoeForCausalLM"}, &kQwenExperts}}};

class Metadata {
 public:
  explicit Metadata(const GgufFile& file) : file_(file) {
    const GgufValue* given = file.container().find("general.architecture");
    require<FormatError>(given, "[GGUF] ", file.where(), " has no general.architecture.");
    const std::string_view name = given->as_string();
    const auto known = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                    [&](const Architecture& a) { return a.name == name; });
    if (known == kArchitectures.end()) {
      std::string all;
      for (const Architecture& each : kArchitectures) all += concat(all.empty() ? "" : ", ", each.name);
      fail<NotSupportedError>("[GGUF] ", file.where(), ": general.architecture must be one of ", all, "; got ",
                              quoted(name), ".");
    }
    architecture = &*known;
  }

  const GgufValue* find(std::string_view key) const {  // without the architecture's prefix
    return file_.container().find(concat(architecture->name, ".", key));
  }
  int64_t count(std::string_view key) const {
    const GgufValue* value = find(key);
    require<FormatError>(value, "[GGUF] ", file_.where(), " has no ", architecture->name, ".", key, ".");
    const int64_t number = value->as_int();
    require<FormatError>(number >= 1 && number <= std::numeric_limits<int32_t>::max(), "[GGUF] ", file_.where(), ": ",
                         architecture->name, ".", key, " must be from 1 to 2147483647; got ", number, ".");
    return number;
  }
  int64_t count_or(std::string_view key, int64_t otherwise) const { return find(key) ? count(key) : otherwise; }
  int64_t experts() const {
    return find("expert_count") && find("expert_count")->as_int() > 0 ? count("expert_count") : 0;
  }
  int64_t heads() const { return count("attention.head_count"); }
  int64_t kv_heads() const { return count_or("attention.head_count_kv", heads()); }

  const Architecture* architecture = nullptr;

 private:
  const GgufFile& file_;
};

void set_head_size(Json& config, const Metadata& metadata) {
  if (metadata.find("attention.key_length")) {
    config["head_dim"] = metadata.count("attention.key_length");
    require<NotSupportedError>(
        metadata.count_or("attention.value_length", config["head_dim"].as_int()) == config["head_dim"].as_int(),
        "[GGUF] attention.value_length must be attention.key_length; got ", metadata.count("attention.value_length"),
        " and ", config["head_dim"].as_int(), ".");
  } else if (metadata.architecture->rotates_whole_heads && metadata.find("rope.dimension_count")) {
    config["head_dim"] = metadata.count("rope.dimension_count");
  }
}

Json rope_parameters(const GgufFile& file, const Metadata& metadata, int64_t length) {
  Json rope = Json::object({{"rope_type", "default"}});
  rope["rope_theta"] = metadata.find("rope.freq_base") ? metadata.find("rope.freq_base")->as_double() : 10000.0;
  const GgufValue* scaling = metadata.find("rope.scaling.type");
  const std::string type(scaling ? scaling->as_string() : "none");
  require<NotSupportedError>(type == "none" || type == "linear" || type == "yarn", "[GGUF] ", file.where(),
                             ": rope.scaling.type must be none, linear or yarn; got ", quoted(type), ".");
  if (type != "none") {
    rope["rope_type"] = type;
    rope["factor"] = metadata.find("rope.scaling.factor") ? metadata.find("rope.scaling.factor")->as_double() : 1.0;
    rope["original_max_position_embeddings"] = metadata.count_or("rope.scaling.original_context_length", length);
  }
  // Llama 3.1's scaling is written out: a divisor for each frequency.
  if (const TensorInfo* info = file.find("rope_freqs.weight")) {
    require<FormatError>(type == "none" && info->shape.size() == 1, "[GGUF] ", file.where(),
                         ": rope_freqs.weight must be a list, and without rope.scaling.type.");
    const at::Tensor divisors = file.tensor("rope_freqs.weight").to(at::kDouble).contiguous();
    Json factors = Json::array();
    for (int64_t i = 0; i < divisors.numel(); ++i) factors.push_back(divisors.const_data_ptr<double>()[i]);
    rope["rope_type"] = "longrope";
    rope["short_factor"] = factors;
    rope["long_factor"] = factors;
    rope["attention_factor"] = 1.0;
    rope["original_max_position_embeddings"] = length;
  }
  return rope;
}

// "attn_q" in a block to "self_attn.q_proj"; empty: none of them.
template <std::size_t N>
std::string_view hugging_face_name(const std::array<GgufName, N>& names, std::string_view name) {
  const auto found = std::find_if(names.begin(), names.end(), [&](const GgufName& n) { return n.gguf == name; });
  return found == names.end() ? std::string_view() : found->hugging_face;
}

// The order in which rows of a file make up rows of Hugging Face's matrix.
at::Tensor unpaired_rows(int64_t rows, int64_t heads) {
  return at::arange(rows, at::kLong).view({heads, rows / heads / 2, 2}).transpose(1, 2).reshape({-1});
}

// Matrices, and stacks of experts', whose codes stay: Q4_0 as int4 has them, others block by block.
bool is_matrix(const TensorInfo& info) {
  return info.shape.size() == 2 || (info.shape.size() == 3 && info.name.ends_with("_exps.weight"));
}
bool is_int4(const TensorInfo& info) { return info.stored_as == "Q4_0" && is_matrix(info); }
bool is_blocks(const TensorInfo& info) {
  return is_matrix(info) &&
         (info.stored_as == "Q8_0" || info.stored_as == "Q4_K" || info.stored_as == "Q5_K" || info.stored_as == "Q6_K");
}

// What the gates of a layer's experts are stacked with, where both have one type; null: they become floats.
const TensorInfo* up_of(const GgufFile& file, const TensorInfo& gate) {
  constexpr std::string_view kGate = "ffn_gate_exps", kUp = "ffn_up_exps";
  std::string name = gate.name;
  const TensorInfo* up = file.find(name.replace(name.find(kGate), kGate.size(), kUp));
  return up && up->stored_as == gate.stored_as && up->shape == gate.shape ? up : nullptr;
}
const TensorInfo* gate_of(const GgufFile& file, const TensorInfo& up) {
  constexpr std::string_view kGate = "ffn_gate_exps", kUp = "ffn_up_exps";
  std::string name = up.name;
  const TensorInfo* gate = file.find(name.replace(name.find(kUp), kUp.size(), kGate));
  return gate && up_of(file, *gate) == &up ? gate : nullptr;
}

constexpr int64_t kBlock = 32;  // weights of a block of Q4_0: a float16 scale, and 16 bytes of codes

}  // namespace

Json gguf_config(const GgufFile& file) {
  const Metadata metadata(file);
  const int64_t length = metadata.count("context_length");
  const int64_t experts = metadata.experts();
  const GgufFamily& family = experts > 0 ? metadata.architecture->sparse : metadata.architecture->dense;
  require<NotSupportedError>(family.model_type, "[GGUF] ", file.where(), ": ", metadata.architecture->name, " with ",
                             experts, " experts is not supported.");
  Json config = Json::object({{"model_type", family.model_type}});
  const int64_t blocks = metadata.count("block_count");
  require<FormatError>(blocks <= static_cast<int64_t>(file.infos().size()), "[GGUF] ", file.where(), ": ",
                       metadata.architecture->name, ".block_count is ", blocks, ", but there are ", file.infos().size(),
                       " tensors in all.");
  config["num_hidden_layers"] = blocks;
  config["hidden_size"] = metadata.count("embedding_length");
  config["intermediate_size"] = metadata.count("feed_forward_length");
  config["num_attention_heads"] = metadata.heads();
  config["num_key_value_heads"] = metadata.kv_heads();
  config["max_position_embeddings"] = length;
  const GgufValue* eps = metadata.find("attention.layer_norm_rms_epsilon");
  require<FormatError>(eps, "[GGUF] ", file.where(), " has no ", metadata.architecture->name,
                       ".attention.layer_norm_rms_epsilon.");
  config["rms_norm_eps"] = eps->as_double();
  set_head_size(config, metadata);
  if (experts > 0) {
    config["num_local_experts"] = experts;
    config["num_experts_per_tok"] = metadata.count("expert_used_count");
  }
  if (metadata.architecture->experts == &kQwenExperts) {
    config["moe_intermediate_size"] = metadata.count("expert_feed_forward_length");
    config["norm_topk_prob"] = true;  // as llama.cpp computes it
  }
  config["rope_parameters"] = rope_parameters(file, metadata, length);
  // The table has as many rows as there are tokens; vocab_size is not always written.
  const TensorInfo& table = file.info("token_embd.weight");
  require<FormatError>(table.shape.size() == 2, "[GGUF] ", file.where(), ": token_embd.weight must be a matrix; got ",
                       table.shape.size(), " dimensions.");
  config["vocab_size"] = table.shape[0];
  config["tie_word_embeddings"] = !file.contains("output.weight");
  for (const char* name : {"bos", "eos"}) {
    if (const GgufValue* id = file.container().find(concat("tokenizer.ggml.", name, "_token_id")))
      config[concat(name, "_token_id")] = id->as_int();
  }
  const auto any = [&](bool (*is)(const TensorInfo&)) {
    return std::any_of(file.infos().begin(), file.infos().end(), is);
  };
  if (any(is_blocks)) {
    config["quantization_config"] = Json::object({{"quant_method", "easydel"}, {"method", "gguf"}});
  } else if (any(is_int4)) {
    config["quantization_config"] =
        Json::object({{"quant_method", "easydel"}, {"method", "int4"}, {"group_size", kBlock}});
  }
  config["architectures"] = Json::array({family.class_name});
  return config;
}

std::shared_ptr<const GgufModel> GgufModel::open(const std::filesystem::path& path, bool keeps_codes) {
  const auto file = GgufFile::open(path);
  return std::shared_ptr<const GgufModel>(new GgufModel(file, rename(*file, keeps_codes)));
}

GgufModel::GgufModel(std::shared_ptr<const GgufFile> file, Contents contents)
    : TensorSource(file->where(), std::move(contents.infos)),
      file_(std::move(file)),
      places_(std::move(contents.places)) {}

GgufModel::Contents GgufModel::rename(const GgufFile& file, bool keeps_codes) {
  const Metadata metadata(file);
  Contents out;
  const auto add = [&](const TensorInfo& info, std::string name, Place place) {
    TensorInfo renamed = info;
    renamed.name = std::move(name);
    if (place.expert) {
      renamed.shape.erase(renamed.shape.begin());
      renamed.nbytes /= info.shape[0];
    }
    if (place.heads > 0)
      require<FormatError>(info.shape[0] % (2 * place.heads) == 0, "[GGUF] ", file.where(), ": \"", info.name,
                           "\" must have an even number of rows for each of ", place.heads, " heads; got ",
                           info.shape[0], ".");
    if (place.beside) renamed.shape[1] *= 2;
    if (keeps_codes && !place.expert && is_blocks(info)) {
      const GgmlType& type = *find_ggml_type(info.stored_as);
      renamed.dtype = uint8;
      renamed.shape.back() /= type.block_elements;
      renamed.shape.push_back(type.block_bytes);
      renamed.nbytes = renamed.numel();
      place.kind = Kind::Blocks;
    } else if (keeps_codes && !place.expert && is_int4(info)) {
      TensorInfo scales = renamed;
      scales.name += ".scales";
      scales.dtype = float16;
      scales.shape.back() /= kBlock;
      scales.nbytes = 2 * scales.numel();
      renamed.dtype = uint8;
      renamed.shape.back() /= 2;
      renamed.nbytes = renamed.numel();
      place.kind = Kind::Codes;
      out.infos.push_back(std::move(renamed));
      out.places.push_back(place);
      place.kind = Kind::Scales;
      renamed = std::move(scales);
    }
    out.infos.push_back(std::move(renamed));
    out.places.push_back(std::move(place));
  };
  for (const TensorInfo& info : file.infos()) {
    if (info.name == "rope_freqs.weight") continue;  // in the config
    if (const std::string_view name = hugging_face_name(kGgufOuterNames, info.name); !name.empty()) {
      add(info, std::string(name), {info.name});
      continue;
    }
    // blk.<layer>.<name>.weight
    const std::size_t first = info.name.find('.'), second = info.name.find('.', first + 1), last = info.name.rfind('.');
    const bool in_block = info.name.starts_with("blk.") && second != std::string::npos && last > second;
    const std::string name = in_block ? info.name.substr(second + 1, last - second - 1) : "";
    const std::string layer = in_block ? info.name.substr(first + 1, second - first - 1) : "";
    const std::string end = in_block ? info.name.substr(last) : "";
    const GgufExperts* moe = metadata.architecture->experts;
    if (const std::string_view expert = moe ? hugging_face_name(moe->names, name) : std::string_view();
        !expert.empty() && info.shape.size() == 3) {
      const std::string experts = concat("model.layers.", layer, ".", moe->block, ".experts.");
      const bool keeps = keeps_codes && (is_blocks(info) || is_int4(info));
      if (keeps && name == "ffn_down_exps") {
        add(info, experts + "down_proj", {info.name});
      } else if (const TensorInfo* up = keeps && name == "ffn_gate_exps" ? up_of(file, info) : nullptr) {
        add(info, experts + "gate_up_proj", {.name = info.name, .beside = up->name});
      } else if (!keeps || name != "ffn_up_exps" || !gate_of(file, info)) {
        for (int64_t e = 0; e < info.shape[0]; ++e) add(info, concat(experts, e, ".", expert, end), {info.name, e});
      }
    } else if (moe && name == kGgufRouter) {
      add(info, concat("model.layers.", layer, ".", moe->block, ".gate", end), {info.name});
    } else if (const std::string_view known = hugging_face_name(kGgufLayerNames, name); !known.empty()) {
      const bool pairs = metadata.architecture->pairs_rows && !info.shape.empty();
      const int64_t heads = !pairs             ? 0
                            : name == "attn_q" ? metadata.heads()
                            : name == "attn_k" ? metadata.kv_heads()
                                               : 0;
      add(info, concat("model.layers.", layer, ".", known, end), {info.name, {}, heads});
    } else {
      add(info, info.name, {info.name});  // for the loader to say that nobody wants it
    }
  }
  return out;
}

at::Tensor GgufModel::blocks(const TensorInfo& stored) const {
  const GgmlType& type = *find_ggml_type(stored.stored_as);
  std::vector<int64_t> shape = stored.shape;
  shape.back() /= type.block_elements;
  shape.push_back(type.block_bytes);
  return at::from_blob(
      const_cast<std::byte*>(file_->map()->bytes().data() + stored.offset), shape, [file = file_](void*) {}, at::kByte);
}

at::Tensor GgufModel::part_of(const at::Tensor& blocks, Kind kind) {
  return kind == Kind::Blocks   ? blocks
         : kind == Kind::Scales ? blocks.narrow(-1, 0, 2).contiguous().view(at::kHalf).squeeze(-1)
                                : blocks.narrow(-1, 2, kBlock / 2).flatten(-2);
}

// Read past the map of the file, whose pages would stay in memory.
at::Tensor GgufModel::stacked(const TensorInfo& info, const Place& place) const {
  std::vector<at::Tensor> halves{blocks(file_->info(place.name))};
  if (place.beside) halves.push_back(blocks(file_->info(*place.beside)));
  const int64_t rows = halves[0].size(1);
  const at::Tensor all = at::empty(info.shape, info.dtype);
  for (int64_t e = 0; e < all.size(0); ++e) {
    for (std::size_t h = 0; h < halves.size(); ++h) {
      const at::Tensor from = halves[h].select(0, e);
      const at::Tensor into = all.select(0, e).narrow(0, static_cast<int64_t>(h) * rows, rows);
      const at::Tensor own = place.kind == Kind::Blocks ? into : at::empty(from.sizes(), from.options());
      read_view(*file_->map(), from, own);
      if (place.kind != Kind::Blocks) into.copy_(part_of(own, place.kind));
    }
  }
  return all;
}

at::Tensor GgufModel::load(const TensorInfo& info) const {
  const Place& place = places_[static_cast<std::size_t>(&info - infos().data())];
  if (place.expert) {
    std::vector<int64_t> starts(info.shape.size() + 1, 0), sizes{1};
    starts[0] = *place.expert;
    sizes.insert(sizes.end(), info.shape.begin(), info.shape.end());
    return file_->slice(place.name, starts, sizes).squeeze(0);
  }
  if (place.kind == Kind::Values) {
    const at::Tensor values = file_->tensor(place.name);
    return place.heads > 0 ? values.index_select(0, unpaired_rows(values.size(0), place.heads)) : values;
  }
  const at::Tensor view = blocks(file_->info(place.name));
  if (place.beside || (view.dim() == 4 && place.kind != Kind::Blocks)) return stacked(info, place);
  const at::Tensor tensor = part_of(view, place.kind);
  return place.heads > 0 ? tensor.index_select(0, unpaired_rows(tensor.size(0), place.heads)) : tensor;
}

}  // namespace easydel
