#include "easydel/elarge/serve_options.h"

#include <cstdlib>

#include "easydel/core/build_info.h"
#include "easydel/core/files/file.h"

namespace easydel {
namespace {

std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

}  // namespace

serve::EngineOptions to_engine_options(const ELargeConfig& config) {
  const EsurgeSection engine = config.esurge();
  const ServeSection serve = config.serve();
  serve::EngineOptions options;
  const auto take = [](auto& target, const auto& first, const auto& second) {
    target = first.value_or(second.value_or(target));
  };
  take(options.max_num_seqs, serve.max_num_seqs, engine.max_num_seqs);
  take(options.max_num_batched_tokens, serve.max_num_batched_tokens, engine.max_num_batched_tokens);
  take(options.max_model_len, serve.max_model_len, engine.max_model_len);
  take(options.page_size, serve.page_size, engine.page_size);
  take(options.gpu_memory_utilization, serve.gpu_memory_utilization, engine.hbm_utilization);
  options.num_pages = serve.num_pages;
  options.kv_cache_dtype = serve.kv_cache_dtype;
  options.enable_prefix_caching =
      serve.no_prefix_caching ? !*serve.no_prefix_caching : engine.enable_prefix_caching.value_or(true);
  options.enable_chunked_prefill = !serve.no_chunked_prefill;
  options.max_waiting = serve.max_waiting;
  options.num_speculative_tokens = serve.speculative_tokens;
  options.ngram_max = serve.ngram_max;
  options.ngram_min = serve.ngram_min;
  options.use_graphs = !serve.no_graphs;
  options.async_scheduling = serve.async_scheduling;
  options.seed = static_cast<uint64_t>(serve.seed);
  if (serve.draft_model) {
    options.speculative_method = "draft";
    if (options.num_speculative_tokens == 0) options.num_speculative_tokens = 4;
  }
  return options;
}

serve::ServerOptions to_server_options(const ELargeConfig& config) {
  const EsurgeSection engine = config.esurge();
  const ServeSection serve = config.serve();
  const std::string name = config.model().name_or_path;
  serve::ServerOptions options;
  options.engine = to_engine_options(config);
  options.http.host = serve.host;
  options.http.port = static_cast<uint16_t>(serve.port);
  options.http.tls_cert = serve.tls_cert.value_or("");
  options.http.tls_key = serve.tls_key.value_or("");
  options.http.max_body_bytes = serve.max_body_mib << 20;
  options.http.max_connections = serve.max_connections;
  options.http.cors_origins = serve.cors_origin;
  options.service.served_model_names = serve.served_model_name;
  if (options.service.served_model_names.empty()) options.service.served_model_names = {name};
  options.service.model_root = name;
  options.service.version = EASYDEL_VERSION;
  options.service.api_keys = serve.api_key;
  if (const char* key = std::getenv("EASYDEL_API_KEY"); key && *key) options.service.api_keys.emplace_back(key);
  if (serve.chat_template) options.service.chat_template = read_file(*serve.chat_template);
  options.service.trust_request_chat_template = serve.trust_request_chat_template;
  options.service.allowed_local_media_path = serve.allowed_local_media_path.value_or("");
  options.service.allowed_media_domains = serve.allowed_media_domains;
  options.service.tool_parser = serve.tool_parser.value_or(engine.tool_parser.value_or(options.service.tool_parser));
  options.service.reasoning_parser =
      serve.reasoning_parser.value_or(engine.reasoning_parser.value_or(options.service.reasoning_parser));
  options.service.request_timeout = to_milliseconds(serve.request_timeout);
  options.service.enable_page = !serve.no_page;
  options.shutdown_timeout = to_milliseconds(serve.shutdown_timeout);
  options.data_parallel_size = serve.data_parallel_size;
  for (const auto& [adapter, directory] : serve.adapter) options.adapters.emplace_back(adapter, directory);
  return options;
}

}  // namespace easydel
