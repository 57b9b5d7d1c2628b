// Serving a model: the engine, which runs many sequences at once, and the OpenAI-compatible server around it.
#pragma once

#include "easydel/serve/engine/engine.h"
#include "easydel/serve/grammar/grammar.h"
#include "easydel/serve/server.h"
