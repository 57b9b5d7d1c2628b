#include "easydel/serve/openai/ids.h"

#include <chrono>
#include <random>

namespace easydel::serve {

std::string make_id(std::string_view prefix) {
  // An id names an answer in logs and is no secret; each thread draws from a generator of its own.
  thread_local std::mt19937_64 random{[] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }()};
  std::string id(prefix);
  for (int word = 0; word < 2; ++word) {
    uint64_t bits = random();
    for (int digit = 0; digit < 16; ++digit, bits >>= 4) id += "0123456789abcdef"[bits & 15];
  }
  return id;
}

int64_t unix_time() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Json usage_json(const Usage& usage) {
  return Json::object({{"prompt_tokens", usage.prompt_tokens},
                       {"completion_tokens", usage.completion_tokens},
                       {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                       {"prompt_tokens_details", Json::object({{"cached_tokens", usage.cached_tokens}})}});
}

}  // namespace easydel::serve
