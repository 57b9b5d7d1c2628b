// The sections esurge and serve of a config, as the engine and the server take them.
#pragma once

#include "easydel/elarge/config/elarge_config.h"
#include "easydel/serve/server.h"

namespace easydel {

// Without a draft model, which has to be loaded.
serve::EngineOptions to_engine_options(const ELargeConfig& config);

// IoError when chat_template is no file that can be read.
serve::ServerOptions to_server_options(const ELargeConfig& config);

}  // namespace easydel
