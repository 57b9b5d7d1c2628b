// Letters: B batch, T tokens of this rank, S all tokens, N query heads, K key/value heads, H and V head sizes.
#include "easydel/layers/attention/sequence_attention.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/layers/attention/ring_attention.h"
#include "easydel/sharding/collectives/collectives.h"

namespace easydel {
namespace {

using at::Tensor;
using operations::AttentionOptions;
using operations::AttentionOutput;

// Expands key/value heads to one per query head, if the groups are not equal.
Tensor match_heads(const Tensor& x_BSKH, const HeadPart& heads) {
  if (heads.is_even()) return x_BSKH;
  return x_BSKH.index_select(2, at::tensor(heads.kv_of_query(), at::kLong).to(x_BSKH.device()));
}

// The mask and the bias of this rank's heads.
AttentionOptions own_heads(AttentionOptions options, const HeadPart& heads) {
  if (options.bias.defined() && options.bias.size(1) > 1)
    options.bias = options.bias.narrow(1, heads.query.begin, heads.query.size());
  const Tensor& mask = options.mask.explicit_mask;
  if (!mask.defined() || mask.dim() != 4 || mask.size(1) == 1) return options;
  options.mask.explicit_mask = mask.narrow(1, heads.query.begin, heads.query.size());
  options.mask.memory = MaskInfo::make_memory();
  return options;
}

// The sinks of the heads that a member receives.
AttentionOptions sinks_of(AttentionOptions options, Interval wanted, Interval held) {
  if (options.sinks.defined())
    options.sinks = options.sinks.narrow(0, wanted.size() > 0 ? wanted.begin - held.begin : 0, wanted.size());
  return options;
}

AttentionOutput attend(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
                       const AttentionPlace& place, const HeadPart& heads, int64_t first_token) {
  if (q.size(2) == 0) {  // more ranks than heads; the sums keep this rank's graph the same as the others'
    Tensor nothing = q.sum() + k.sum() + v.sum();
    if (options.sinks.defined()) nothing = nothing + options.sinks.sum().to(q.scalar_type());
    if (options.bias.defined()) nothing = nothing + 0 * options.bias.sum().to(q.scalar_type());
    return {at::zeros({q.size(0), q.size(1), 0, v.size(3)}, q.options()) + nothing,
            options.return_weights ? at::zeros({q.size(0), 0, q.size(1), k.size(1)}, q.options()) : Tensor()};
  }
  options = own_heads(std::move(options), heads);
  if (options.dropout_p > 0) {
    options.dropout_region =
        Region{{place.part.given_batch, heads.all.query, place.part.given_tokens, place.part.given_tokens},
               {place.part.first_row, heads.query.begin, first_token, 0}};
  }
  return operations::attention(q, match_heads(k, heads), match_heads(v, heads), options);
}

// Exchanges all heads of some tokens for all tokens of some heads.
struct HeadExchange {
  const Group& group;
  HeadPart heads;
  std::vector<HeadPart> parts;  // each member's heads

  HeadExchange(const Group& group, const HeadPart& heads) : group(group), heads(heads) {
    for (int64_t r = 0; r < group.size(); ++r) parts.push_back(heads.part(group.size(), r));
  }
  const HeadPart& own() const { return parts[static_cast<std::size_t>(group.rank())]; }

  // q, k and v in one message: [B, T, heads of all, H] to [B, S, own heads, H].
  std::array<Tensor, 3> to_sequences(const Tensor& q, const Tensor& k, const Tensor& v) const {
    std::vector<Tensor> sent;
    std::vector<int64_t> in, out;
    const int64_t rows = q.size(0) * q.size(1), h = q.size(3), hv = v.size(3);
    const auto heads_of = [](const Tensor& x, Interval wanted, Interval held) {
      return x.narrow(2, wanted.size() > 0 ? wanted.begin - held.begin : 0, wanted.size()).reshape({-1});
    };
    for (const HeadPart& p : parts) {
      sent.push_back(heads_of(q, p.query, heads.query));
      sent.push_back(heads_of(k, p.kv, heads.kv));
      sent.push_back(heads_of(v, p.kv, heads.kv));
      in.push_back(rows * (p.query.size() * h + p.kv.size() * (h + hv)));
      out.push_back(rows * (own().query.size() * h + own().kv.size() * (h + hv)));
    }
    const Tensor received = collectives::all_to_all(at::cat(sent), in, out, group);
    std::array<std::vector<Tensor>, 3> pieces;
    int64_t at = 0;
    for (int64_t r = 0; r < group.size(); ++r) {
      const auto next = [&](int64_t count, int64_t size) {
        const Tensor piece = received.narrow(0, at, rows * count * size).view({q.size(0), q.size(1), count, size});
        at += piece.numel();
        return piece;
      };
      pieces[0].push_back(next(own().query.size(), h));
      pieces[1].push_back(next(own().kv.size(), h));
      pieces[2].push_back(next(own().kv.size(), hv));
    }
    return {at::cat(pieces[0], 1), at::cat(pieces[1], 1), at::cat(pieces[2], 1)};
  }

  // [B, S, own heads, V] to [B, T, heads of all, V].
  Tensor to_heads(const Tensor& x, int64_t tokens) const {
    std::vector<Tensor> sent, pieces;
    std::vector<int64_t> in, out;
    const int64_t rows = x.size(0) * tokens, v = x.size(3);
    for (int64_t r = 0; r < group.size(); ++r) {
      sent.push_back(x.narrow(1, r * tokens, tokens).reshape({-1}));
      in.push_back(sent.back().numel());
      out.push_back(rows * parts[static_cast<std::size_t>(r)].query.size() * v);
    }
    const Tensor received = collectives::all_to_all(at::cat(sent), in, out, group);
    int64_t at = 0;
    for (const HeadPart& p : parts) {
      pieces.push_back(received.narrow(0, at, rows * p.query.size() * v).view({x.size(0), tokens, p.query.size(), v}));
      at += pieces.back().numel();
    }
    return at::cat(pieces, 2);
  }
};

}  // namespace

AttentionOutput cached_attention(Cache& cache, int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const AttentionOptions& options, const HeadPart& heads) {
  if (q.size(2) == 0) return {at::zeros({q.size(0), q.size(1), 0, v.size(3)}, q.options()), {}};
  return cache.attend(layer, q, match_heads(k, heads), match_heads(v, heads), own_heads(options, heads));
}

AttentionOutput parallel_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                   const AttentionPlace& place) {
  const Group& group = place.parallel.group(place.parallel.sequence());
  if (group.size() == 1) return attend(q, k, v, options, place, place.heads, 0);
  require<NotSupportedError>(!options.return_weights,
                             "[attention] output_attentions is not supported with a sequence that is split over \"",
                             group.name(), "\". Use a mesh without it.");
  if (options.mechanism == "ring") {
    AttentionOptions ring = own_heads(options, place.heads);
    if (ring.dropout_p > 0) {
      ring.dropout_region =
          Region{{place.part.given_batch, place.heads.all.query, place.part.given_tokens, place.part.given_tokens},
                 {place.part.first_row, place.heads.query.begin, 0, 0}};
    }
    return {ring_attention(q, match_heads(k, place.heads), match_heads(v, place.heads), ring, group)};
  }
  const HeadExchange exchange(group, place.heads);
  const auto [q_all, k_all, v_all] = exchange.to_sequences(q, k, v);
  const AttentionOptions own = sinks_of(options, exchange.own().query, place.heads.query);
  const AttentionOutput attended = attend(q_all, k_all, v_all, own, place, exchange.own(), 0);
  return {exchange.to_heads(attended.out, q.size(1))};
}

}  // namespace easydel
