// The engine of an ELargeModel, and its serve action.
#include <iostream>

#include "easydel/core/error.h"
#include "easydel/core/log.h"
#include "easydel/elarge/elarge_model.h"
#include "easydel/elarge/serve_options.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/base_module.h"
#include "easydel/serve/engine/generation_params.h"
#include "easydel/serve/grammar/grammar.h"
#include "easydel/sharding/world/world.h"
#include "easydel/tokenizers/auto_tokenizer.h"

namespace easydel {

std::shared_ptr<serve::Engine> ELargeModel::build_engine() { return build_engine(to_engine_options(config_)); }

std::shared_ptr<serve::Engine> ELargeModel::build_engine(serve::EngineOptions options) {
  const std::shared_ptr<BaseModule> model = build_model();
  const std::shared_ptr<const AutoTokenizer> tokenizer = build_tokenizer();
  if (!options.draft_model) options.draft_model = build_draft_model();
  if (!options.grammar && model->can_generate() && tokenizer->shared())
    options.grammar =
        serve::make_grammar_compiler(tokenizer->shared(), model->config().vocab_size, serve::end_tokens_of(*model));
  return serve::make_engine(model, tokenizer->shared(), options);
}

bool ELargeModel::serve(const Json& parameters) {
  ELargeModel own(config_);
  own.device_count_ = device_count_;
  own.model_ = model_;
  own.tokenizer_ = tokenizer_;
  bool needs_key = false;
  for (const auto& [key, value] : parameters.is_object() ? parameters.as_object() : JsonObject()) {
    if (key == "require_api_key") {
      needs_key = value.is_bool() && value.as_bool();
    } else {
      own.config_.set({"serve", key}, value);
    }
  }
  own.validate();
  serve::ServerOptions options = to_server_options(own.config_);
  require<ConfigError>(!needs_key || !options.service.api_keys.empty(), config_.where({"serve", "api_key"}),
                       " is missing, but require_api_key needs one. EASYDEL_API_KEY keeps it out of the file.");
  serve::block_stop_signals();
  announce();
  bool is_healthy = true;
  const auto run = [&](ELargeModel& mine, World& world) {
    const std::shared_ptr<BaseModule> model = mine.build_model();
    serve::ServerOptions given = options;
    given.engine.draft_model = mine.build_draft_model();
    if (world.rank() != 0) {
      const auto engine = serve::make_engine(model, mine.build_tokenizer()->shared(), given.engine);
      while (!engine->drain(std::chrono::hours(1))) continue;
      return;
    }
    given.service.default_sampling = serve::default_sampling(*model);
    const std::string name = mine.config_.model().name_or_path;
    const HubOptions hub{.revision = mine.config_.model().revision()};
    serve::Server server(model, *mine.build_tokenizer(), std::move(given), serve::load_vision(*model, name, hub),
                         serve::load_feature_extractor(*model, name, hub));
    std::cout << "listening on " << server.address() << std::endl;
    is_healthy = serve::serve_until_stopped(server);
  };
  if (const int64_t ranks = devices(); ranks > 1) {
    run_ranks(ranks, [&](World& world) {
      ELargeModel mine(own.config_);
      run(mine, world);
    });
  } else {
    run(own, *World::current());
  }
  return is_healthy;
}

}  // namespace easydel
