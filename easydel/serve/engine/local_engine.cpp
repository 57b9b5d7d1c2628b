#include "easydel/serve/engine/local_engine.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <future>
#include <numeric>

#include "easydel/core/log.h"
#include "easydel/core/text/bytes.h"
#include "easydel/generation/generate.h"
#include "easydel/infra/decoder/sees_pictures.h"
#include "easydel/infra/task_type.h"
#include "easydel/processors/vision_processor.h"
#include "easydel/serve/engine/between_steps.h"
#include "easydel/serve/engine/forget_prefixes.h"
#include "easydel/sharding/parallel.h"
#include "easydel/sharding/world/world.h"

namespace easydel::serve {
namespace {

constexpr std::size_t kSummaries = 64;
constexpr int64_t kGpuTokens = 8192, kCpuTokens = 512;  // of a step
constexpr int64_t kCpuCacheBytes = int64_t{4} << 30;    // where the host's memory is also the system's

DType engine_cache_dtype(const std::string& name, DType by_default) {
  if (name == "auto") return by_default;
  if (name == "int8") return at::kChar;
  if (name == "fp8" || name == "fp8_e4m3") return at::kFloat8_e4m3fn;
  if (name == "fp8_e5m2") return at::kFloat8_e5m2;
  const DType dtype = parse_dtype(name);
  require<ConfigError>(at::isFloatingType(dtype),
                       "[engine] kv_cache_dtype must be auto, int8, fp8 or a floating type; got \"", name, "\".");
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

// Where the pictures of a prompt are. ConfigError where the placeholders are not as many as the pictures take.
void place_pictures(ActiveRequest& active, const SeesPictures& model) {
  const std::vector<int32_t>& prompt = active.request.prompt;
  const int64_t image_token = model.image_token_id();
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] == image_token) active.picture_places.push_back(static_cast<int64_t>(i));
  const PictureInputs& pictures = *active.request.pictures;
  const auto wanted = std::accumulate(pictures.tokens.begin(), pictures.tokens.end(), int64_t{0});
  const auto found = static_cast<int64_t>(active.picture_places.size());
  require<ConfigError>(found == wanted, "[engine] the pictures of the prompt take ", wanted, " tokens; it has ", found,
                       " placeholders.");
  const at::Tensor& grid = pictures.image_grid_thw;
  int64_t next = 0, first_row = 0;
  for (std::size_t i = 0; i < pictures.tokens.size(); ++i) {
    const int64_t rows = grid.defined() ? grid[static_cast<int64_t>(i)].prod().item<int64_t>() : 1;
    const at::Tensor pixels = pictures.pixel_values.narrow(0, first_row, rows).to(at::kFloat).contiguous();
    first_row += rows;
    const std::span<const int32_t> bits(reinterpret_cast<const int32_t*>(pixels.const_data_ptr<float>()),
                                        static_cast<std::size_t>(pixels.numel()));
    const int64_t first = next;
    next += pictures.tokens[i];
    active.picture_spans.push_back({active.picture_places[static_cast<std::size_t>(first)],
                                    active.picture_places[static_cast<std::size_t>(next - 1)] + 1,
                                    hash_page({}, bits, 0)});
  }
  ModelInputs seen;
  seen.image_grid_thw = grid;
  const at::Tensor positions = model.picture_positions(at::tensor(prompt, at::kLong).unsqueeze(0), seen);
  if (!positions.defined()) return;
  active.picture_positions = positions.squeeze(1);
  active.position_shift = active.picture_positions.max().item<int64_t>() + 1 - static_cast<int64_t>(prompt.size());
}

// Where the tokens of a picture see each other, a step must have room for all of them.
void check_pictures(const ActiveRequest& active, int64_t room) {
  int64_t begin = 0, end = -1;
  for (const PictureSpan& picture : active.picture_spans) {
    if (picture.begin != end) begin = picture.begin;  // pictures without a token between them are one
    end = picture.end;
    require<ConfigError>(end - begin <= room, "[engine] a picture of the prompt takes ", end - begin,
                         " tokens, which see each other and must be in one step; max_num_batched_tokens is ", room,
                         ".");
  }
}

LocalEngine& local_engine(Engine& engine, const char* what) {
  auto* found = dynamic_cast<LocalEngine*>(&engine);
  require<Error>(found != nullptr, "[engine] only an engine of one model can ", what, ".");
  return *found;
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
  info_.can_see = dynamic_cast<const SeesPictures*>(model_.get()) != nullptr;
  info_.vocab_size = config.vocab_size;
  info_.max_num_seqs = options_.max_num_seqs;
  const int64_t context = config.max_position_embeddings;
  require<ConfigError>(options_.max_model_len >= 0 && options_.max_waiting >= 0 && options_.num_pages >= 0,
                       "[engine] max_model_len, max_waiting and num_pages must not be negative.");
  info_.max_model_len = options_.max_model_len > 0 ? options_.max_model_len : context > 0 ? context : 8192;
  if (context > 0 && info_.max_model_len > context)
    log::warning("[engine] max_model_len is ", info_.max_model_len, "; the model was made for ", context, " tokens.");
  if (info_.can_generate)
    for (const int64_t id : easydel::generation_config(*model_).eos_token_id)
      info_.eos_token_ids.push_back(static_cast<int32_t>(id));
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
    drafter_ = make_drafter(options_, tokens_per_page, num_pages, info_.max_model_len, info_.vocab_size);
  }
  if (runner_ && runner_->is_shared() && !runner_->is_leader()) {
    refuses_ = true;
    thread_ = std::thread([this] {
      try {
        runner_->follow();
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
}

void LocalEngine::check(const Request& request) const {
  const auto length = static_cast<int64_t>(request.prompt.size());
  require<ConfigError>(length > 0, "[engine] the prompt has no tokens.");
  for (const int32_t token : request.prompt)
    require<ConfigError>(token >= 0 && token < info_.vocab_size, "[engine] a token of the prompt is ", token,
                         "; the vocabulary has ", info_.vocab_size, ".");
  const bool generates = request.kind == RequestKind::Generate;
  require<ConfigError>(!generates || info_.can_generate, "[engine] ", model_->type_name(),
                       " has no language modelling head: it cannot generate.");
  require<ConfigError>(request.kind != RequestKind::Embed || info_.can_embed, "[engine] ", model_->type_name(),
                       " gives classes, not embeddings.");
  require<ConfigError>(request.kind != RequestKind::Classify || info_.can_classify, "[engine] ", model_->type_name(),
                       " has no classification head.");
  require<ConfigError>(length + (generates ? 1 : 0) <= info_.max_model_len, "[engine] the prompt has ", length,
                       " tokens; max_model_len, of prompt and answer together, is ", info_.max_model_len, ".");
  require<ConfigError>(!request.pictures || info_.can_see, "[engine] ", model_->type_name(), " takes text alone.");
  require<NotSupportedError>(!request.pictures || !runner_->is_shared(),
                             "[engine] pictures are not sent to the other ranks of a mesh. Serve on one device.");
  const SamplingParams& sampling = request.sampling;
  sampling.validate(info_.vocab_size);
  require<ConfigError>(tokenizer_ || sampling.stop.empty(), "[engine] stop strings need a tokenizer.");
  require<NotSupportedError>(!sampling.grammar || options_.grammar,
                             "[engine] structured output is not supported by this engine: it has no grammar compiler.");
}

LocalEngine::ActivePtr LocalEngine::make_active(Request request, OutputCallback callback) {
  auto active = std::make_unique<ActiveRequest>();
  const SamplingParams& sampling = request.sampling;
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  active->max_length = std::min(info_.max_model_len, sampling.max_tokens && *sampling.max_tokens < info_.max_model_len
                                                         ? prompt + *sampling.max_tokens
                                                         : info_.max_model_len);
  if (!sampling.ignore_eos) active->end_tokens = info_.eos_token_ids;
  if (tokenizer_)
    active->text.emplace(tokenizer_, sampling.skip_special_tokens, sampling.stop, sampling.include_stop_str_in_output);
  active->request = std::move(request);
  active->callback = std::move(callback);
  if (active->request.pictures) {
    const auto& seeing = dynamic_cast<const SeesPictures&>(*model_);
    place_pictures(*active, seeing);
    if (seeing.sees_whole_pictures()) check_pictures(*active, options_.max_num_batched_tokens);
  }
  return active;
}

RequestId LocalEngine::submit(Request request, OutputCallback callback) {
  check(request);
  ActivePtr active = make_active(std::move(request), std::move(callback));
  std::unique_lock lock(mutex_);
  require<Error>(is_healthy_, "[engine] it has failed and takes no more requests.");
  require<Error>(!refuses_, "[engine] it is shutting down and takes no more requests.");
  const int64_t waiting = static_cast<int64_t>(inbox_.size() + to_compile_.size()) + in_scheduler_waiting_;
  require<QueueFullError>(options_.max_waiting == 0 || waiting < options_.max_waiting, "[engine] ", waiting,
                          " requests are waiting already, as many as may.");
  if (const std::string& adapter = active->request.adapter; !adapter.empty()) {
    const auto found = find_adapter(adapter);
    require<ConfigError>(found != adapters_.end(), "[engine] there is no adapter \"", adapter, "\".");
    active->adapter = found->first;
    active->prefix_key = found->second.prefix_key;
    ++found->second.users;
  }
  const RequestId id = next_id_++;
  active->id = id;
  active->key = RandomKey(active->sampling().seed.value_or(RandomKey(options_.seed).fold(id).bits()));
  ++outstanding_;
  if (active->sampling().grammar) {
    to_compile_.push_back(std::move(active));
    compile_changed_.notify_one();
  } else {
    inbox_.push_back(std::move(active));
    changed_.notify_one();
  }
  return id;
}

void LocalEngine::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  const bool is_compiling = id == compiling_ || std::any_of(to_compile_.begin(), to_compile_.end(),
                                                            [&](const ActivePtr& each) { return each->id == id; });
  if (is_compiling) {
    compiling_cancelled_.insert(id);
    return;
  }
  cancelled_.push_back(id);
  changed_.notify_one();
}

bool LocalEngine::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  refuses_ = true;
  if (runner_ && runner_->is_shared() && !runner_->is_leader())
    return idle_.wait_for(lock, limit, [&] { return stops_; });
  return idle_.wait_for(lock, limit, [&] { return outstanding_ == 0; });
}

void LocalEngine::forget_prefixes() {
  if (scheduler_) between_steps([&] { scheduler_->forget_prefixes(); });
}

void forget_prefixes(Engine& engine) { local_engine(engine, "forget its prefixes").forget_prefixes(); }

void between_steps(Engine& engine, const std::function<void()>& action) {
  local_engine(engine, "act between its steps").between_steps(action);
}

EngineStats LocalEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting += static_cast<int64_t>(inbox_.size() + to_compile_.size());
  stats.healthy = is_healthy_;
  return stats;
}

std::vector<RequestSummary> LocalEngine::summaries() const {
  const std::lock_guard lock(mutex_);
  return summaries_;
}

void LocalEngine::compile_loop() {
  while (true) {
    ActivePtr active;
    bool is_cancelled = false;
    {
      std::unique_lock lock(mutex_);
      compile_changed_.wait(lock, [&] { return stops_ || !to_compile_.empty(); });
      if (stops_) return;
      active = std::move(to_compile_.front());
      to_compile_.pop_front();
      compiling_ = active->id;
      is_cancelled = compiling_cancelled_.contains(compiling_);
    }
    std::string error;
    try {
      if (!is_cancelled) active->matcher = options_.grammar->compile(*active->sampling().grammar)->matcher();
    } catch (const std::exception& problem) {
      error = problem.what();
    }
    {
      const std::lock_guard lock(mutex_);
      compiling_ = 0;
      is_cancelled = compiling_cancelled_.erase(active->id) > 0;
      if (!is_cancelled && error.empty()) {
        inbox_.push_back(std::move(active));
        changed_.notify_one();
        continue;
      }
    }
    end_uncompiled(std::move(active), is_cancelled ? "" : error);
  }
}

// Without an error it was cancelled.
void LocalEngine::end_uncompiled(ActivePtr active, const std::string& error) {
  RequestOutput out;
  out.finish = error.empty() ? Finish::Cancelled : Finish::Error;
  out.is_refusal = !error.empty();
  out.error = error;
  out.prompt_tokens = static_cast<int64_t>(active->request.prompt.size());
  active->callback(out);
  active->callback = nullptr;  // see deliver
  const std::lock_guard lock(mutex_);
  release_adapter(*active);
  ++(error.empty() ? stats_.finished_cancelled : stats_.finished_error);
  --outstanding_;
  idle_.notify_all();
}

void LocalEngine::between_steps(const std::function<void()>& action) {
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    require<Error>(!stops_, "[engine] it is shutting down.");
    actions_.push_back([&] {
      try {
        action();
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
  }
  changed_.notify_one();
  done.get_future().get();
}

void LocalEngine::loop() {
  const auto heartbeat = default_collective_timeout() / 4;
  while (true) {
    if (!scheduler_ || !scheduler_->has_work()) deliver();
    std::vector<ActivePtr> added;
    std::vector<RequestId> cancelled;
    std::vector<std::function<void()>> actions;
    bool stops = false;
    {
      std::unique_lock lock(mutex_);
      const bool woken = changed_.wait_for(lock, heartbeat, [&] {
        return stops_ || !inbox_.empty() || !cancelled_.empty() || !actions_.empty() ||
               (scheduler_ && scheduler_->has_work());
      });
      if (!woken) {
        lock.unlock();
        if (runner_) runner_->stay_in_touch();
        continue;
      }
      added.swap(inbox_);
      in_scheduler_waiting_ += static_cast<int64_t>(added.size());  // until the next update_stats
      cancelled.swap(cancelled_);
      actions.swap(actions_);
      stops = stops_;
    }
    for (const auto& action : actions) action();
    take_in(std::move(added), cancelled);
    if (stops) {
      fail_all("the engine was shut down");
      break;
    }
    if (scheduler_) {
      try {
        if (scheduler_->has_work()) step();
        drop_unused_adapters();
      } catch (const std::exception& error) {
        log::error("[engine] a step failed: ", error.what());
        {
          const std::lock_guard lock(mutex_);
          is_healthy_ = false;
        }
        fail_all(error.what());
      }
    }
    update_stats();
  }
  if (runner_) runner_->stop_followers();
}

void LocalEngine::take_in(std::vector<ActivePtr> added, const std::vector<RequestId>& cancelled) {
  for (ActivePtr& request : added) {
    const RequestId id = request->id;
    if (std::find(cancelled.begin(), cancelled.end(), id) == cancelled.end() &&
        request->request.kind != RequestKind::Classify) {
      auto sequence = std::make_unique<Sequence>();
      sequence->id = id;
      sequence->tokens = request->request.prompt;
      sequence->prompt_tokens = sequence->length();
      sequence->priority = request->request.priority;
      sequence->arrival = id;
      sequence->prefix_key = request->prefix_key;
      sequence->pictures = request->picture_spans;
      sequence->whole_pictures = info_.can_see && dynamic_cast<const SeesPictures&>(*model_).sees_whole_pictures();
      sequence->uses_prefixes = !request->wants_all_logits();
      request->sequence = sequence.get();
      scheduler_->add(std::move(sequence));
    }
    ActiveRequest& active = *(active_[id] = std::move(request));
    if (!active.sequence && active.request.kind == RequestKind::Classify) classify(active);
  }
  for (const RequestId id : cancelled) end(id, Finish::Cancelled);
}

void LocalEngine::fail_all(const std::string& error) {
  std::vector<RequestId> ids;
  for (const auto& entry : active_) ids.push_back(entry.first);
  for (const RequestId id : ids) end(id, Finish::Error, error);
  deliver();
  update_stats();
}

void LocalEngine::update_stats() {
  const std::lock_guard lock(mutex_);
  if (!scheduler_) return;
  stats_.running = scheduler_->running();
  stats_.waiting = in_scheduler_waiting_ = scheduler_->waiting();
  stats_.pages = scheduler_->pool().pages();
  stats_.free_pages = scheduler_->pool().free_pages();
  stats_.prefix_queries = scheduler_->prefix_queries();
  stats_.prefix_hits = scheduler_->prefix_hits();
  stats_.preemptions = scheduler_->preemptions();
  summaries_.clear();
  scheduler_->for_each([&](const Sequence& sequence, bool is_running) {
    const auto found = active_.find(sequence.id);
    if (summaries_.size() >= kSummaries || found == active_.end()) return;
    summaries_.push_back({sequence.id, is_running, sequence.prompt_tokens, sequence.length() - sequence.prompt_tokens,
                          found->second->arrived});
  });
}

void LocalEngine::end(RequestId id, Finish finish, const std::string& error) {
  const auto found = active_.find(id);
  if (found == active_.end()) return;
  RequestOutput out;
  out.finish = finish;
  out.error = error;
  hand_out(*found->second, std::move(out));
}

void LocalEngine::hand_out(ActiveRequest& request, RequestOutput out, int64_t shown) {
  out.prompt_tokens = static_cast<int64_t>(request.request.prompt.size());
  if (request.sequence) {
    out.cached_tokens = request.sequence->cached_tokens;
    out.output_tokens = request.output_tokens();
  }
  ActivePtr ended;
  if (out.finish) {  // it is forgotten, and its pages are free
    const RequestId id = request.id;
    if (scheduler_) scheduler_->remove(id);
    request.sequence = nullptr;
    if (drafter_) drafter_->forget(id);
    ended = std::move(active_.at(id));
    active_.erase(id);
    update_stats();
  }
  deliveries_.push_back({&request, std::move(ended), std::move(out), shown});
  if (!delivers_late_) deliver();
}

void LocalEngine::deliver() {
  std::vector<Delivery> deliveries;
  deliveries.swap(deliveries_);
  for (auto& [request, ended, out, shown] : deliveries) {
    if (request->text && request->sampling().stop.empty()) {
      for (int64_t i = 0; i < shown; ++i) out.text += request->text->add(out.tokens[static_cast<std::size_t>(i)]);
    }
    if (ended && request->text && out.finish != Finish::Error) out.text += request->text->finish();
    request->callback(out);
    if (!ended) continue;
    ended->callback = nullptr;  // what it holds may own this engine, whose owner may let go of it once all have ended
    const std::lock_guard lock(mutex_);
    int64_t* const counts[] = {&stats_.finished_stop, &stats_.finished_length, &stats_.finished_cancelled,
                               &stats_.finished_error};
    release_adapter(*ended);
    ++*counts[static_cast<std::size_t>(*out.finish)];
    --outstanding_;
    idle_.notify_all();
  }
}

void LocalEngine::classify(ActiveRequest& request) {
  const c10::InferenceMode guard;
  RequestOutput out;
  try {
    ModelInputs inputs;
    const at::Device device = model_->named_parameters().front().parameter->value().device();
    inputs.input_ids = at::tensor(request.request.prompt, at::kInt).to(device, at::kLong).unsqueeze(0);
    const at::Tensor logits = (*model_)(inputs).logits.flatten().to(at::kCPU, at::kFloat).contiguous();
    out.embedding.assign(logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel());
    out.finish = Finish::Stop;
  } catch (const std::exception& error) {
    out.finish = Finish::Error;
    out.error = error.what();
  }
  hand_out(request, std::move(out));
}

std::shared_ptr<Engine> make_engine(std::shared_ptr<BaseModule> model, std::shared_ptr<const Tokenizer> tokenizer,
                                    const EngineOptions& options) {
  return std::make_shared<LocalEngine>(std::move(model), std::move(tokenizer), options);
}

}  // namespace easydel::serve
