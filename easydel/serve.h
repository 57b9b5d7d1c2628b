// The engine: many sequences at once through one model, and answers that follow a grammar.
#pragma once

#include "easydel/serve/engine/engine.h"
#include "easydel/serve/engine/request.h"
#include "easydel/serve/grammar/grammar.h"
