// Configs of models, from config.json and to it, and what one of your own derives from.
#pragma once

#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/config/base_config.h"
#include "easydel/infra/config/config.h"
#include "easydel/infra/config/config_check.h"
#include "easydel/infra/config/loss_config.h"
#include "easydel/infra/task_type.h"
