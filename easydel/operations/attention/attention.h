// Attention by name: one function with a registry of mechanisms.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "easydel/core/dtype.h"
#include "easydel/core/random.h"
#include "easydel/operations/attention/mask.h"

// Letters: B batch, T queries, S keys, N query heads, K key/value heads (N is a multiple of K), H head size of q and k,
// V head size of v.
namespace easydel::operations {

struct AttentionOptions {
  std::string mechanism = "auto";
  std::optional<double> scale;  // of the scores; 1 / sqrt(H) when absent
  MaskInfo mask;                // causal by default
  at::Tensor bias;              // added to the scaled scores, broadcasts to [B, N, T, S]; may need a gradient
  double softcap = 0.0;         // scores become softcap * tanh(scores / softcap); 0: no cap
  at::Tensor sinks;             // [N]: an extra score for each head in the softmax that adds nothing to the output
  double dropout_p = 0.0;       // on the weights; needs dropout_key, so that recomputation drops the same ones
  std::optional<RandomKey> dropout_key;
  std::optional<Region>
      dropout_region;           // the position of these weights in the full [B, N, T, S], if ranks share the work
  bool return_weights = false;  // supported by "vanilla", which "auto" then picks
  int64_t blocksize_q = 512;    // of "blockwise", at most: the CPU uses less if that is faster
  int64_t blocksize_k = 512;
  std::optional<DType> dtype;  // the type to compute in; the output has q's. The softmax is always float32 or better
};

struct AttentionOutput {
  at::Tensor out;      // [B, T, N, V]
  at::Tensor weights;  // [B, N, T, S] in q's type if requested, with dropout applied
};

// Built-in mechanisms:
//   auto       the fastest here that supports all options
//   vanilla    the reference: full matrices, softmax in float32 or better
//   sdpa       torch's choice among its kernels; no soft cap, sinks, dropout
//   flash      torch's flash kernels (also as flash_attn2), on CUDA in half precision; padding and packed documents
//              without a mask matrix
//   cudnn      cuDNN's kernels, on CUDA in half precision; causal and window masks
//   blockwise  memory linear in T and S, forward and backward; does everything but return weights
//   ring       ring attention if ranks share a sequence (layers/attention/ring_attention.h); else "blockwise"
// ConfigError: an unknown name (lists the known ones). ShapeError: mismatched tensors. NotSupportedError: an option
// that this mechanism does not support, with what to use instead.
AttentionOutput attention(const at::Tensor& q_BTNH, const at::Tensor& k_BSKH, const at::Tensor& v_BSKV,
                          const AttentionOptions& options = {});

// Called with checked tensors, scale set, and q, k, v in the type to compute in.
using AttentionFunction = std::function<AttentionOutput(const at::Tensor& q_BTNH, const at::Tensor& k_BSKH,
                                                        const at::Tensor& v_BSKV, const AttentionOptions& options)>;

// Adds a mechanism; ConfigError when the name is taken. Thread-safe.
void register_attention(const std::string& name, AttentionFunction function);
std::vector<std::string> attention_names();
// The mechanism that replaces one of EasyDeL's other names ("splash", "unified_attention", …), which attention()
// accepts too; nullopt for a name that is known here, or unknown.
std::optional<std::string> attention_stand_in(const std::string& name);

}  // namespace easydel::operations
