#include "easydel/optim/params_ema.h"

#include <ATen/ATen.h>

#include "easydel/core/error.h"
#include "easydel/optim/tree.h"

namespace easydel::optim {

ParamsEma::ParamsEma(const ParamsEmaOptions& options) : o_(options) { check_decay("ParamsEma", "decay", o_.decay); }

void ParamsEma::init(const TensorMap& params) {
  const at::NoGradGuard no_grad;
  average_ = {};
  for (const auto& [path, param] : params) {
    const bool averaged = at::isFloatingType(param.scalar_type());
    const at::ScalarType dtype = averaged ? o_.dtype.value_or(param.scalar_type()) : param.scalar_type();
    average_.set(path, param.detach().to(param.options().dtype(dtype), /*non_blocking=*/false, /*copy=*/true));
  }
}

void ParamsEma::update(const TensorMap& params) {
  const at::NoGradGuard no_grad;
  for (const auto& [path, average] : average_) {
    const at::Tensor* param = params.find(path);
    require<ConfigError>(param && param->sizes() == average.sizes(), "[ParamsEma] \"", path, "\" is averaged as ",
                         average.sizes(), "; got ", param ? concat("one of ", param->sizes()) : "none", ".");
    if (at::isFloatingType(average.scalar_type())) {
      average.lerp_(param->to(average.scalar_type()), 1 - o_.decay);
    } else {
      average.copy_(*param);
    }
  }
}

}  // namespace easydel::optim
