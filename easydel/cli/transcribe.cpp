// easydel transcribe: writes down what recordings say.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/options/speech_text.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/generation/generate.h"
#include "easydel/generation/speech/words.h"
#include "easydel/processors/feature_extractor.h"

namespace easydel::cli {
namespace {

struct TranscribeArguments {
  ModelOptions model;
  std::vector<std::string> files;
  std::string language, task, prompt;
  std::optional<int64_t> max_new_tokens, num_beams;
  std::vector<double> temperature;
  std::optional<double> compression_ratio_threshold, logprob_threshold, no_speech_threshold;
  uint64_t seed = 0;
  bool timestamps = false, word_timestamps = false;
  bool condition_on_prev_tokens = false;
  bool json = false;
};

std::string clock(double seconds) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << seconds;
  return text.str();
}

Json json_of(const std::vector<SpokenWord>& words) {
  Json list = Json::array();
  for (const SpokenWord& word : words)
    list.push_back(Json::object({{"start", word.start}, {"end", word.end}, {"word", trimmed(word.text)}}));
  return list;
}

void run(const TranscribeArguments& options, const Tokenizer* tokenizer, World& world) {
  require<ConfigError>(tokenizer || !options.word_timestamps,
                       "[transcribe] --word-timestamps needs the model's tokenizer to find the words; there is none.");
  const WhisperFeatureExtractor extractor =
      AutoFeatureExtractor::from_pretrained(options.model.model, {.revision = options.model.revision});
  std::vector<at::Tensor> recordings;  // before the model, so that a broken one ends it at once
  for (const std::string& file : options.files) recordings.push_back(extractor.load(file));
  const std::shared_ptr<BaseModule> module = load(options.model);
  TranscribeOptions how;
  how.generation_config.max_new_tokens = options.max_new_tokens;
  how.generation_config.num_beams = options.num_beams;
  if (!options.language.empty()) how.language = options.language;
  if (!options.task.empty()) how.task = options.task;
  if (options.timestamps || options.word_timestamps) how.return_timestamps = true;
  how.return_token_timestamps = options.word_timestamps;
  how.temperature = options.temperature;
  how.compression_ratio_threshold = options.compression_ratio_threshold;
  how.logprob_threshold = options.logprob_threshold;
  how.no_speech_threshold = options.no_speech_threshold;
  if (options.condition_on_prev_tokens) how.condition_on_prev_tokens = true;
  if (!options.prompt.empty()) how.prompt_ids = read_speech_prompt(tokenizer, options.prompt);
  how.prng_key = RandomKey(options.seed);
  const GenerationConfig config = generation_config(*module);
  const DecodeFunction decode = [&](std::span<const int32_t> ids) { return decoded_text(tokenizer, ids); };
  Json all = Json::array();
  for (std::size_t i = 0; i < options.files.size(); ++i) {
    const std::string& file = options.files[i];
    how.num_frames = extractor.sound_frames(recordings[i]);
    const Transcription said = transcribe(*module, extractor.whole(recordings[i]), how);
    if (world.rank() != 0) continue;
    const std::string text = spoken_text(tokenizer, said.tokens, config);
    const std::vector<SpokenWord> words =
        options.word_timestamps ? words_of(said, decode, config) : std::vector<SpokenWord>();
    if (options.json) {
      Json segments = Json::array();
      for (const SpokenSegment& segment : said.segments) {
        segments.push_back(Json::object(
            {{"start", segment.start}, {"end", segment.end}, {"text", spoken(tokenizer, segment.tokens, config)}}));
        if (!options.temperature.empty()) segments.as_array().back()["temperature"] = segment.temperature;
      }
      Json entry = Json::object({{"file", file},
                                 {"text", text},
                                 {"decoder_input_ids", said.decoder_input_ids},
                                 {"ids", said.tokens},
                                 {"segments", segments}});
      if (options.word_timestamps) entry["words"] = json_of(words);
      all.push_back(std::move(entry));
      continue;
    }
    const std::string name = options.files.size() > 1 ? file + ": " : "";
    if (!options.timestamps && !options.word_timestamps) std::cout << name << text << '\n';
    for (const SpokenWord& word : words)
      std::cout << name << '[' << clock(word.start) << " --> " << clock(word.end) << "] " << trimmed(word.text) << '\n';
    for (const SpokenSegment& segment : said.segments) {
      if (!options.timestamps || options.word_timestamps) break;
      std::cout << name << '[' << clock(segment.start) << " --> " << clock(segment.end) << "] "
                << spoken_text(tokenizer, segment.tokens, config) << '\n';
    }
  }
  if (options.json && world.rank() == 0) print_json(all);
}

}  // namespace

void add_transcribe_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("transcribe", "Transcribe audio files with a Whisper model");
  auto options = std::make_shared<TranscribeArguments>();
  options->model.task = "speech-sequence-to-sequence";
  command->add_option("audio", options->files, "Audio files: WAV, FLAC, Ogg or MP3")->required()->type_name("FILE");
  command->add_option("--model", options->model.model, "A model directory, or a model on the Hub")->required();
  command->add_option("--language", options->language,
                      "Spoken language, as in generation_config.json: en, de, … (default: detected)");
  command->add_option("--task", options->task,
                      "transcribe, or translate into English (default: transcribe with --language, else the model's)");
  command->add_option("--prompt", options->prompt,
                      "Text before the recording, such as names that it mentions or the text of what came before");
  command->add_flag("--timestamps", options->timestamps, "Print the start and end of each segment in seconds");
  command->add_flag("--word-timestamps", options->word_timestamps,
                    "Print the start and end of each word in seconds; needs alignment_heads in generation_config.json");
  command
      ->add_option("--temperature", options->temperature,
                   "Sampling temperatures, such as 0,0.2,0.4: each is tried if the text of the one before fails a "
                   "threshold below; 0: greedy (default: 0)")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber);
  command->add_option(
      "--compression-ratio-threshold", options->compression_ratio_threshold,
      "Compression ratio above which a text fails, because it repeats itself (default: the model's, else none)");
  command->add_option("--logprob-threshold", options->logprob_threshold,
                      "Mean log-probability of the tokens below which a text fails (default: the model's, else none)");
  command->add_option("--no-speech-threshold", options->no_speech_threshold,
                      "No-speech probability above which a text that fails --logprob-threshold counts as silence "
                      "(default: the model's, else none)");
  command->add_flag("--condition-on-prev-tokens", options->condition_on_prev_tokens,
                    "Prompt each 30 s window with the text so far");
  command->add_option("--seed", options->seed, "Random seed for sampling")->capture_default_str();
  command
      ->add_option("--max-new-tokens", options->max_new_tokens,
                   "Maximum number of tokens per 30 s window (default: the model's)")
      ->check(CLI::PositiveNumber);
  command->add_option("--num-beams", options->num_beams, "Number of beams (default: the model's)")
      ->check(CLI::PositiveNumber);
  command->add_option("--dtype", options->model.dtype, "Compute dtype (default: bf16 on a GPU, fp32 on a CPU)");
  command->add_option("--param-dtype", options->model.param_dtype, "Dtype of the stored weights (default: --dtype)");
  add_device_options(*command, options->model);
  command->add_option("--revision", options->model.revision, "Branch, tag or commit on the Hub")->capture_default_str();
  command->add_option("--set", options->model.overrides, "Override a config key: --set attn_mechanism=vanilla")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "Print JSON: text, ids and segments of each file");
  command->footer(help_examples({"transcribe interview.mp3 --model openai/whisper-small --timestamps"}));
  command->callback([options] {
    const std::optional<AutoTokenizer> tokenizer = load_tokenizer(options->model);
    on_ranks(options->model, [&](World& world) { run(*options, tokenizer ? &**tokenizer : nullptr, world); });
  });
}

}  // namespace easydel::cli
