// Functions of tensors: attention, norms, rotary embeddings, experts, losses.
#pragma once

#include "easydel/operations/activation.h"
#include "easydel/operations/attention/attention.h"
#include "easydel/operations/attention/mask.h"
#include "easydel/operations/checkpoint.h"
#include "easydel/operations/dropout.h"
#include "easydel/operations/linear/linear.h"
#include "easydel/operations/loss/loss.h"
#include "easydel/operations/moe/moe.h"
#include "easydel/operations/norm.h"
#include "easydel/operations/rope.h"
