#include "easydel/operations/attention/attention.h"

#include <ATen/ATen.h>

#include <map>
#include <shared_mutex>

#include "easydel/core/error.h"
#include "easydel/operations/attention/cached.h"
#include "easydel/operations/attention/mechanisms.h"
#include "easydel/operations/checkpoint.h"

namespace easydel::operations {
namespace {

using at::Tensor;

AttentionOutput auto_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  if (options.return_weights) return vanilla_attention(q, k, v, options);
  // On CPU, blockwise is also faster than torch's kernel; elsewhere it does what torch's kernels do not support. A
  // checkpoint's first run has no gradients, and must choose what the second does.
  const bool learns_bias = options.bias.defined() && (options.bias.requires_grad() || inside_checkpoint());
  const bool is_plain = options.softcap == 0.0 && !options.sinks.defined() && options.dropout_p == 0.0 && !learns_bias;
  if (!q.is_cuda() || !is_plain) return blockwise_attention(q, k, v, options);
  const bool has_no_matrix =
      options.mask.is_plain_causal(q.size(1), k.size(1)) || options.mask.sees_everything(q.size(1), k.size(1));
  if (!has_no_matrix && flash_can(q, k, options)) return flash_attention(q, k, v, options);
  return sdpa_attention(q, k, v, options);
}

class Registry {
 public:
  void add(const std::string& name, AttentionFunction function) {
    const std::unique_lock lock(mutex_);
    require<ConfigError>(!name.empty(), "[register_attention] a mechanism needs a name; got an empty one.");
    require<ConfigError>(functions_.emplace(name, std::move(function)).second, "[register_attention] \"", name,
                         "\" is taken. Choose another name.");
  }

  AttentionFunction find(const std::string& name) const {
    const std::shared_lock lock(mutex_);
    const auto found = functions_.find(name);
    if (found != functions_.end()) return found->second;
    std::string known;
    std::vector<std::string> names;
    for (const auto& [each, function] : functions_) {
      known += (known.empty() ? "" : ", ") + each;
      names.push_back(each);
    }
    const std::string nearest = nearest_name(name, names);
    fail<ConfigError>("[attention] unknown mechanism \"", name, "\"; known: ", known, ".",
                      nearest.empty() ? "" : " Did you mean \"" + nearest + "\"?");
  }

  std::vector<std::string> names() const {
    const std::shared_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, function] : functions_) names.push_back(name);
    return names;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, AttentionFunction> functions_ = {
      {"auto", auto_attention},           {"vanilla", vanilla_attention},   {"sdpa", sdpa_attention},
      {"flash", flash_attention},         {"flash_attn2", flash_attention}, {"cudnn", cudnn_attention},
      {"blockwise", blockwise_attention}, {"ring", blockwise_attention},
  };
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                     int64_t queries, int64_t keys) {
  require<ShapeError>(q.dim() == 4 && k.dim() == 4 && v.dim() == 4,
                      "[attention] q, k and v must be [batch, tokens, heads, head size]; got ", q.sizes(), ", ",
                      k.sizes(), " and ", v.sizes(), ".");
  const int64_t heads = q.size(2), kv_heads = k.size(2);
  require<ShapeError>(
      k.size(0) == q.size(0) && v.size(0) == q.size(0) && k.size(1) == v.size(1) && v.size(2) == kv_heads &&
          k.size(3) == q.size(3) && kv_heads > 0 && heads % kv_heads == 0,
      "[attention] k and v must match q: the same batch, as many keys as values, the head size of q in k, and "
      "a number of heads that divides q's; got q ",
      q.sizes(), ", k ", k.sizes(), ", v ", v.sizes(), ".");
  require<ShapeError>(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(),
                      "[attention] q, k and v must have the same dtype; got ", dtype_name(q.scalar_type()), ", ",
                      dtype_name(k.scalar_type()), " and ", dtype_name(v.scalar_type()),
                      ". Set `dtype` to compute in one.");
  require<ShapeError>(q.device() == k.device() && q.device() == v.device(),
                      "[attention] q, k and v must be on the same device; got ", q.device(), ", ", k.device(), " and ",
                      v.device(), ".");
  options.mask.validate(q.size(0), queries, keys);
  require<ConfigError>(options.softcap >= 0.0, "[attention] softcap must not be negative; got ", options.softcap, ".");
  require<ConfigError>(options.dropout_p >= 0.0 && options.dropout_p < 1.0,
                       "[attention] dropout_p must be in [0, 1); got ", options.dropout_p, ".");
  require<ConfigError>(options.dropout_p == 0.0 || options.dropout_key,
                       "[attention] dropout needs a dropout_key; got none.");
  require<ConfigError>(options.blocksize_q > 0 && options.blocksize_k > 0,
                       "[attention] blocksize_q and blocksize_k must be positive; got ", options.blocksize_q, " and ",
                       options.blocksize_k, ".");
  if (options.sinks.defined()) {
    require<ShapeError>(options.sinks.dim() == 1 && options.sinks.size(0) == heads, "[attention] sinks must be [",
                        heads, "], one for each head; got ", options.sinks.sizes(), ".");
  }
  if (options.bias.defined()) {
    const Tensor& bias = options.bias;
    const int64_t sizes[] = {q.size(0), heads, queries, keys};
    bool fits = bias.dim() == 4;
    for (int64_t d = 0; fits && d < 4; ++d) fits = bias.size(d) == 1 || bias.size(d) == sizes[d];
    require<ShapeError>(fits, "[attention] bias must broadcast to ", at::IntArrayRef(sizes), "; got ", bias.sizes(),
                        ".");
  }
}

AttentionOutput attention(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const AttentionOptions& given) {
  const AttentionFunction function = registry().find(attention_stand_in(given.mechanism).value_or(given.mechanism));
  const auto cast = [&](const Tensor& t) { return given.dtype ? t.to(*given.dtype) : t; };
  const Tensor q = cast(q_in), k = cast(k_in), v = cast(v_in);
  check_attention(q, k, v, given, q.size(1), k.size(1));
  AttentionOptions options = given;
  options.scale = score_scale(given, q.size(3));
  AttentionOutput output = function(q, k, v, options);
  if (given.dtype) {
    output.out = output.out.to(q_in.scalar_type());
    if (output.weights.defined()) output.weights = output.weights.to(q_in.scalar_type());
  }
  return output;
}

void register_attention(const std::string& name, AttentionFunction function) {
  registry().add(name, std::move(function));
}

std::vector<std::string> attention_names() { return registry().names(); }

std::optional<std::string> attention_stand_in(const std::string& name) {
  static const std::map<std::string, std::string> stand_ins = {
      {"autoregressive_decodeattn", "auto"}, {"blocksparse", "blockwise"},
      {"cuda_flash_attn2", "auto"},          {"page_attention", "auto"},
      {"paged_attention", "auto"},           {"paged_flash_attention", "auto"},
      {"ragged_page_attention", "auto"},     {"ragged_page_attention_v2", "auto"},
      {"ragged_page_attention_v3", "auto"},  {"splash", "blockwise"},
      {"unified_attention", "auto"}};
  const auto found = stand_ins.find(name);
  return found == stand_ins.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace easydel::operations
