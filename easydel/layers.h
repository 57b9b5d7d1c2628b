// The layers that models are made of, and the tree of named parameters that they form.
#pragma once

#include "easydel/layers/attention/attention.h"
#include "easydel/layers/embedding.h"
#include "easydel/layers/linear.h"
#include "easydel/layers/mlp.h"
#include "easydel/layers/module.h"
#include "easydel/layers/moe/moe.h"
#include "easydel/layers/norm.h"
