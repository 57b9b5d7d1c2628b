// /v1/embeddings, and /v1/score and /v1/rerank, which compare texts: by a classifier of pairs, or by their embeddings.
#pragma once

#include <string>
#include <vector>

#include "easydel/serve/openai/service.h"

namespace easydel::serve {

// Under /v1 and, for score and rerank, without it. A model that cannot do it answers 400.
void add_pooling_routes(Service& service);

// Bytes of the floats in order, the least significant first, as OpenAI's clients decode them.
std::string floats_base64(const std::vector<float>& values);

}  // namespace easydel::serve
