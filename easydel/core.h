// Dtypes, errors, logging, JSON, random numbers that depend on no device, and what a rank knows about itself.
#pragma once

#include "easydel/core/dtype.h"
#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/core/log.h"
#include "easydel/core/random.h"
#include "easydel/core/runtime.h"
