// What the parts of the service share.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "easydel/serve/openai/api_error.h"
#include "easydel/serve/openai/fields.h"
#include "easydel/serve/openai/metrics.h"
#include "easydel/serve/openai/service.h"
#include "easydel/serve/openai/workers.h"
#include "easydel/serve/output/message_parser.h"
#include "easydel/tokenizers/chat_template.h"

namespace easydel::serve {

struct ServiceContext {
  ServiceContext(std::shared_ptr<Engine> the_engine, AutoTokenizer the_tokenizer, ServiceOptions the_options,
                 std::shared_ptr<const VisionProcessor> the_vision);

  std::shared_ptr<Engine> engine;
  AutoTokenizer tokenizer;
  ServiceOptions options;
  std::shared_ptr<const VisionProcessor> vision;  // null: text alone
  ChatTemplates templates;                        // the option's, or the model's
  MessageFormat format;                           // of the answers to chats
  std::string fingerprint;                        // system_fingerprint
  int64_t created = 0;
  Metrics metrics;
  WorkerPool workers;

  // Parsed once. ConfigError when there is none, jinja::TemplateError when it cannot be parsed.
  ChatTemplate chat_template(bool with_tools) const;

 private:
  mutable std::mutex template_mutex_;
  mutable std::array<std::optional<ChatTemplate>, 2> parsed_;  // without and with tools
};

struct ModelChoice {
  std::string name;     // as in the answer
  std::string adapter;  // of Request::adapter; empty: the model itself
};
// The field "model": one of the served names, or an adapter's; absent: the first. 404 for any other.
ModelChoice choose_model(const ServiceContext& context, Fields& fields);

}  // namespace easydel::serve
