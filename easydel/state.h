// A model with its optimizer state and its step: what training saves and loads.
#pragma once

#include "easydel/infra/state/auto_state.h"
#include "easydel/infra/state/state.h"
