// As trl names and computes them; label_smoothing works on sigmoid too, as in EasyDeL and in conservative DPO.
#include "easydel/trainers/objectives/dpo_loss.h"

#include <ATen/ATen.h>

#include <cmath>
#include <map>

#include "easydel/core/error.h"

namespace easydel {
namespace {

struct Scaled {
  at::Tensor margin, chosen, rejected;        // beta times the scores' difference, and times the log-ratios
  at::Tensor chosen_scores, rejected_scores;  // what the divergence makes of the log-ratios
  const PairTerms& terms;
  double beta, smoothing, tau;
};

using Formula = at::Tensor (*)(const Scaled&);

at::Tensor sigmoid(const Scaled& s) {
  at::Tensor loss = -(1 - s.smoothing) * log_sigmoid(s.margin);
  return s.smoothing > 0 ? loss - s.smoothing * log_sigmoid(-s.margin) : loss;
}

at::Tensor hinge(const Scaled& s) { return at::relu(1 - s.margin); }

// Of means over the tokens of an answer, so that beta means the same for all lengths.
at::Tensor mean_margin(const Scaled& s) {
  return s.chosen_scores / s.terms.chosen_lengths.clamp_min(1) -
         s.rejected_scores / s.terms.rejected_lengths.clamp_min(1);
}

at::Tensor ipo(const Scaled& s) { return (mean_margin(s) - 1 / (2 * s.beta)).square(); }

at::Tensor sigmoid_norm(const Scaled& s) { return -log_sigmoid(s.beta * mean_margin(s)); }

// A blend of the logistic and the exponential loss.
at::Tensor discopop(const Scaled& s) {
  const at::Tensor share = at::sigmoid(s.margin / s.tau);
  return -log_sigmoid(s.margin) * (1 - share) + at::exp(-s.margin) * share;
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

double loss_weight(const DpoArguments& dpo, std::size_t i) { return dpo.loss_weights ? (*dpo.loss_weights)[i] : 1.0; }

// The derivative of the divergence's function at the ratio, less what cancels in a margin.
at::Tensor divergence_score(const at::Tensor& logratio, const DpoArguments& dpo) {
  if (dpo.f_divergence_type == "forward_kl") return 1 - at::exp(-logratio);
  if (dpo.f_divergence_type == "js_divergence") return std::log(2.0) + log_sigmoid(logratio);
  const double power = dpo.f_alpha_divergence_coef - 1;
  if (dpo.f_divergence_type == "reverse_kl" || std::abs(power) < 1e-6) return logratio;
  return (at::exp((power * logratio).clamp_max(80)) - 1) / power;
}

const std::map<std::string, Formula>& formulas() {
  static const std::map<std::string, Formula> all = {{"sigmoid", sigmoid},
                                                     {"hinge", hinge},
                                                     {"ipo", ipo},
                                                     {"exo_pair", exo_pair},
                                                     {"nca_pair", nca_pair},
                                                     {"robust", unbiased},
                                                     {"bco_pair", bco_pair},
                                                     {"sppo_hard", sppo_hard},
                                                     {"apo_zero", apo_zero},
                                                     {"apo_down", apo_down},
                                                     {"aot", aot},
                                                     {"aot_pair", aot_pair},
                                                     {"discopop", discopop},
                                                     {"aot_unpaired", aot_pair},
                                                     {"sigmoid_norm", sigmoid_norm}};
  return all;
}

}  // namespace

at::Tensor pair_loss(const PairTerms& terms, const DpoArguments& dpo) {
  const at::Tensor chosen = divergence_score(terms.chosen_logratios, dpo);
  const at::Tensor rejected = divergence_score(terms.rejected_logratios, dpo);
  const Scaled scaled{.margin = dpo.beta * (chosen - rejected),
                      .chosen = dpo.beta * terms.chosen_logratios,
                      .rejected = dpo.beta * terms.rejected_logratios,
                      .chosen_scores = chosen,
                      .rejected_scores = rejected,
                      .terms = terms,
                      .beta = dpo.beta,
                      .smoothing = dpo.label_smoothing,
                      .tau = dpo.discopop_tau};
  at::Tensor sum;
  const std::vector<std::string> types = dpo.loss_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "sft") continue;  // not a loss of pairs
    const auto formula = formulas().find(types[i]);
    require<ConfigError>(formula != formulas().end(), "[dpo] loss_type \"", types[i], "\" is unknown.");
    const at::Tensor loss = formula->second(scaled) * loss_weight(dpo, i);
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum.defined() ? sum : at::zeros_like(chosen);
}

double likelihood_weight(const DpoArguments& dpo) {
  double weight = dpo.rpo_alpha.value_or(0);
  const std::vector<std::string> types = dpo.loss_types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "sft") weight += loss_weight(dpo, i);
  }
  return weight;
}

}  // namespace easydel
