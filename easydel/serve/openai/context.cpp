#include "easydel/serve/openai/context.h"

#include <algorithm>

#include "easydel/serve/openai/ids.h"

namespace easydel::serve {
namespace {

bool context_knows(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ChatTemplates context_templates(const AutoTokenizer& tokenizer, const ServiceOptions& options) {
  if (options.chat_template.empty()) return tokenizer.config().chat_templates;
  ChatTemplates templates;
  templates.set("default", options.chat_template);
  templates.select();  // must parse now, not at the first request
  return templates;
}

MessageFormat context_format(const ChatTemplates& templates, const ServiceOptions& options) {
  const std::string* source = templates.find("tool_use");
  if (!source) source = templates.find("default");
  const MessageFormat detected = source ? detect_message_format(*source) : MessageFormat{};
  MessageFormat format = detected;
  if (options.tool_parser != "auto") format.tools = options.tool_parser;
  if (options.reasoning_parser != "auto") format.reasoning = options.reasoning_parser;
  make_message_parser(format);  // ConfigError for names that are not known
  return format;
}

std::string context_fingerprint(const ServiceOptions& options) {
  return "fp_easydel_" + (options.version.empty() ? std::string("0") : options.version);
}

}  // namespace

ServiceContext::ServiceContext(std::shared_ptr<Engine> the_engine, AutoTokenizer the_tokenizer,
                               ServiceOptions the_options, std::shared_ptr<const VisionProcessor> the_vision)
    : engine(std::move(the_engine)),
      tokenizer(std::move(the_tokenizer)),
      options(std::move(the_options)),
      vision(std::move(the_vision)),
      templates(context_templates(tokenizer, options)),
      format(context_format(templates, options)),
      fingerprint(context_fingerprint(options)),
      created(unix_time()),
      workers(options.workers, options.max_queue) {
  require<ConfigError>(!options.served_model_names.empty(),
                       "[Service] served_model_names must have at least one name.");
  require<ConfigError>(vision || options.allowed_local_media_path.empty(),
                       "[Service] allowed_local_media_path applies to images, which the model does not accept.");
  require<ConfigError>(vision || options.allowed_media_domains.empty(),
                       "[Service] allowed_media_domains applies to images, which the model does not accept.");
  for (const std::string& domain : options.allowed_media_domains)
    require<ConfigError>(!domain.empty() && domain.find_first_of("/: ") == std::string::npos,
                         "[Service] allowed_media_domains must be host names such as example.com, or *; got \"", domain,
                         "\".");
}

ChatTemplate ServiceContext::chat_template(bool with_tools) const {
  const std::lock_guard lock(template_mutex_);
  std::optional<ChatTemplate>& known = parsed_[with_tools ? 1 : 0];
  if (!known) known = templates.select({}, with_tools);
  return *known;
}

ModelChoice choose_model(const ServiceContext& context, Fields& fields) {
  const auto asked = fields.string("model");
  const auto& names = context.options.served_model_names;
  if (!asked) return {.name = names.front(), .adapter = {}};
  if (context_knows(names, *asked)) return {.name = *asked, .adapter = {}};
  if (context_knows(context.engine->adapters(), *asked)) return {.name = *asked, .adapter = *asked};
  throw ApiError(404, concat("The model `", *asked, "` does not exist."), "model", "model_not_found");
}

}  // namespace easydel::serve
