// /v1/responses: an answer as a list of items, whole or as typed events, kept so that the next one can continue it.
#pragma once

#include "easydel/serve/openai/service.h"

namespace easydel::serve {

// POST /v1/responses, GET and DELETE /v1/responses/{id}, POST /v1/responses/{id}/cancel. The service keeps the last
// responses in memory, at most 1024 of them and 64 MiB.
void add_response_routes(Service& service);

}  // namespace easydel::serve
