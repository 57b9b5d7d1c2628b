#include "easydel/serve/client/load_plan.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel::serve {
namespace {

using LoadGenerator = std::mt19937_64;

int64_t load_below(LoadGenerator& generator, int64_t limit) {
  return std::uniform_int_distribution<int64_t>(0, limit - 1)(generator);
}

int64_t load_length(LoadGenerator& generator, int64_t length, double ratio) {
  const auto middle = static_cast<double>(length);
  const auto low = std::max<int64_t>(1, static_cast<int64_t>(std::floor(middle * (1 - ratio))));
  const auto high = std::max(low, static_cast<int64_t>(std::ceil(middle * (1 + ratio))));
  return low + load_below(generator, high - low + 1);
}

LoadRequest load_request_of(const Json& line, int64_t output_len) {
  LoadRequest request;
  request.max_tokens = output_len;
  if (const Json* messages = line.find("messages")) {
    require<FormatError>(messages->is_array() && messages->size() > 0, "\"messages\" must be a list of messages.");
    request.messages = *messages;
  } else {
    const Json& prompt = line.at("prompt");
    if (prompt.is_array()) {
      for (const Json& id : prompt.as_array()) request.ids.push_back(static_cast<int32_t>(id.as_int()));
    } else {
      request.text = prompt.as_string();
    }
    require<FormatError>(!request.ids.empty() || !request.text.empty(), "\"prompt\" must not be empty.");
  }
  request.prompt_tokens = static_cast<int64_t>(request.ids.size());
  for (const char* key : {"output_tokens", "max_tokens"}) {
    if (const Json* limit = line.find(key)) request.max_tokens = limit->as_int();
  }
  require<FormatError>(request.max_tokens > 0, "the length of an answer must be positive; got ", request.max_tokens,
                       ".");
  return request;
}

}  // namespace

std::vector<LoadRequest> random_requests(const RandomPrompts& how) {
  require<ConfigError>(how.vocab_size > 0, "[random_requests] vocab_size must be positive; got ", how.vocab_size, ".");
  require<ConfigError>(how.range_ratio >= 0 && how.range_ratio < 1,
                       "[random_requests] range_ratio must be at least 0 and below 1; got ", how.range_ratio, ".");
  LoadGenerator generator(how.seed);
  const auto draw = [&](std::vector<int32_t>& ids, int64_t count) {
    for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(load_below(generator, how.vocab_size)));
  };
  std::vector<int32_t> prefix;
  draw(prefix, how.prefix_len);
  std::vector<LoadRequest> requests(static_cast<std::size_t>(how.count));
  for (LoadRequest& request : requests) {
    request.ids = prefix;
    draw(request.ids, load_length(generator, how.input_len, how.range_ratio));
    request.prompt_tokens = static_cast<int64_t>(request.ids.size());
    request.max_tokens = load_length(generator, how.output_len, how.range_ratio);
  }
  return requests;
}

std::vector<LoadRequest> file_requests(const std::filesystem::path& path, int64_t count, int64_t output_len) {
  std::vector<LoadRequest> lines;
  std::istringstream file(read_file(path));
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      lines.push_back(load_request_of(Json::parse(line), output_len));
    } catch (const FormatError& error) {
      fail<FormatError>("[file_requests] ", path.string(), ":", number, ": ", error.what());
    }
  }
  require<FormatError>(!lines.empty(), "[file_requests] ", path.string(),
                       " has no prompts; each line is {\"prompt\": \"…\"} or {\"messages\": […]}.");
  std::vector<LoadRequest> requests;
  for (int64_t i = 0; i < count; ++i) requests.push_back(lines[static_cast<std::size_t>(i) % lines.size()]);
  return requests;
}

void decode_prompts(std::vector<LoadRequest>& requests, const Tokenizer& tokenizer) {
  for (LoadRequest& request : requests) {
    if (request.ids.empty()) continue;
    request.text = tokenizer.decode(request.ids);
    request.ids.clear();
    request.prompt_tokens = static_cast<int64_t>(tokenizer.encode_ids(request.text, false).size());
  }
}

void encode_prompts(std::vector<LoadRequest>& requests, const Tokenizer& tokenizer) {
  for (LoadRequest& request : requests) {
    require<ConfigError>(request.messages.is_null(), "[encode_prompts] messages need a server; give prompts.");
    if (request.ids.empty()) request.ids = tokenizer.encode_ids(request.text);
    request.prompt_tokens = static_cast<int64_t>(request.ids.size());
  }
}

std::vector<double> arrival_times(std::size_t count, const Arrivals& how) {
  require<ConfigError>(how.rate > 0, "[arrival_times] rate must be positive; got ", how.rate, ".");
  require<ConfigError>(how.burstiness > 0, "[arrival_times] burstiness must be positive; got ", how.burstiness, ".");
  std::vector<double> times(count, 0.0);
  if (std::isinf(how.rate) || count == 0) return times;
  LoadGenerator generator(how.seed);
  std::gamma_distribution<double> gap(how.burstiness, 1.0 / (how.rate * how.burstiness));
  double now = 0;
  for (double& time : times) time = now += gap(generator);
  const double scale = now > 0 ? static_cast<double>(count) / how.rate / now : 1.0;
  for (double& time : times) time *= scale;
  return times;
}

}  // namespace easydel::serve
