// Optimizers, gradient transformations and schedules, in optax's sense.
#pragma once

#include "easydel/optim/make_optimizer.h"
#include "easydel/optim/optimizers.h"
#include "easydel/optim/own_layout.h"
#include "easydel/optim/params_ema.h"
#include "easydel/optim/rules/transforms.h"
#include "easydel/optim/schedules.h"
#include "easydel/optim/state.h"
#include "easydel/optim/transformation.h"
#include "easydel/optim/wrappers.h"
