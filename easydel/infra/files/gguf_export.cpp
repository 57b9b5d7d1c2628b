#include "easydel/infra/files/gguf_export.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/text/quoted.h"
#include "easydel/infra/files/gguf_names.h"
#include "easydel/io/gguf/gguf_writer.h"
#include "easydel/tokenizers/files/gguf_vocabulary.h"

namespace easydel {
namespace {

// llama.cpp's names, with its numbers of general.file_type.
struct FileType {
  std::string_view name;
  uint32_t id;
  std::string_view matrix, important;  // types of most matrices, and of those that matter more
};
constexpr std::array<FileType, 7> kFileTypes{{{"F32", 0, "F32", "F32"},
                                              {"F16", 1, "F16", "F16"},
                                              {"BF16", 32, "BF16", "BF16"},
                                              {"Q8_0", 7, "Q8_0", "Q8_0"},
                                              {"Q4_0", 2, "Q4_0", "Q4_0"},
                                              {"Q4_K_M", 15, "Q4_K", "Q6_K"},
                                              {"Q6_K", 18, "Q6_K", "Q6_K"}}};

struct ExportedFamily {
  std::string_view model_type, architecture;
  bool pairs_rows;  // of q and k
  const GgufExperts* experts = nullptr;
};
constexpr std::array<ExportedFamily, 6> kExported{{{"llama", "llama", true},
                                                   {"mistral", "llama", true},
                                                   {"mixtral", "llama", true, &kMixtralExperts},
                                                   {"qwen2", "qwen2", false},
                                                   {"qwen3", "qwen3", false},
                                                   {"qwen3_moe", "qwen3moe", false, &kQwenExperts}}};

class Exporter {
 public:
  Exporter(const Json& config, const TensorSource& tensors, const FileType& type)
      : config_(config), tensors_(tensors), type_(type) {
    const std::string family = config.at("model_type").as_string();
    const auto found = std::find_if(kExported.begin(), kExported.end(),
                                    [&](const ExportedFamily& f) { return f.model_type == family; });
    std::string known;
    for (const ExportedFamily& f : kExported) known += concat(known.empty() ? "" : ", ", f.model_type);
    require<NotSupportedError>(found != kExported.end(), "[GGUF] the families that can be written are ", known,
                               "; got ", quoted(family), ".");
    family_ = &*found;
  }

  void write(const std::filesystem::path& tokenizer, const std::filesystem::path& path) {
    describe();
    add_gguf_vocabulary(writer_.metadata, tokenizer, tensors_.info("model.embed_tokens.weight").shape.at(0));
    for (const TensorInfo& info : tensors_.infos()) add(info);
    for (const auto& [name, experts] : experts_) add_experts(name, experts);
    writer_.write(path);
  }

 private:
  int64_t number(const char* key) const { return config_.at(key).as_int(); }
  int64_t number_or(const char* key, int64_t otherwise) const {
    const Json* found = config_.find(key);
    return found && !found->is_null() ? found->as_int() : otherwise;
  }
  void set(std::string_view key, int64_t value) {
    writer_.metadata.add(concat(family_->architecture, ".", key), static_cast<uint32_t>(value));
  }

  void describe() {
    GgufMetadata& metadata = writer_.metadata;
    metadata.add("general.architecture", family_->architecture);
    metadata.add("general.type", "model");
    metadata.add("general.file_type", type_.id);
    metadata.add("general.quantization_version", uint32_t{2});
    set("block_count", number("num_hidden_layers"));
    set("context_length", number("max_position_embeddings"));
    set("embedding_length", number("hidden_size"));
    set("feed_forward_length", number("intermediate_size"));
    set("attention.head_count", heads());
    set("attention.head_count_kv", kv_heads());
    set("attention.key_length", head_size());
    set("attention.value_length", head_size());
    set("rope.dimension_count", head_size());
    set("vocab_size", tensors_.info("model.embed_tokens.weight").shape.at(0));
    metadata.add(concat(family_->architecture, ".attention.layer_norm_rms_epsilon"),
                 static_cast<float>(config_.at("rms_norm_eps").as_double()));
    if (family_->experts) {
      set("expert_count", number(config_.contains("num_local_experts") ? "num_local_experts" : "num_experts"));
      set("expert_used_count", number("num_experts_per_tok"));
    }
    if (family_->experts == &kQwenExperts) describe_qwen_experts();
    describe_rope();
  }

  void describe_qwen_experts() {
    const Json* dense = config_.find("mlp_only_layers");
    const Json* normalizes = config_.find("norm_topk_prob");
    require<NotSupportedError>(number_or("decoder_sparse_step", 1) == 1 && (!dense || dense->size() == 0) &&
                                   normalizes && *normalizes == Json(true),
                               "[GGUF] llama.cpp has experts in all layers of qwen3moe, with weights that sum to one: ",
                               "decoder_sparse_step must be 1, mlp_only_layers empty and norm_topk_prob true.");
    set("expert_feed_forward_length", number("moe_intermediate_size"));
  }

  void describe_rope() {
    const Json* rope = config_.find("rope_parameters");
    if (!rope || rope->is_null()) rope = config_.find("rope_scaling");
    double theta = config_.find("rope_theta") ? config_.at("rope_theta").as_double() : 10000.0;
    std::string type = "default";
    if (rope && rope->is_object()) {
      if (const Json* given = rope->find("rope_theta")) theta = given->as_double();
      for (const char* key : {"rope_type", "type"}) {
        if (const Json* given = rope->find(key); given && given->is_string()) type = given->as_string();
      }
    }
    GgufMetadata& metadata = writer_.metadata;
    const std::string prefix(family_->architecture);
    metadata.add(prefix + ".rope.freq_base", static_cast<float>(theta));
    if (type == "default") return;
    if (type == "llama3") return add_divisors(*rope, theta);
    require<NotSupportedError>(type == "linear" || type == "yarn",
                               "[GGUF] rope_type must be default, linear, yarn or "
                               "llama3; got ",
                               quoted(type), ".");
    metadata.add(prefix + ".rope.scaling.type", type);
    metadata.add(prefix + ".rope.scaling.factor", static_cast<float>(rope->at("factor").as_double()));
    if (const Json* length = rope->find("original_max_position_embeddings"))
      set("rope.scaling.original_context_length", length->as_int());
  }

  // Llama 3.1's scaling, written out as a divisor for each frequency.
  void add_divisors(const Json& rope, double theta) {
    const double factor = rope.at("factor").as_double(), low = rope.at("low_freq_factor").as_double();
    const double high = rope.at("high_freq_factor").as_double();
    const double length = rope.at("original_max_position_embeddings").as_double();
    const int64_t half = head_size() / 2;
    const at::Tensor divisors = at::empty({half}, at::kFloat);
    for (int64_t i = 0; i < half; ++i) {
      const double wave = 2 * M_PI * std::pow(theta, static_cast<double>(2 * i) / static_cast<double>(head_size()));
      const double smooth = (length / wave - low) / (high - low);
      const double divisor = wave < length / high  ? 1.0
                             : wave > length / low ? factor
                                                   : 1 / ((1 - smooth) / factor + smooth);
      divisors.mutable_data_ptr<float>()[i] = static_cast<float>(divisor);
    }
    writer_.add_tensor("rope_freqs.weight", {half}, *find_ggml_type("F32"), [divisors] { return divisors; });
  }

  int64_t heads() const { return number("num_attention_heads"); }
  int64_t kv_heads() const { return number_or("num_key_value_heads", heads()); }
  int64_t head_size() const { return number_or("head_dim", number("hidden_size") / heads()); }

  // Half of the layers keep more of the values and of the second product, as llama.cpp's mixture does.
  bool is_important(std::string_view name, int64_t layer) const {
    if (name == "output.weight") return true;
    if (name == "token_embd.weight") return !tensors_.contains("lm_head.weight");
    if (name != "attn_v" && name != "ffn_down" && name != "ffn_down_exps") return false;
    const int64_t layers = number("num_hidden_layers"), eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
  }

  const GgmlType& type_of(const std::vector<int64_t>& shape, std::string_view name, int64_t layer) const {
    if (shape.size() < 2 || name == kGgufRouter) return *find_ggml_type("F32");
    const GgmlType* type = find_ggml_type(is_important(name, layer) ? type_.important : type_.matrix);
    if (shape.back() % type->block_elements == 0) return *type;
    return *find_ggml_type(shape.back() % 32 == 0 ? "Q8_0" : "F16");
  }

  void add(const TensorInfo& info) {
    for (const GgufName& name : kGgufOuterNames) {
      if (info.name != name.hugging_face) continue;
      return put(std::string(name.gguf), info.shape, type_of(info.shape, name.gguf, 0),
                 [this, info] { return tensors_.tensor(info.name); });
    }
    constexpr std::string_view kPrefix = "model.layers.";
    const std::size_t dot = info.name.find('.', kPrefix.size()), last = info.name.rfind('.');
    const bool in_layer = info.name.starts_with(kPrefix) && dot != std::string::npos && last > dot;
    const std::string layer = in_layer ? info.name.substr(kPrefix.size(), dot - kPrefix.size()) : "";
    const std::string module = in_layer ? info.name.substr(dot + 1, last - dot - 1) : "",
                      kind = in_layer ? info.name.substr(last) : "";
    for (const GgufName& name : kGgufLayerNames) {
      if (module != name.hugging_face) continue;
      const int64_t paired = !family_->pairs_rows    ? 0
                             : name.gguf == "attn_q" ? heads()
                             : name.gguf == "attn_k" ? kv_heads()
                                                     : 0;
      return put(concat("blk.", layer, ".", name.gguf, kind), info.shape,
                 type_of(info.shape, name.gguf, std::stoll(layer)), [this, info, paired] {
                   const at::Tensor tensor = tensors_.tensor(info.name);
                   if (paired == 0) return tensor;
                   // Hugging Face's halves of a head become neighbours.
                   return tensor.unflatten(0, {paired, 2, -1}).transpose(1, 2).flatten(0, 2).contiguous();
                 });
    }
    const GgufExperts* moe = family_->experts;
    if (moe && module == concat(moe->block, ".gate")) {
      return put(concat("blk.", layer, ".", kGgufRouter, kind), info.shape, type_of(info.shape, kGgufRouter, 0),
                 [this, info] { return tensors_.tensor(info.name); });
    }
    const std::string experts = moe ? concat(moe->block, ".experts.") : "";
    if (moe && module.starts_with(experts)) {
      const std::size_t end = module.find('.', experts.size());
      const int64_t expert = std::stoll(module.substr(experts.size(), end - experts.size()));
      for (const GgufName& name : moe->names) {
        if (module.substr(end + 1) != name.hugging_face) continue;
        experts_[concat("blk.", layer, ".", name.gguf, kind)][expert] = info.name;
        return;
      }
    }
    require<NotSupportedError>(info.name.ends_with(".rotary_emb.inv_freq"), "[GGUF] ", tensors_.where(), ": ",
                               quoted(info.name), " has no name in GGUF files of ", family_->architecture, ".");
  }

  void add_experts(const std::string& name, const std::map<int64_t, std::string>& parts) {
    std::vector<int64_t> shape = tensors_.info(parts.begin()->second).shape;
    shape.insert(shape.begin(), static_cast<int64_t>(parts.size()));
    const std::size_t first = name.find('.'), second = name.find('.', first + 1), last = name.rfind('.');
    put(name, shape, type_of(shape, name.substr(second + 1, last - second - 1), std::stoll(name.substr(first + 1))),
        [this, &parts, shape] {
          at::Tensor stack;
          for (const auto& [expert, file_name] : parts) {
            const at::Tensor one = tensors_.tensor(file_name);
            if (!stack.defined()) stack = at::empty(shape, one.options());
            stack.select(0, expert).copy_(one);
          }
          return stack;
        });
  }

  void put(std::string name, const std::vector<int64_t>& shape, const GgmlType& type,
           std::function<at::Tensor()> make) {
    writer_.add_tensor(std::move(name), shape, type, std::move(make));
  }

  const Json& config_;
  const TensorSource& tensors_;
  const FileType& type_;
  const ExportedFamily* family_ = nullptr;
  GgufWriter writer_;
  std::map<std::string, std::map<int64_t, std::string>> experts_;  // names in the files, by name and expert
};

}  // namespace

void export_gguf(const Json& config, const TensorSource& tensors, const std::filesystem::path& tokenizer,
                 const std::string& type, const std::filesystem::path& path) {
  const auto found =
      std::find_if(kFileTypes.begin(), kFileTypes.end(), [&](const FileType& known) { return known.name == type; });
  std::string names;
  for (const FileType& known : kFileTypes) names += concat(names.empty() ? "" : ", ", known.name);
  require<ConfigError>(found != kFileTypes.end(), "[GGUF] the type must be one of ", names, "; got ", quoted(type),
                       ".");
  Exporter(config, tensors, *found).write(tokenizer, path);
}

}  // namespace easydel
