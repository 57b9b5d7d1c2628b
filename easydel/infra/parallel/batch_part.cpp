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
  Taker(BatchPart part, int64_t rows, int64_t tokens) : part_(part), rows_(rows), tokens_(tokens) {}

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
  BatchPart part_;
  int64_t rows_, tokens_;
};

// Images are rows, and their patches stay together.
BatchPart image_part(int64_t images, const Parallel& parallel) {
  const DeviceMesh& mesh = parallel.mesh();
  require<NotSupportedError>(mesh.size(parallel.sequence()) == 1,
                             "[forward] image patches cannot be split over the sequence axes; got ",
                             mesh.size(parallel.sequence()), " parts. Use dp, fsdp or tp.");
  const int64_t parts = mesh.size(parallel.batch());
  BatchPart part;
  part.given_batch = images;
  part.batch = rounded_up(images, parts);
  part.first_row = part.batch / parts * mesh.index(parallel.batch());
  part.sequence_sharded = false;
  return part;
}

// [B, T]: the tokens that count in the routers' balance; undefined when all do.
at::Tensor counted_tokens(const PreparedInputs& in, const BatchPart& part) {
  if (in.attention_mask.defined() && in.attention_mask.dim() == 2) return in.attention_mask.ne(0);
  if (in.segment_ids.defined()) return in.segment_ids.ge(0);
  if (part.batch == part.given_batch && part.tokens == part.given_tokens) return {};
  return at::ones({part.given_batch, part.given_tokens}, at::TensorOptions(at::kBool).device(in.position_ids.device()));
}

}  // namespace

PreparedInputs take_images(PreparedInputs in, const Parallel& parallel) {
  const BatchPart part = image_part(in.pixel_values.size(0), parallel);
  const Taker take(part, part.batch / parallel.mesh().size(parallel.batch()), 0);
  in.pixel_values = take.rows(in.pixel_values, 0);
  in.targets = take.rows(in.targets, 0);
  in.part = part;
  return in;
}

PreparedInputs take_part(PreparedInputs in, const Parallel& parallel, bool by_token) {
  // Ranks that share a sequence share its slots in the cache; each has all of the few new tokens. Ragged rows are not
  // split either.
  const bool cached = in.past_key_values != nullptr;
  require<NotSupportedError>(!cached || !in.targets.defined(),
                             "[forward] on a mesh labels are not supported with a cache. Leave one of them out.");
  const DeviceMesh& mesh = parallel.mesh();
  const at::Tensor& first = in.input_ids.defined()        ? in.input_ids
                            : in.inputs_embeds.defined()  ? in.inputs_embeds
                            : in.input_features.defined() ? in.position_ids  // of the tokens that they become
                                                          : in.encoder_outputs;
  // Whoever made embeddings or an encoder's states has the gradient of all of them.
  const auto shared = [&](at::Tensor& x) {
    if (x.defined()) x = collectives::identity_forward_sum_backward(x, parallel.group(parallel.data()));
  };
  const auto part_of = [&](at::IntArrayRef sizes) {
    BatchPart part;
    part.given_batch = sizes[0];
    part.given_tokens = sizes[1];
    part.sequence_sharded = !cached;
    part.batch_sharded = !cached || !in.past_key_values->is_ragged();
    const int64_t row_parts = part.batch_sharded ? mesh.size(parallel.batch()) : 1;
    const int64_t token_parts = part.sequence_sharded ? mesh.size(parallel.sequence()) : 1;
    part.batch = rounded_up(sizes[0], row_parts);
    part.tokens = rounded_up(sizes[1], token_parts);
    part.first_row = part.batch_sharded ? part.batch / row_parts * mesh.index(parallel.batch()) : 0;
    part.first_token = part.sequence_sharded ? part.tokens / token_parts * mesh.index(parallel.sequence()) : 0;
    const Taker take(part, part.batch / row_parts, part.tokens / token_parts);
    return std::make_pair(part, take);
  };
  const auto [part, take] = part_of(first.sizes());
  in.all_position_ids = in.position_ids;
  in.input_ids = take.tokens(in.input_ids, 0);
  shared(in.inputs_embeds);
  in.inputs_embeds = take.tokens(in.inputs_embeds, 0);
  shared(in.encoder_outputs);
  in.encoder_outputs = take.tokens(in.encoder_outputs, 0);
  in.input_features = take.rows(in.input_features, 0);  // a token needs the sound around it
  in.position_ids = take.tokens(in.position_ids, 0);
  in.token_type_ids = take.tokens(in.token_type_ids, 0);
  in.mm_token_type_ids = take.tokens(in.mm_token_type_ids, 0);
  if (in.pixel_values.defined() && !by_token) {  // two towers; else images go where their placeholders are
    const BatchPart images = image_part(in.pixel_values.size(0), parallel);
    const int64_t own = images.batch / mesh.size(parallel.batch());
    in.pixel_values = Taker(images, own, 0).rows(in.pixel_values, 0);
    in.decoder_part = images;
  }
  const int64_t ignored = in.loss_config.value_or(LossConfig()).ignore_index;
  in.last_tokens = take.rows(in.last_tokens, 0);
  const bool decodes = in.decoder_mask_info.has_value();
  if (!decodes || !by_token) in.targets = by_token ? take.tokens(in.targets, ignored) : take.rows(in.targets, 0);
  in.mask_info = take.mask(*in.mask_info);
  if (decodes) {
    in.cross_mask_info = take.mask(*in.cross_mask_info);
    const auto [decoder, take_decoder] =
        part_of((in.decoder_input_ids.defined() ? in.decoder_input_ids : in.decoder_inputs_embeds).sizes());
    in.decoder_input_ids = take_decoder.tokens(in.decoder_input_ids, 0);
    shared(in.decoder_inputs_embeds);
    in.decoder_inputs_embeds = take_decoder.tokens(in.decoder_inputs_embeds, 0);
    in.decoder_position_ids = take_decoder.tokens(in.decoder_position_ids, 0);
    if (by_token) in.targets = take_decoder.tokens(in.targets, ignored);
    in.decoder_mask_info = take_decoder.mask(*in.decoder_mask_info);
    in.decoder_part = decoder;
  }
  in.token_mask = cached ? at::Tensor() : take.tokens(counted_tokens(in, part), false);
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

namespace {

// The heads of a stack's attention weights on each rank: [B, heads, T, S] to those of all heads and rows.
void gather_weights(std::vector<at::Tensor>& weights, HeadCounts heads, const BatchPart& part, const Parallel& mesh) {
  const HeadPart all{heads, {0, heads.query}, {0, heads.kv}};
  const AxisNames& axes = mesh.axes(LogicalAxis::Head);
  std::vector<int64_t> counts;
  for (int64_t r = 0; r < mesh.mesh().size(axes); ++r)
    counts.push_back(all.part(mesh.mesh().size(axes), r).query.size());
  for (at::Tensor& each : weights)
    each = gather_rows(collectives::gather(each, 1, counts, mesh.group(axes)), part, mesh);
}

}  // namespace

ModelOutput gather_outputs(const BaseModule& model, ModelOutput out, const PreparedInputs& prepared,
                           const ModelInputs& given) {
  const BaseConfig& config = model.config();
  const Parallel& mesh = *model.parallel();
  const BatchPart& part = prepared.decoder_part ? *prepared.decoder_part : *prepared.part;
  const bool has_labels = given.labels.defined() || prepared.targets.defined();
  const bool wants_hidden = given.output_hidden_states.value_or(config.output_hidden_states);
  if (has_labels && !wants_hidden) {
    out.last_hidden_state.reset();
    out.encoder_last_hidden_state.reset();
  }
  if (has_labels && !given.output_router_logits.value_or(false)) out.router_logits.clear();
  out.last_hidden_state = gather_tokens(out.last_hidden_state, part, mesh);
  for (at::Tensor& hidden : out.hidden_states) hidden = gather_tokens(hidden, part, mesh);
  out.encoder_last_hidden_state = gather_tokens(out.encoder_last_hidden_state, *prepared.part, mesh);
  for (at::Tensor& hidden : out.encoder_hidden_states) hidden = gather_tokens(hidden, *prepared.part, mesh);
  if (model.model_task() != TaskType::ZeroShotImageClassification) {  // which compares those of all ranks
    out.image_embeds = gather_rows(out.image_embeds, part, mesh);
    out.text_embeds = gather_rows(out.text_embeds, part, mesh);
  }
  if (out.logits.defined()) {
    out.logits = out.logits.dim() == 3 ? gather_tokens(out.logits, part, mesh) : gather_rows(out.logits, part, mesh);
  }
  for (at::Tensor* rows : {&out.pooler_output, &out.start_logits, &out.end_logits})
    *rows = gather_rows(*rows, part, mesh);
  for (at::Tensor& logits : out.router_logits) {
    const int64_t tokens = part.tokens / (part.sequence_sharded ? mesh.mesh().size(mesh.sequence()) : 1);
    logits = gather_tokens(logits.view({-1, tokens, logits.size(1)}), part, mesh).flatten(0, 1);
  }
  HeadCounts heads{config.num_attention_heads, config.key_value_heads()};
  gather_weights(out.encoder_attentions, heads, *prepared.part, mesh);
  if (const Json own = config.get("decoder_attention_heads"); prepared.decoder_part && own.is_int())
    heads = {own.as_int(), own.as_int()};
  gather_weights(out.attentions, heads, part, mesh);
  gather_weights(out.cross_attentions, heads, part, mesh);
  // A loss that is not reduced.
  const auto each = [&](const at::Tensor& loss) {
    if (!loss.defined() || loss.dim() == 0) return loss;
    if (is_token_task(model.model_task())) return gather_tokens(loss, part, mesh);
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
