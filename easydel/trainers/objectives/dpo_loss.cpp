// As trl names and computes them; label_smoothing works on sigmoid too, as in EasyDeL and in conservative DPO.
#include "easydel/trainers/objectives/dpo_loss.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "easydel/core/error.h"

namespace easydel {
namespace {

struct Scaled {
  at::Tensor margin, chosen, rejected;  // beta times the log-ratios and their difference
  const PairTerms& terms;
  double beta, smoothing;
};

using Formula = at::Tensor (*)(const Scaled&);

at::Tensor sigmoid(const Scaled& s) {
  at::Tensor loss = -(1 - s.smoothing) * log_sigmoid(s.margin);
  return s.smoothing > 0 ? loss - s.smoothing * log_sigmoid(-s.margin) : loss;
}

at::Tensor hinge(const Scaled& s) { return at::relu(1 - s.margin); }

// Means over the tokens of an answer, so that beta means the same for all lengths.
at::Tensor ipo(const Scaled& s) {
  const at::Tensor chosen = s.terms.chosen_logratios / s.terms.chosen_lengths.clamp_min(1);
  const at::Tensor rejected = s.terms.rejected_logratios / s.terms.rejected_lengths.clamp_min(1);
  return (chosen - rejected - 1 / (2 * s.beta)).square();
}

at::Tensor exo_pair(const Scaled& s) {
  const double epsilon = std::max(s.smoothing, 1e-3);  // at 0 the loss is infinite
  return at::sigmoid(s.margin) * (log_sigmoid(s.margin) - std::log1p(-epsilon)) +
         at::sigmoid(-s.margin) * (log_sigmoid(-s.margin) - std::log(epsilon));
}

at::Tensor nca_pair(const Scaled& s) {
  return -log_sigmoid(s.chosen) - 0.5 * log_sigmoid(-s.chosen) - 0.5 * log_sigmoid(-s.rejected);
}

at::Tensor unbiased(const Scaled& s) {
  return (-(1 - s.smoothing) * log_sigmoid(s.margin) + s.smoothing * log_sigmoid(-s.margin)) / (1 - 2 * s.smoothing);
}

at::Tensor bco_pair(const Scaled& s) { return -log_sigmoid(s.chosen) - log_sigmoid(-s.rejected); }

at::Tensor sppo_hard(const Scaled& s) {
  return (s.terms.chosen_logratios - 0.5 / s.beta).square() + (s.terms.rejected_logratios + 0.5 / s.beta).square();
}

// Optimal transport: the smallest of one distribution over the pairs that count meets the smallest of the other, and so
// on. What each place of the result is compared with depends on all pairs of the minibatch.
at::Tensor sorted_loss(const Scaled& s, const at::Tensor& larger, const at::Tensor& smaller) {
  const at::Tensor all = at::arange(larger.size(0), larger.options().dtype(at::kLong));
  const at::Tensor pairs = s.terms.counts.defined() ? all.masked_select(s.terms.counts.gt(0)) : all;
  const auto sorted = [&](const at::Tensor& x) { return std::get<0>(x.index_select(0, pairs).sort()); };
  const at::Tensor delta = s.beta * (sorted(larger) - sorted(smaller));
  const at::Tensor loss = -(1 - s.smoothing) * log_sigmoid(delta) - s.smoothing * log_sigmoid(-delta);
  return at::zeros_like(larger).index_copy(0, pairs, loss);
}

at::Tensor aot(const Scaled& s) {
  const at::Tensor& reference = s.terms.reference_margins;
  return sorted_loss(s, s.terms.chosen_logratios - s.terms.rejected_logratios + reference, reference);
}

at::Tensor aot_pair(const Scaled& s) { return sorted_loss(s, s.terms.chosen_logratios, s.terms.rejected_logratios); }

at::Tensor apo_zero(const Scaled& s) { return 1 - at::sigmoid(s.chosen) + at::sigmoid(s.rejected); }
at::Tensor apo_down(const Scaled& s) { return at::sigmoid(s.chosen) + 1 - at::sigmoid(s.margin); }

const std::map<std::string, Formula>& formulas() {
  static const std::map<std::string, Formula> all = {
      {"sigmoid", sigmoid},   {"hinge", hinge},       {"ipo", ipo},           {"exo_pair", exo_pair},
      {"nca_pair", nca_pair}, {"robust", unbiased},   {"bco_pair", bco_pair}, {"sppo_hard", sppo_hard},
      {"apo_zero", apo_zero}, {"apo_down", apo_down}, {"aot", aot},           {"aot_pair", aot_pair}};
  return all;
}

}  // namespace

at::Tensor pair_loss(const PairTerms& terms, const DpoArguments& dpo) {
  const auto formula = formulas().find(dpo.loss_type);
  require<ConfigError>(formula != formulas().end(), "[dpo] loss_type \"", dpo.loss_type, "\" is unknown.");
  return formula->second({.margin = dpo.beta * (terms.chosen_logratios - terms.rejected_logratios),
                          .chosen = dpo.beta * terms.chosen_logratios,
                          .rejected = dpo.beta * terms.rejected_logratios,
                          .terms = terms,
                          .beta = dpo.beta,
                          .smoothing = dpo.label_smoothing});
}

}  // namespace easydel
