// The routes of the service, by the file that answers them.
#pragma once

#include "easydel/serve/openai/service.h"

namespace easydel::serve {

void add_chat_routes(Service& service);        // /v1/chat/completions
void add_completion_routes(Service& service);  // /v1/completions
void add_model_routes(Service& service);       // /v1/models, adapters
void add_token_routes(Service& service);       // /tokenize, /detokenize
void add_status_routes(Service& service, bool with_pages);  // /health, /version, /metrics, /dashboard/data, pages

}  // namespace easydel::serve
