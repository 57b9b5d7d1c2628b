// Models: the Auto classes that load any of them, every family, and what a family of your own derives from.
#pragma once

#include "easydel/caching/ragged_pages_cache.h"
#include "easydel/caching/transformer_cache.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/decoder/decoder.h"
#include "easydel/infra/files/model_io.h"
#include "easydel/infra/loss.h"
#include "easydel/infra/registry.h"
#include "easydel/models/models.h"
