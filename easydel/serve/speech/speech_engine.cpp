#include "easydel/serve/speech/speech_engine.h"

#include <ATen/ATen.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "easydel/generation/generate.h"
#include "easydel/generation/speech/words.h"
#include "easydel/infra/base_module.h"
#include "easydel/infra/task_type.h"
#include "easydel/processors/feature_extractor.h"
#include "easydel/tokenizers/tokenizer.h"

namespace easydel::serve {
namespace {

void refuse_text_options(const EngineOptions& given) {
  const EngineOptions plain;
  const std::pair<const char*, bool> differs[] = {
      {"max_num_seqs", given.max_num_seqs != plain.max_num_seqs},
      {"max_num_batched_tokens", given.max_num_batched_tokens != plain.max_num_batched_tokens},
      {"max_model_len", given.max_model_len != plain.max_model_len},
      {"page_size", given.page_size != plain.page_size},
      {"num_pages", given.num_pages != plain.num_pages},
      {"gpu_memory_utilization", given.gpu_memory_utilization != plain.gpu_memory_utilization},
      {"kv_cache_dtype", given.kv_cache_dtype != plain.kv_cache_dtype},
      {"enable_prefix_caching", given.enable_prefix_caching != plain.enable_prefix_caching},
      {"enable_chunked_prefill", given.enable_chunked_prefill != plain.enable_chunked_prefill},
      {"num_speculative_tokens", given.num_speculative_tokens != plain.num_speculative_tokens},
      {"draft_model", given.draft_model != plain.draft_model},
      {"ngram_max", given.ngram_max != plain.ngram_max},
      {"ngram_min", given.ngram_min != plain.ngram_min},
      {"use_graphs", given.use_graphs != plain.use_graphs},
      {"async_scheduling", given.async_scheduling != plain.async_scheduling},
      {"seed", given.seed != plain.seed},
      {"grammar", given.grammar != plain.grammar}};
  for (const auto& [name, is_set] : differs) {
    require<ConfigError>(!is_set, "[engine] ", name,
                         " is not supported with a speech model, which processes one recording at a time. Leave it "
                         "out.");
  }
}

std::string without_leading_space(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin);
}

class LocalSpeechEngine final : public SpeechEngine {
 public:
  LocalSpeechEngine(std::shared_ptr<BaseModule> model, std::shared_ptr<const Tokenizer> tokenizer,
                    std::shared_ptr<const WhisperFeatureExtractor> extractor, const EngineOptions& options)
      : model_(std::move(model)),
        tokenizer_(std::move(tokenizer)),
        extractor_(std::move(extractor)),
        config_(generation_config(*model_)),
        max_waiting_(options.max_waiting) {
    require<ConfigError>(tokenizer_ != nullptr, "[engine] a speech model needs its tokenizer.");
    require<ConfigError>(extractor_ != nullptr,
                         "[engine] a speech model needs its feature extractor: preprocessor_config.json.");
    require<NotSupportedError>(!model_->parallel(),
                               "[engine] a speech model is not supported with a mesh here. Use one device.");
    refuse_text_options(options);
    info_.vocab_size = model_->config().vocab_size;
    info_.max_model_len = model_->config().max_position_embeddings;
    info_.max_num_seqs = 1;
    info_.can_generate = info_.can_embed = false;
    thread_ = std::thread([this] { loop(); });
  }

  ~LocalSpeechEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stops_ = refuses_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void transcribe(SpeechRequest request, std::function<void(SpeechOutput)> callback) override {
    const Sound sound = decode_audio(request.audio, {}, request.name);
    Job job{.samples = resample(mix_to_mono(sound), sound.sampling_rate, extractor_->sampling_rate()),
            .request = std::move(request),
            .callback = std::move(callback)};
    job.request.audio.clear();
    {
      const std::lock_guard lock(mutex_);
      if (refuses_) throw QueueFullError("[engine] the server is stopping.");
      if (max_waiting_ > 0 && static_cast<int64_t>(jobs_.size()) >= max_waiting_)
        throw QueueFullError("[engine] too many recordings are waiting. Try again later.");
      jobs_.push_back(std::move(job));
    }
    changed_.notify_all();
  }

  RequestId submit(Request, OutputCallback) override {
    fail<ConfigError>("[engine] ", model_->type_name(), " takes recordings: POST them to /v1/audio/transcriptions.");
  }
  void cancel(RequestId) override {}
  bool drain(std::chrono::milliseconds limit) override {
    std::unique_lock lock(mutex_);
    refuses_ = true;
    return idle_.wait_for(lock, limit, [&] { return jobs_.empty() && !is_running_; });
  }
  void load_adapter(const std::string& name, const std::string&) override {
    fail<ConfigError>("[engine] adapters are not supported with a speech model; got \"", name, "\".");
  }
  void unload_adapter(const std::string& name) override {
    fail<ConfigError>("[engine] no adapter is called \"", name, "\".");
  }
  std::vector<std::string> adapters() const override { return {}; }
  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats now = stats_;
    now.running = is_running_ ? 1 : 0;
    now.waiting = static_cast<int64_t>(jobs_.size());
    return now;
  }
  const EngineInfo& info() const override { return info_; }

 private:
  struct Job {
    at::Tensor samples;
    SpeechRequest request;
    std::function<void(SpeechOutput)> callback;
  };

  void loop() {
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        is_running_ = false;
        idle_.notify_all();
        changed_.wait(lock, [&] { return stops_ || !jobs_.empty(); });
        if (stops_) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
        is_running_ = true;
      }
      run(job);
    }
  }

  void run(const Job& job) {
    const bool is_wanted = !job.request.is_wanted || job.request.is_wanted();
    SpeechOutput out;
    if (is_wanted) {
      try {
        out = hear(job);
      } catch (...) {
        out.error = std::current_exception();
      }
    }
    {
      const std::lock_guard lock(mutex_);
      ++stats_.steps;
      ++(!is_wanted ? stats_.finished_cancelled : out.error ? stats_.finished_error : stats_.finished_stop);
      for (const SpeechSegment& segment : out.segments)
        stats_.generation_tokens += static_cast<int64_t>(segment.tokens.size());
    }
    if (is_wanted) job.callback(std::move(out));
  }

  SpeechOutput hear(const Job& job) const {
    TranscribeOptions how;
    how.language = job.request.language;
    // A model of English alone has no tasks.
    if (job.request.translate) {
      how.task = "translate";
    } else if (const Json* tasks = config_.other.find("task_to_id"); tasks && tasks->is_object()) {
      how.task = "transcribe";
    }
    if (job.request.timestamps || job.request.word_timestamps) how.return_timestamps = true;
    how.return_token_timestamps = job.request.word_timestamps;
    how.num_frames = extractor_->sound_frames(job.samples);
    how.temperature = {job.request.temperature};
    if (!job.request.prompt.empty()) how.prompt_ids = speech_prompt(*tokenizer_, job.request.prompt);
    const Transcription said = easydel::transcribe(*model_, extractor_->whole(job.samples), how);
    SpeechOutput out;
    out.duration = static_cast<double>(job.samples.size(0)) / static_cast<double>(extractor_->sampling_rate());
    out.text = text_of(said.tokens);
    out.language = spoken_language(said.decoder_input_ids, config_);
    out.temperature = job.request.temperature;
    for (const SpokenSegment& segment : said.segments)
      out.segments.push_back({segment.start, segment.end, text_of(segment.tokens), segment.tokens});
    if (!job.request.word_timestamps) return out;
    const DecodeFunction decode = [this](std::span<const int32_t> ids) { return tokenizer_->decode(ids); };
    for (const SpokenWord& word : words_of(said, decode, config_))
      out.words.push_back({word.start, word.end, without_leading_space(word.text)});
    return out;
  }

  std::string text_of(const std::vector<int64_t>& tokens) const {
    return without_leading_space(tokenizer_->decode(without_times(tokens, config_)));
  }

  const std::shared_ptr<BaseModule> model_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::shared_ptr<const WhisperFeatureExtractor> extractor_;
  const GenerationConfig config_;
  const int64_t max_waiting_;
  EngineInfo info_;

  mutable std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::deque<Job> jobs_;
  EngineStats stats_;
  bool is_running_ = false, refuses_ = false, stops_ = false;
  std::thread thread_;
};

}  // namespace

bool is_speech_model(const BaseModule& model) { return model.model_task() == TaskType::SpeechSequenceToSequence; }

std::shared_ptr<SpeechEngine> make_speech_engine(std::shared_ptr<BaseModule> model,
                                                 std::shared_ptr<const Tokenizer> tokenizer,
                                                 std::shared_ptr<const WhisperFeatureExtractor> extractor,
                                                 const EngineOptions& options) {
  return std::make_shared<LocalSpeechEngine>(std::move(model), std::move(tokenizer), std::move(extractor), options);
}

}  // namespace easydel::serve
