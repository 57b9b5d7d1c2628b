// easydel generate: generates text from a prompt.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/options/generation_options.h"
#include "easydel/cli/options/image_inputs.h"
#include "easydel/cli/options/model_options.h"
#include "easydel/cli/options/speech_text.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/cli/terminal/help.h"
#include "easydel/cli/terminal/text.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/generation/generate.h"
#include "easydel/generation/speech/transcribe.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/infra/registry.h"
#include "easydel/io/hub/hub.h"
#include "easydel/io/safetensors/safetensors.h"
#include "easydel/io/safetensors/safetensors_writer.h"
#include "easydel/processors/feature_extractor.h"
#include "easydel/processors/vision_processor.h"

namespace easydel::cli {
namespace {

struct GenerateArguments {
  ModelOptions model;
  GenerationOptions generation;
  std::vector<int64_t> input_ids;
  std::string input, prompt, prompt_file, output;
  std::vector<std::string> images, videos, sounds;
  std::optional<double> fps;
  uint64_t seed = 0;
  bool json = false;
};

struct Prompt {
  at::Tensor input_ids;  // undefined: start from the model's bos_token_id
  PromptInputs inputs;
  std::optional<ImageInputs> images = {};
};

Prompt read_tensors(const std::string& path) {
  const auto file = SafetensorsFile::open(path);
  Prompt prompt;
  const std::vector<std::pair<std::string, at::Tensor*>> known{
      {"input_ids", &prompt.input_ids},
      {"attention_mask", &prompt.inputs.attention_mask},
      {"position_ids", &prompt.inputs.position_ids},
      {"token_type_ids", &prompt.inputs.token_type_ids},
      {"pixel_values", &prompt.inputs.pixel_values},
      {"image_sizes", &prompt.inputs.image_sizes},
      {"image_grid_thw", &prompt.inputs.image_grid_thw},
      {"pixel_values_videos", &prompt.inputs.pixel_values_videos},
      {"video_grid_thw", &prompt.inputs.video_grid_thw},
      {"second_per_grid_ts", &prompt.inputs.second_per_grid_ts},
      {"pixel_attention_mask", &prompt.inputs.pixel_attention_mask}};
  for (const std::string& name : file->names()) {
    const auto found = std::find_if(known.begin(), known.end(), [&](const auto& entry) { return entry.first == name; });
    require<FormatError>(found != known.end(), "[", path, "] \"", name,
                         "\" is not an input; inputs are input_ids, attention_mask, position_ids, token_type_ids, "
                         "pixel_values, image_sizes, image_grid_thw, pixel_values_videos, video_grid_thw, "
                         "second_per_grid_ts and pixel_attention_mask.");
    *found->second = file->tensor(name);
  }
  return prompt;
}

Prompt read_prompt(const GenerateArguments& options, const Tokenizer* tokenizer) {
  if (!options.input.empty()) return read_tensors(options.input);
  if (!options.prompt.empty() || !options.prompt_file.empty()) {
    require<NotSupportedError>(tokenizer, "[generate] ", options.model.model,
                               " has no tokenizer that this build can read. Use --input-ids.");
    std::string text = options.prompt_file.empty() ? options.prompt : read_file(options.prompt_file);
    std::optional<ImageInputs> images;
    if (!options.images.empty() || !options.videos.empty()) {
      const VisionProcessor processor =
          VisionProcessor::from_pretrained(options.model.model, {.revision = options.model.revision});
      images = options.images.empty() ? ImageInputs() : processor.load(options.images);
      processor.add_videos(*images, options.videos, options.fps);
      text = processor.expand(text, *images);
    }
    const std::vector<int32_t> ids = tokenizer->encode_ids(text);
    return {.input_ids = at::tensor(ids, at::kInt).to(at::kLong).unsqueeze(0), .images = std::move(images)};
  }
  if (options.input_ids.empty()) return {};
  return {.input_ids = at::tensor(options.input_ids, at::kLong).unsqueeze(0)};
}

bool has_images(const GenerateArguments& options) {
  if (!options.images.empty() || !options.videos.empty()) return true;
  if (options.input.empty()) return false;
  const auto file = SafetensorsFile::open(options.input);
  return file->contains("pixel_values") || file->contains("pixel_values_videos");
}

enum class ModelKind { Decoder, EncoderDecoder, Speech };

struct KnownModel {
  ModelKind kind = ModelKind::Decoder;
  std::string type;
};

// Of what the files are: an encoder-decoder generates from what its encoder reads, which is text or sound.
KnownModel find_model(const ModelOptions& options) {
  const auto directory = resolve(options.model, {.revision = options.revision, .files = {"config.json"}});
  const auto config = AutoConfig::from_pretrained(directory.string());
  KnownModel found{.type = std::string(config->model_type())};
  const std::vector<TaskType> tasks = Registry::instance().tasks(found.type);
  const auto has = [&](TaskType task) { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); };
  if (has(TaskType::SpeechSequenceToSequence)) {
    found.kind = ModelKind::Speech;
  } else if (config->is_encoder_decoder && has(TaskType::SequenceToSequence)) {
    found.kind = ModelKind::EncoderDecoder;
  }
  return found;
}

void check_audio(const GenerateArguments& options, const KnownModel& model) {
  if (model.kind != ModelKind::Speech) {
    require<UsageError>(options.sounds.empty(), "--audio: ", model.type, " does not accept audio; got ",
                        options.sounds.empty() ? "" : options.sounds.front(),
                        ". Use a speech model: easydel generate openai/whisper-small --audio FILE.");
    return;
  }
  require<UsageError>(!options.sounds.empty(), "easydel generate: ", model.type,
                      " is a speech recognition model, which needs --audio FILE. For timestamps, languages and "
                      "translation, use: easydel transcribe FILE --model ",
                      options.model.model);
  for (const auto& [flag, given] :
       {std::pair("--input-ids", !options.input_ids.empty()), std::pair("--input", !options.input.empty()),
        std::pair("--image", !options.images.empty()), std::pair("--video", !options.videos.empty()),
        std::pair("--output", !options.output.empty())})
    require<UsageError>(!given, flag, " is not supported with --audio.");
}

std::vector<int64_t> new_ids(const GenerateOutput& out, std::size_t row) {
  const at::Tensor ids =
      out.sequences[static_cast<int64_t>(row)].narrow(0, out.prompt_length, out.lengths[row]).to(at::kCPU).contiguous();
  return {ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel()};
}

Json to_json(const GenerateOutput& out, const Tokenizer* tokenizer) {
  Json rows = Json::array();
  for (std::size_t row = 0; row < out.lengths.size(); ++row) {
    const std::vector<int64_t> ids = new_ids(out, row);
    Json entry = Json::object({{"ids", ids}, {"finish_reason", finish_reason_name(out.finish_reasons[row])}});
    if (tokenizer) entry["text"] = tokenizer->decode(std::vector<int32_t>(ids.begin(), ids.end()));
    const auto at = static_cast<int64_t>(row);
    if (out.log_probs.defined()) {
      Json::Array values;
      for (int64_t i = 0; i < out.lengths[row]; ++i) values.emplace_back(out.log_probs[at][i].item<double>());
      entry["log_probs"] = values;
    }
    if (out.sequences_scores.defined()) entry["score"] = out.sequences_scores[at].item<double>();
    rows.push_back(entry);
  }
  return Json::object({{"prompt_length", out.prompt_length}, {"sequences", rows}});
}

void write_tensors(const std::string& path, const GenerateOutput& out) {
  NamedTensors tensors{{"sequences", out.sequences}, {"lengths", at::tensor(out.lengths, at::kLong)}};
  const auto put = [&](const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) tensors.emplace_back(name, tensor);
  };
  put("log_probs", out.log_probs);
  put("sequences_scores", out.sequences_scores);
  put("beam_indices", out.beam_indices);
  for (std::size_t i = 0; i < out.scores.size(); ++i) put(concat("scores.", i), out.scores[i]);
  for (std::size_t i = 0; i < out.logits.size(); ++i) put(concat("logits.", i), out.logits[i]);
  save_safetensors(path, tensors);
}

// As generate of transformers does it for Whisper: --prompt becomes its prompt_ids.
void run_speech(const GenerateArguments& options, const GenerationConfig& config, const Tokenizer* tokenizer,
                World& world) {
  const WhisperFeatureExtractor extractor =
      AutoFeatureExtractor::from_pretrained(options.model.model, {.revision = options.model.revision});
  std::vector<at::Tensor> recordings;  // before the model, so that a broken one ends it at once
  for (const std::string& file : options.sounds) recordings.push_back(extractor.load(file));
  const std::string prompt = options.prompt_file.empty() ? options.prompt : read_file(options.prompt_file);
  TranscribeOptions how{.generation_config = config, .prng_key = RandomKey(options.seed)};
  if (config.samples()) {
    how.temperature = {config.temperature.value_or(1)};
    how.generation_config.do_sample = false;
  }
  if (!prompt.empty()) how.prompt_ids = read_speech_prompt(tokenizer, prompt);
  const std::shared_ptr<BaseModule> module = load(options.model);
  Json rows = Json::array();
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const Transcription said = transcribe(*module, extractor.whole(recordings[i]), how);
    if (world.rank() != 0) continue;
    const std::string text = spoken_text(tokenizer, said.tokens, config);
    if (!options.json) std::cout << (recordings.size() > 1 ? options.sounds[i] + ": " : "") << text << '\n';
    rows.push_back(Json::object({{"file", options.sounds[i]},
                                 {"decoder_input_ids", said.decoder_input_ids},
                                 {"ids", said.tokens},
                                 {"text", text}}));
  }
  if (options.json && world.rank() == 0) print_json(Json::object({{"sequences", rows}}));
}

void run(const GenerateArguments& options, const GenerationConfig& config, const Tokenizer* tokenizer, World& world) {
  Prompt prompt = read_prompt(options, tokenizer);
  const std::shared_ptr<BaseModule> module = load(options.model);
  if (prompt.images) prompt.inputs = image_prompt(*prompt.images, *module, prompt.input_ids);
  GenerateOptions given{.generation_config = config, .prng_key = RandomKey(options.seed), .inputs = prompt.inputs};
  if (options.json && !config.output_log_probs) given.generation_config.output_log_probs = true;
  if (tokenizer) given.decode = [&](std::span<const int32_t> ids) { return tokenizer->decode(ids); };
  const int64_t rows =
      (prompt.input_ids.defined() ? prompt.input_ids.size(0) : 1) * config.num_return_sequences.value_or(1);
  const bool shown = world.rank() == 0 && !options.json;
  const bool streams = shown && rows == 1 && config.beams() == 1;
  Printer printer(tokenizer);
  if (streams) given.streamer = [&](std::span<const int64_t> tokens) { printer.add(tokens[0]); };

  const GenerateOutput out = generate(*module, prompt.input_ids, given);
  if (world.rank() != 0) return;
  if (!options.output.empty()) write_tensors(options.output, out);
  if (options.json) return print_json(to_json(out, tokenizer));
  if (streams) return printer.end();
  for (std::size_t row = 0; row < out.lengths.size(); ++row) {
    Printer one(tokenizer);
    for (const int64_t id : new_ids(out, row)) one.add(id);
    one.end();
  }
}

}  // namespace

void add_generate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("generate", "Generate text from a prompt");
  auto options = std::make_shared<GenerateArguments>();
  options->model.task = "causal-lm";
  add_model_options(*command, options->model);
  add_adapter_option(*command, options->model);
  auto* sources = command->add_option_group("Prompt", "at most one; default: the model's bos_token_id");
  sources->add_option("--prompt", options->prompt, "Prompt text");
  sources->add_option("--prompt-file", options->prompt_file, "Text file with the prompt");
  sources->add_option("--input-ids", options->input_ids, "Prompt as token ids")->delimiter(',')->type_name("ID,ID");
  sources->add_option(
      "--input", options->input,
      "safetensors file with left-padded input_ids and optionally attention_mask, position_ids, "
      "token_type_ids, pixel_values, image_sizes, image_grid_thw, pixel_attention_mask, pixel_values_videos, "
      "video_grid_thw, second_per_grid_ts");
  sources->require_option(0, 1);
  command
      ->add_option(
          "--image", options->images,
          "Image for the next placeholder (<image>) in the prompt: JPEG, PNG, WebP, GIF or BMP; can be repeated")
      ->type_name("FILE");
  command
      ->add_option("--video", options->videos,
                   "Video for the next placeholder (<|video_pad|>, <video>) in the prompt: a folder of frames, or an "
                   "animated GIF or WebP file; can be repeated")
      ->type_name("PATH");
  command
      ->add_option("--audio", options->sounds,
                   "Audio file for a speech model (whisper): WAV, FLAC, Ogg or MP3; can be repeated. --prompt is the "
                   "text before it")
      ->type_name("FILE");
  command->add_option("--fps", options->fps, "Frame rate of a --video that is a folder of frames")
      ->check(CLI::PositiveNumber);
  command->add_option("--seed", options->seed, "Random seed for --do-sample")->capture_default_str();
  command->add_option("--output", options->output, "safetensors file to write: sequences, lengths, log_probs, …");
  command->add_flag("--json", options->json, "Print JSON: ids, text, finish_reason and log_probs of each row");
  add_generation_options(*command, options->generation);
  command->footer(
      help_examples({"generate meta-llama/Llama-3.2-1B --prompt \"The capital of France is\" --max-new-tokens 20",
                     "generate MODEL --prompt-file prompt.txt --temperature 0.7 --top-p 0.9 --seed 1",
                     "generate MODEL --prompt \"<image> What is this?\" --image cat.jpg",
                     "generate openai/whisper-small --audio interview.mp3"}));
  command->callback([options, command] {
    const HubOptions hub{.revision = options->model.revision};
    const KnownModel model = find_model(options->model);
    check_audio(*options, model);
    if (command->get_option("--task")->count() == 0) {
      if (model.kind == ModelKind::EncoderDecoder) options->model.task = task_name(TaskType::SequenceToSequence);
      if (model.kind == ModelKind::Speech) options->model.task = task_name(TaskType::SpeechSequenceToSequence);
      if (has_images(*options) && has_text_part(options->model))
        options->model.task = task_name(TaskType::ImageTextToText);
    }
    const GenerationConfig config =
        to_generation_config(options->generation, GenerationConfig::from_pretrained(options->model.model, hub));
    require<UsageError>(options->images.empty() || !options->prompt.empty() || !options->prompt_file.empty(),
                        "--image needs --prompt or --prompt-file with a placeholder for it.");
    require<UsageError>(options->videos.empty() || !options->prompt.empty() || !options->prompt_file.empty(),
                        "--video needs --prompt or --prompt-file with a placeholder for it.");
    require<UsageError>(!options->fps || !options->videos.empty(), "--fps needs --video.");
    for (const auto& [flag, given] : {std::pair("--output-scores", config.output_scores.value_or(false)),
                                      std::pair("--output-logits", config.output_logits.value_or(false)),
                                      std::pair("--output-log-probs", config.output_log_probs.value_or(false))})
      require<UsageError>(!given || options->sounds.empty(), flag, " is not supported with --audio.");
    for (const auto& [flag, given] : {std::pair("--output-scores", config.output_scores.value_or(false)),
                                      std::pair("--output-logits", config.output_logits.value_or(false))})
      require<UsageError>(!given || !options->output.empty(), flag, " needs --output FILE to write them to.");
    require<UsageError>(!config.output_log_probs.value_or(false) || !options->output.empty() || options->json,
                        "--output-log-probs needs --output FILE or --json to write them to.");
    const std::optional<AutoTokenizer> tokenizer = load_tokenizer(options->model);
    on_ranks(options->model, [&](World& world) {
      const Tokenizer* const read = tokenizer ? &**tokenizer : nullptr;
      if (options->sounds.empty()) return run(*options, config, read, world);
      run_speech(*options, config, read, world);
    });
  });
}

}  // namespace easydel::cli
