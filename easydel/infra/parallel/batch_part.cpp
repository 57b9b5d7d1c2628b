#include "easydel/infra/parallel/batch_part.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

int64_t rounded_up(int64_t size, int64_t parts) { return (size + parts - 1) / parts * parts; }

at::Tensor filled_up(const at::Tensor& x, int64_t dim, int64_t size, const at::Scalar& value) {
  if (x.size(dim) == size) return x;
  std::vector<int64_t> shape = x.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = size - x.size(dim);
  return at::cat({x, at::full(shape, value, x.options())}, dim);
}

class Taker {
 public:
  Taker(const BatchPart& part, int64_t rows, int64_t tokens) : part_(part), rows_(rows), tokens_(tokens) {}

  // [B, ...]: own rows.
  at::Tensor rows(const at::Tensor& x, const at::Scalar& filler) const {
    if (!x.defined()) return x;
    return filled_up(x, 0, part_.batch, filler).narrow(0, part_.first_row, rows_);
  }
  // [B, S]: own rows, all tokens, and those of a cache.
  at::Tensor all_tokens(const at::Tensor& x, const at::Scalar& filler) const {
    if (!x.defined() || !part_.sequence_sharded) return rows(x, filler);
    return filled_up(rows(x, filler), 1, part_.tokens, filler);
  }
  // [B, T, ...]: own rows and tokens.
  at::Tensor tokens(const at::Tensor& x, const at::Scalar& filler) const {
    return x.defined() ? all_tokens(x, filler).narrow(1, part_.first_token, tokens_) : x;
  }

  MaskInfo mask(MaskInfo mask) const {
    const bool longer = part_.tokens != part_.given_tokens;
    if (longer && !mask.causal && !mask.padding_mask.defined() && !mask.explicit_mask.defined()) {
      mask.padding_mask = at::ones({part_.given_batch, part_.given_tokens}, at::kBool);
    }
    mask.padding_mask = all_tokens(mask.padding_mask, 0);
    mask.q_segment_ids = all_tokens(mask.q_segment_ids, -1);
    mask.kv_segment_ids = all_tokens(mask.kv_segment_ids, -1);
    mask.q_positions = all_tokens(mask.q_positions, 0);
    if (at::Tensor& m = mask.explicit_mask; m.defined()) {
      require<ShapeError>(m.dim() == 4, "[forward] on a mesh the mask must be [B, N, T, S]; got ", m.sizes(), ".");
      if (m.size(0) > 1) m = rows(m, false);
      if (longer) {  // one column may stand for all keys, but not for those that fill up
        m = m.expand({m.size(0), m.size(1), part_.given_tokens, part_.given_tokens});
        m = filled_up(filled_up(m, 2, part_.tokens, false), 3, part_.tokens, false);
      }
    }
    mask.memory = MaskInfo::make_memory();
    return mask;
  }

 private:
  const BatchPart& part_;
  int64_t rows_, tokens_;
};

}  // namespace

PreparedInputs take_part(PreparedInputs in, const Parallel& parallel, bool by_token) {
  // Ranks that share a sequence share its slots in the cache; each has all of the few new tokens. Ragged rows are not
  // dealt either.
  const bool cached = in.past_key_values != nullptr;
  require<NotSupportedError>(!cached || !in.targets.defined(),
                             "[forward] on a mesh labels do not go with a cache. Leave one of them out.");
  const DeviceMesh& mesh = parallel.mesh();
  const at::IntArrayRef shape = (in.input_ids.defined() ? in.input_ids : in.inputs_embeds).sizes();
  BatchPart part;
  part.given_batch = shape[0];
  part.given_tokens = shape[1];
  part.sequence_sharded = !cached;
  part.batch_sharded = !cached || !in.past_key_values->is_ragged();
  const int64_t row_parts = part.batch_sharded ? mesh.size(parallel.batch()) : 1;
  const int64_t token_parts = part.sequence_sharded ? mesh.size(parallel.sequence()) : 1;
  part.batch = rounded_up(shape[0], row_parts);
  part.tokens = rounded_up(shape[1], token_parts);
  const int64_t rows = part.batch / row_parts;
  const int64_t tokens = part.tokens / token_parts;
  part.first_row = part.batch_sharded ? rows * mesh.index(parallel.batch()) : 0;
  part.first_token = part.sequence_sharded ? tokens * mesh.index(parallel.sequence()) : 0;

  const Taker take(part, rows, tokens);
  in.all_position_ids = in.position_ids;
  in.input_ids = take.tokens(in.input_ids, 0);
  // Whoever made the embeddings has the gradient of all of them.
  if (in.inputs_embeds.defined())
    in.inputs_embeds = collectives::identity_forward_sum_backward(in.inputs_embeds, parallel.group(parallel.data()));
  in.inputs_embeds = take.tokens(in.inputs_embeds, 0);
  in.position_ids = take.tokens(in.position_ids, 0);
  in.token_type_ids = take.tokens(in.token_type_ids, 0);
  const int64_t ignored = in.loss_config.value_or(LossConfig()).ignore_index;
  in.last_tokens = take.rows(in.last_tokens, 0);
  in.targets = by_token ? take.tokens(in.targets, ignored) : take.rows(in.targets, 0);
  in.mask_info = take.mask(*in.mask_info);
  // What counts in the routers' balance.
  at::Tensor counted;
  if (in.attention_mask.defined() && in.attention_mask.dim() == 2) {
    counted = in.attention_mask.ne(0);
  } else if (in.segment_ids.defined()) {
    counted = in.segment_ids.ge(0);
  } else if (part.batch != part.given_batch || part.tokens != part.given_tokens) {
    counted = at::ones({shape[0], shape[1]}, at::TensorOptions(at::kBool).device(in.position_ids.device()));
  }
  in.token_mask = cached ? at::Tensor() : take.tokens(counted, false);
  in.attention_mask.reset();
  in.segment_ids.reset();
  in.part = part;
  return in;
}

at::Tensor gather_rows(const at::Tensor& x, const BatchPart& place, const Parallel& parallel) {
  if (!x.defined() || !place.batch_sharded) return x;
  const std::vector<int64_t> sizes(static_cast<std::size_t>(parallel.mesh().size(parallel.batch())), x.size(0));
  return collectives::gather(x, 0, sizes, parallel.group(parallel.batch())).narrow(0, 0, place.given_batch);
}

at::Tensor gather_tokens(const at::Tensor& x, const BatchPart& place, const Parallel& parallel) {
  if (!x.defined()) return x;
  if (!place.sequence_sharded) return gather_rows(x, place, parallel);
  const std::vector<int64_t> sizes(static_cast<std::size_t>(parallel.mesh().size(parallel.sequence())), x.size(1));
  const at::Tensor all = collectives::gather(x, 1, sizes, parallel.group(parallel.sequence()));
  return gather_rows(all.narrow(1, 0, std::min(all.size(1), place.given_tokens)), place, parallel);
}

ModelOutput gather_outputs(const BaseModule& model, ModelOutput out, const BatchPart& part, const ModelInputs& given) {
  const BaseConfig& config = model.config();
  const Parallel& mesh = *model.parallel();
  const bool has_labels = given.labels.defined();
  const bool wants_hidden = given.output_hidden_states.value_or(config.output_hidden_states);
  if (has_labels && !wants_hidden) out.last_hidden_state.reset();
  if (has_labels && !given.output_router_logits.value_or(false)) out.router_logits.clear();
  out.last_hidden_state = gather_tokens(out.last_hidden_state, part, mesh);
  for (at::Tensor& hidden : out.hidden_states) hidden = gather_tokens(hidden, part, mesh);
  if (out.logits.defined()) {
    out.logits = out.logits.dim() == 3 ? gather_tokens(out.logits, part, mesh) : gather_rows(out.logits, part, mesh);
  }
  for (at::Tensor& logits : out.router_logits) {
    const int64_t tokens = part.tokens / (part.sequence_sharded ? mesh.mesh().size(mesh.sequence()) : 1);
    logits = gather_tokens(logits.view({-1, tokens, logits.size(1)}), part, mesh).flatten(0, 1);
  }
  const HeadPart heads{{config.num_attention_heads, config.key_value_heads()},
                       {0, config.num_attention_heads},
                       {0, config.key_value_heads()}};
  const AxisNames& axes = mesh.axes(LogicalAxis::Head);
  std::vector<int64_t> counts;
  for (int64_t r = 0; r < mesh.mesh().size(axes); ++r)
    counts.push_back(heads.part(mesh.mesh().size(axes), r).query.size());
  for (at::Tensor& weights : out.attentions) {
    weights = gather_rows(collectives::gather(weights, 1, counts, mesh.group(axes)), part, mesh);
  }
  // A loss that is not reduced.
  const auto each = [&](const at::Tensor& loss) {
    if (!loss.defined() || loss.dim() == 0) return loss;
    if (model.model_task() != TaskType::SequenceClassification) return gather_tokens(loss, part, mesh);
    // The last ranks may have fewer rows than the others, or none.
    std::vector<int64_t> missing = loss.sizes().vec();
    missing[0] = part.batch / mesh.mesh().size(mesh.batch()) - loss.size(0);
    return gather_rows(missing[0] > 0 ? at::cat({loss, at::zeros(missing, loss.options())}) : loss, part, mesh);
  };
  out.loss = each(out.loss);
  if (out.loss.defined()) out.metrics.loss = out.loss.detach();
  out.metrics.z_loss = each(out.metrics.z_loss);
  return out;
}

}  // namespace easydel
