#include "easydel/layers/forward_context.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/layers/layer_scope.h"
#include "easydel/layers/window_in_mask.h"
#include "easydel/operations/dropout.h"

namespace easydel {
namespace {

thread_local const ForwardContext* current = nullptr;

}  // namespace

// [B, S]: the slot where each token's text begins: a document's first, or a row's first that is no padding.
at::Tensor first_slots(const MaskInfo& mask, const at::Tensor& slots_BS) {
  if (mask.q_segment_ids.defined()) {
    const at::Tensor& ids = mask.q_segment_ids;
    const int64_t tokens = ids.size(1);
    const at::Tensor begins = ids.narrow(1, 1, tokens - 1).ne(ids.narrow(1, 0, tokens - 1));
    const at::Tensor first = at::cat({begins.new_ones({ids.size(0), 1}), begins}, 1);
    return std::get<0>(slots_BS.masked_fill(first.logical_not(), 0).cummax(1));
  }
  if (!mask.padding_mask.defined()) return at::zeros_like(slots_BS);
  return mask.padding_mask.ne(0).cumsum(1).eq(0).sum(1, /*keepdim=*/true);
}

LayerScope::LayerScope(const ForwardContext& ctx) : before_(std::exchange(current, &ctx)) {}
LayerScope::~LayerScope() { current = before_; }

const ForwardContext* current_forward() { return current; }

const MaskInfo& ForwardContext::windowed_mask(int64_t layer_window) const {
  // Both windows apply, that of the layer and that of the call; 0 is no window.
  const int64_t given = mask.sliding_window;
  const int64_t window = given == kWindowInMask            ? 0
                         : given == 0 || layer_window == 0 ? given + layer_window
                                                           : std::min(given, layer_window);
  if (window == given) return mask;
  for (const auto& known : windowed_) {
    if (known->sliding_window == window) return *known;
  }
  windowed_.push_back(std::make_shared<MaskInfo>(mask));
  windowed_.back()->sliding_window = window;
  windowed_.back()->memory = MaskInfo::make_memory();
  return *windowed_.back();
}

const MaskInfo& ForwardContext::chunked_mask(int64_t chunk) const {
  const int64_t tokens = part.batch > 0 ? part.tokens : positions.size(1);
  if (tokens <= chunk) return mask;  // no text is longer than one
  for (const auto& [size, known] : chunked_) {
    if (size == chunk) return *known;
  }
  auto own = std::make_shared<MaskInfo>(windowed_mask(chunk));
  const at::Tensor slots =
      at::arange(tokens, positions.options()).unsqueeze(0).expand({positions.size(0), tokens}).contiguous();
  const at::Tensor chunks = (slots - first_slots(mask, slots).to(slots.device())).div(chunk, "floor");
  if (mask.q_segment_ids.defined()) {  // documents of chunks; padding stays negative
    const at::Tensor ids = mask.q_segment_ids.to(chunks.options());
    own->q_segment_ids = at::where(ids.lt(0), ids, ids * (tokens / chunk + 1) + chunks);
  } else {
    own->q_segment_ids = chunks;
  }
  own->memory = MaskInfo::make_memory();
  return *chunked_.emplace_back(chunk, std::move(own)).second;
}

at::Tensor ForwardContext::dropout(const at::Tensor& x, double p, std::string_view place, int64_t layer) const {
  if (p == 0 || !dropout_key) return x;
  const RandomKey key = dropout_key->fold(place).fold(static_cast<uint64_t>(layer));
  return drop(x, p, key, part);
}

at::Tensor drop(const at::Tensor& x, double p, RandomKey key, const BatchPart& part) {
  if (part.batch == 0) return operations::dropout(x, p, key);
  const Region region{{part.given_batch, part.given_tokens, x.size(2)}, {part.first_row, part.first_token, 0}};
  return operations::dropout(x, p, key, &region);
}

StackOutput run_layers(const std::vector<const DecoderLayer*>& layers, at::Tensor x_BTD,
                       const std::shared_ptr<const ForwardContext>& ctx) {
  const bool recompute = ctx->checkpoint.recomputes() && at::GradMode::is_enabled();
  StackOutput out;
  for (const DecoderLayer* layer : layers) {
    if (ctx->output_hidden_states) out.hidden_states.push_back(x_BTD);
    LayerOutput result;
    if (recompute) {
      // A checkpoint passes plain lists of tensors, without those that were not requested. What the layers share and
      // gradients flow back to (the encoder's states, a bias) is an input like x.
      const auto run = [layer, ctx](const operations::TensorList& inputs) {
        ForwardContext own = *ctx;
        std::size_t next = 1;
        if (ctx->encoder_hidden.defined()) own.encoder_hidden = inputs[next++];
        if (ctx->position_bias.defined()) own.position_bias = inputs[next++];
        const LayerScope scope(own);
        const LayerOutput r = (*layer)(inputs[0], own);
        operations::TensorList list{r.hidden};
        if (r.attention_weights.defined()) list.push_back(r.attention_weights);
        if (r.cross_weights.defined()) list.push_back(r.cross_weights);
        if (r.router_logits.defined()) list.push_back(r.router_logits);
        return list;
      };
      operations::TensorList inputs{x_BTD};
      if (ctx->encoder_hidden.defined()) inputs.push_back(ctx->encoder_hidden);
      if (ctx->position_bias.defined()) inputs.push_back(ctx->position_bias);
      const operations::TensorList list = operations::checkpoint(run, inputs, ctx->checkpoint);
      std::size_t next = 0;
      result.hidden = list[next++];
      if (ctx->output_attentions && next < list.size()) result.attention_weights = list[next++];
      if (ctx->output_attentions && ctx->encoder_hidden.defined() && next < list.size())
        result.cross_weights = list[next++];
      if (ctx->output_router_logits && next < list.size()) result.router_logits = list[next++];
    } else {
      const LayerScope scope(*ctx);
      result = (*layer)(x_BTD, *ctx);
    }
    x_BTD = result.hidden;
    if (result.attention_weights.defined()) out.attentions.push_back(result.attention_weights);
    if (result.cross_weights.defined()) out.cross_attentions.push_back(result.cross_weights);
    if (result.router_logits.defined()) out.router_logits.push_back(result.router_logits);
  }
  out.hidden = std::move(x_BTD);
  return out;
}

}  // namespace easydel
