// How an engine starts, with the cache that it has room for, and how it stops.
#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

#include "easydel/core/log.h"
#include "easydel/core/text/bytes.h"
#include "easydel/infra/decoder/accepts_images.h"
#include "easydel/infra/task_type.h"
#include "easydel/serve/engine/generation_params.h"
#include "easydel/serve/engine/local_engine.h"
#include "easydel/sharding/parallel.h"

namespace easydel::serve {
namespace {

constexpr int64_t kGpuTokens = 8192, kCpuTokens = 512;  // of a step
constexpr int64_t kCpuCacheBytes = int64_t{4} << 30;    // where the host's memory is also the system's

DType engine_cache_dtype(const std::string& name, DType by_default) {
  if (name == "auto") return by_default;
  if (name == "int8") return at::kChar;
  if (name == "fp8" || name == "fp8_e4m3") return at::kFloat8_e4m3fn;
  if (name == "fp8_e5m2") return at::kFloat8_e5m2;
  const DType dtype = parse_dtype(name);
  require<ConfigError>(at::isFloatingType(dtype),
                       "[engine] kv_cache_dtype must be auto, int8, fp8 or a floating-point dtype; got \"", name,
                       "\".");
  return dtype;
}

// Ranks that share a sequence each keep every so-manieth token: a page of all of them holds that many more.
int64_t sequence_parts(const BaseModule& model) {
  return model.parallel() ? model.parallel()->mesh().size(model.parallel()->sequence()) : 1;
}

RaggedPagesMetadata engine_pages(const BaseModule& model, const EngineOptions& options, int64_t max_model_len) {
  RaggedPagesMetadata pages =
      model.create_paged_metadata(options.gpu_memory_utilization, options.page_size, max_model_len);
  pages.dtype = engine_cache_dtype(options.kv_cache_dtype, pages.dtype);
  if (options.kv_cache_dtype != "auto") {
    for (const LayerKeys& layer : pages.layers) static_cast<void>(layer.is_latent(pages.dtype));  // refuses by name
  }
  if (options.num_pages > 0) {
    pages.num_pages = options.num_pages;
  } else if (pages.device.is_cpu()) {
    pages.num_pages = std::min(pages.num_pages, std::max<int64_t>(1, kCpuCacheBytes / pages.page_bytes()));
  }
  // No more than all sequences can use at their longest, twice: the rest keeps prefixes.
  const int64_t each = (max_model_len + options.page_size - 1) / options.page_size;
  if (options.num_pages == 0) pages.num_pages = std::min(pages.num_pages, 2 * each * options.max_num_seqs);
  return pages;
}

}  // namespace

LocalEngine::LocalEngine(std::shared_ptr<BaseModule> model, std::shared_ptr<const Tokenizer> tokenizer,
                         const EngineOptions& options)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), options_(options) {
  require<ConfigError>(model_ != nullptr, "[engine] there is no model.");
  require<NotSupportedError>(model_->model_task() != TaskType::SpeechSequenceToSequence, "[engine] ",
                             model_->type_name(), " takes recordings. Use make_speech_engine, on one device.");
  const BaseConfig& config = model_->config();
  info_.can_classify = model_->model_task() == TaskType::SequenceClassification;
  info_.can_generate = model_->can_generate();
  info_.can_embed = !info_.can_classify;
  info_.accepts_images = dynamic_cast<const AcceptsImages*>(model_.get()) != nullptr;
  info_.vocab_size = config.vocab_size;
  info_.max_num_seqs = options_.max_num_seqs;
  const int64_t context = config.max_position_embeddings;
  require<ConfigError>(options_.max_model_len >= 0 && options_.max_waiting >= 0 && options_.num_pages >= 0,
                       "[engine] max_model_len, max_waiting and num_pages must not be negative.");
  info_.max_model_len = options_.max_model_len > 0 ? options_.max_model_len : context > 0 ? context : 8192;
  if (context > 0 && info_.max_model_len > context)
    log::warning("[engine] max_model_len is ", info_.max_model_len, "; the model was trained for ", context,
                 " tokens.");
  info_.eos_token_ids = end_tokens_of(*model_);
  if (!info_.can_classify) {
    RaggedPagesMetadata pages = engine_pages(*model_, options_, info_.max_model_len);
    const int64_t tokens_per_page = pages.page_size * sequence_parts(*model_);
    const int64_t room = pages.num_pages * tokens_per_page;
    if (info_.max_model_len > room) {
      require<ConfigError>(options_.max_model_len == 0 || options_.num_pages > 0, "[engine] max_model_len is ",
                           options_.max_model_len, " tokens; the cache holds ", room,
                           ". Lower max_model_len or raise gpu_memory_utilization.");
      info_.max_model_len = room;
      pages.max_model_length = room;
    }
    const bool is_cpu = pages.device.is_cpu();
    delivers_late_ = !is_cpu;
    info_.cache_dtype = dtype_name(pages.dtype);
    if (options_.max_num_batched_tokens == 0) options_.max_num_batched_tokens = is_cpu ? kCpuTokens : kGpuTokens;
    scheduler_.emplace(SchedulerOptions{.max_num_seqs = options_.max_num_seqs,
                                        .max_num_batched_tokens = options_.max_num_batched_tokens,
                                        .page_size = tokens_per_page,
                                        .num_pages = pages.num_pages,
                                        .enable_prefix_caching = options_.enable_prefix_caching,
                                        .enable_chunked_prefill = options_.enable_chunked_prefill});
    log::debug("[engine] ", pages.num_pages, " pages of ", pages.page_size, " tokens, ",
               format_bytes(pages.num_pages * pages.page_bytes()), " of ", dtype_name(pages.dtype), "; at most ",
               options_.max_num_seqs, " sequences of ", info_.max_model_len, " tokens.");
    const int64_t num_pages = pages.num_pages;
    runner_.emplace(model_, std::make_shared<RaggedPagesCache>(std::move(pages)),
                    options_.use_graphs ? options_.max_num_seqs : 0, std::make_unique<AdapterTable>(*model_));
    require<NotSupportedError>(
        !options_.async_scheduling || (options_.num_speculative_tokens == 0 && !runner_->is_shared()),
        "[engine] async_scheduling is not supported with speculation, nor on a mesh.");
    looks_ahead_ = options_.async_scheduling;
    drafter_ = make_drafter(options_, *model_, tokens_per_page, num_pages, info_.max_model_len);
  }
  if (runner_ && runner_->is_shared() && !runner_->is_leader()) {
    refuses_ = true;
    thread_ = std::thread([this] {
      try {
        runner_->follow(drafter_ ? drafter_->runner() : nullptr);
      } catch (const std::exception& error) {
        log::error("[engine] ", error.what());
      }
      const std::lock_guard lock(mutex_);
      stops_ = true;
      idle_.notify_all();
    });
    return;
  }
  update_stats();
  thread_ = std::thread([this] { loop(); });
  if (options_.grammar) compile_thread_ = std::thread([this] { compile_loop(); });
}

LocalEngine::~LocalEngine() {
  {
    const std::lock_guard lock(mutex_);
    refuses_ = true;
    if (runner_ && runner_->is_shared() && !runner_->is_leader()) {
      // Rank 0 decides when the others stop.
    } else {
      stops_ = true;
    }
  }
  changed_.notify_all();
  compile_changed_.notify_all();
  if (compile_thread_.joinable()) compile_thread_.join();
  if (thread_.joinable()) thread_.join();
  // Requests whose grammar waited to be compiled, or was compiled when the engine's thread was gone.
  std::move(to_compile_.begin(), to_compile_.end(), std::back_inserter(inbox_));
  for (ActivePtr& left : inbox_) {
    RequestOutput out;
    out.finish = Finish::Error;
    out.error = kShutDown;
    end_untaken(std::move(left), std::move(out));
  }
}

}  // namespace easydel::serve
