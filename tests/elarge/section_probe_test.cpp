// A run of a tiny model for every field of every section: each of them changes what the run leaves behind.
#include <ATen/Parallel.h>

#include <filesystem>
#include <map>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/core/progress/progress_board.h"
#include "easydel/elarge/config/sections.h"
#include "easydel/elarge/elarge_model.h"
#include "easydel/elarge/serve_options.h"
#include "easydel/infra/auto_model.h"
#include "easydel/infra/config/auto_config.h"
#include "easydel/tokenizers/bpe/bpe_trainer.h"
#include "easydel/trainers/trainer.h"
#include "tests/support/setting_probes.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {
namespace fs = std::filesystem;
using testing_support::expect_every_setting_acts;
using testing_support::keys_of;
using testing_support::SettingProbe;

const std::vector<std::string> kWords = {"red",   "blue",  "green", "sun",  "moon",
                                         "river", "stone", "walk",  "fast", "slow"};

std::string sentence(std::size_t seed, std::size_t words) {
  std::string text;
  for (std::size_t i = 0; i < words; ++i) text += (i ? " " : "") + kWords[(seed * 7 + i * i * 3 + i) % kWords.size()];
  return text;
}

int64_t count_threads() {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/task")) ++count;
  return count;
}

// Keeps progress bars for a look, and logs from the terminal, while it lives.
struct QuietRun {
  QuietRun() {
    ProgressBoard::override_for_thread(&board);
    log::set_sink([](log::Level, const std::string&) {});
  }
  ~QuietRun() {
    log::set_sink({});
    ProgressBoard::override_for_thread(nullptr);
  }
  QuietRun(const QuietRun&) = delete;
  QuietRun& operator=(const QuietRun&) = delete;

  std::string shown;
  ProgressBoard board{{.terminal = true,
                       .width = 80,
                       .write = [this](const std::string& text) { shown += text; },
                       .now = [] { return std::chrono::steady_clock::time_point(); }}};
};

class SectionProbes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    at::set_num_threads(1);
    files_ = std::make_unique<TemporaryDirectory>();
    write_tokenizer("model", 270);
    write_tokenizer("other_tokenizer", 262);
    write_model("model", Json::parse(R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 32})"));
    fs::copy(file("model"), file("moe"));
    write_model("moe", Json::parse(R"({"model_type": "mixtral", "hidden_size": 16, "intermediate_size": 32,
                                       "num_local_experts": 4, "num_experts_per_tok": 2})"));
    fs::copy(file("model"), file("wide"));
    write_model("wide", Json::parse(R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 64})"));
    std::string rows, more, conversations;
    for (std::size_t i = 0; i < 12; ++i) {
      const Json ids = Json::array({1, 2 + static_cast<int64_t>(i), 5, 9});
      rows +=
          Json::object({{"text", sentence(i, 4 + i)}, {"body", sentence(i + 50, 5)}, {"kind", i % 2 ? "odd" : "even"}})
              .dump() +
          "\n";
      more += Json::object({{"text", sentence(i + 100, 6)}}).dump() + "\n";
      conversations += Json::object({{"ids", ids}, {"text", sentence(i, 5)}}).dump() + "\n";
    }
    write_file_atomically(file("rows.jsonl"), rows);
    write_file_atomically(file("more.jsonl"), more);
    write_file_atomically(file("ids.jsonl"), conversations);
    write_file_atomically(file("pairs.jsonl"), R"({"prompt": "red", "completion": "blue sun"})"
                                               "\n");
    write_file_atomically(file("rows.txt"), "red blue\nsun moon river\n\nstone walk\n");
    write_big_file();
    fs::create_directories(file("splits/train"));
    fs::create_directories(file("splits/test"));
    write_file_atomically(file("splits/train/a.jsonl"), rows);
    write_file_atomically(file("splits/test/a.jsonl"), more);
  }
  static void TearDownTestSuite() { files_.reset(); }

  static std::string file(const std::string& name) { return (*files_ / name).string(); }

  // Larger than what is kept in memory of a compressed file, and small on the disk.
  static void write_big_file() {
    std::string rows;
    const std::string padding(90'000, 'x');
    for (std::size_t i = 0; i < 800; ++i)
      rows += Json::object({{"text", sentence(i, 6)}, {"padding", padding}}).dump() + "\n";
    write_file_atomically(file("big.jsonl"), rows);
    ASSERT_EQ(std::system(("gzip -1 " + file("big.jsonl")).c_str()), 0);
  }

  static void write_tokenizer(const std::string& directory, int64_t size) {
    std::size_t next = 0;
    Json tokenizer = train_byte_level_bpe(
        [&](std::string& text) {
          text = sentence(next, 20);
          return next++ < 20;
        },
        {.vocab_size = size, .special_tokens = {"</s>"}});
    tokenizer["post_processor"] = Json::parse(R"({"type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"</s>": {"id": "</s>", "ids": [0], "tokens": ["</s>"]}}})");
    fs::create_directories(file(directory));
    write_file_atomically(file(directory + "/tokenizer.json"), tokenizer.dump());
    write_file_atomically(
        file(directory + "/tokenizer_config.json"),
        R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>", "pad_token": "</s>"})");
  }

  static void write_model(const std::string& directory, Json config) {
    for (const auto& [key, value] : std::map<std::string, int64_t>{{"vocab_size", 270},
                                                                   {"num_hidden_layers", 1},
                                                                   {"num_attention_heads", 4},
                                                                   {"num_key_value_heads", 2},
                                                                   {"max_position_embeddings", 64},
                                                                   {"eos_token_id", 0},
                                                                   {"pad_token_id", 0}})
      config[key] = value;
    const auto parsed = AutoConfig::from_dict(config);
    init_model(*parsed, TaskType::CausalLM, {.rngs = RandomKey(3)})
        ->save_pretrained(file(directory), {.verbose = false});
  }

  // One step of sft on rows.jsonl.
  static Json base() {
    Json json = Json::parse(R"({"loader": {"device": "cpu"},
        "trainer": {"max_training_steps": 2, "total_batch_size": 4, "max_length": 16, "learning_rate": 0.01,
                    "log_steps": 1, "report_steps": 1, "save_optimizer_state": false, "html_report": false,
                    "use_tensorboard": false, "async_save": false, "progress_bar_type": "none"}})");
    json["model"]["name_or_path"] = file("model");
    json["mixture"]["informs"] = Json::array({Json::object({{"data_files", file("rows.jsonl")}})});
    return json;
  }

  // What a run leaves: losses, the checkpoint, what was shown, how many threads prepared rows, what ranks sent.
  static Json observe(Json config) {
    const TemporaryDirectory out;
    config["trainer"]["save_directory"] = (out / "run").string();
    Json seen = Json::object();
    const QuietRun run;
    ELargeModel model(config);
    model.validate();
    if (model.devices() > 1) {
      std::map<std::string, int64_t> sent;
      run_ranks(model.devices(), [&](World& world) {
        ELargeModel own(config);
        const TrainResult result = own.build_trainer()->train();
        if (world.rank() != 0) return;
        for (const auto& [key, entry] : world.stats().entries) sent[key.first + " " + key.second] = entry.bytes;
        seen["mesh"] = own.build_model()->config().mesh().to_string();
      });
      for (const auto& [key, bytes] : sent) seen["sent"][key] = bytes;
    } else {
      const int64_t before = count_threads();
      const auto trainer = model.build_trainer();
      seen["threads"] = count_threads() - before;
      trainer->train();
      seen["precision"] = static_cast<int64_t>(model.build_model()->options().precision);
    }
    add_files(out.path(), seen);
    seen["loading shown"] = run.shown.find("loading") != std::string::npos;
    return seen;
  }

  static void add_files(const fs::path& directory, Json& seen) {
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      const std::string name = entry.path().filename().string();
      if (name == "metrics.jsonl") {
        std::istringstream lines(read_file(entry.path()));
        for (std::string line; std::getline(lines, line);) {
          const Json parsed = Json::parse(line);
          for (const char* key : {"loss", "tokens", "train/loss", "tokens_seen"}) {
            if (const Json* value = parsed.find(key)) seen["metrics"].push_back(*value);
          }
        }
      } else if (name.ends_with(".safetensors") || name == "config.json" || name == "tokenizer.json") {
        seen[name] = static_cast<int64_t>(std::hash<std::string>{}(read_file(entry.path())) >> 1);
      }
    }
    ASSERT_TRUE(seen.contains("metrics") && seen.contains("config.json")) << seen.dump();
  }

  template <class Section>
  static std::vector<std::string> keys() {
    Section section;
    return keys_of([&](FieldVisitor& v) { list_fields(section, v); });
  }

  // Probes of one section: settings are merged into the section at `path`.
  static testing_support::Observer observer(const std::string& section, Json config = base()) {
    return [section, config](const Json& settings) {
      Json changed = config;
      for (const auto& [key, value] : settings.as_object()) {
        const std::size_t dot = key.find('.');  // "trainer.max_length": of another section
        if (dot == std::string::npos) {
          changed[section][key] = value;
        } else {
          changed[key.substr(0, dot)][key.substr(dot + 1)] = value;
        }
      }
      return observe(changed);
    };
  }

  static std::unique_ptr<TemporaryDirectory> files_;
};
std::unique_ptr<TemporaryDirectory> SectionProbes::files_;

TEST_F(SectionProbes, Model) {
  expect_every_setting_acts(keys<ModelSection>(),
                            {{"name_or_path", file("moe")},
                             {"tokenizer", file("other_tokenizer")},
                             {"task", "sequence-classification"},
                             {"extra_kwargs", Json::object({{"hidden_act", "gelu"}})},
                             {"extra_kwargs", Json::object({{"revision", 3}})}},
                            observer("model"));
}

TEST_F(SectionProbes, Loader) {
  expect_every_setting_acts(
      keys<LoaderSection>(),
      {{"device", "cuda:99"}, {"dtype", "bf16"}, {"param_dtype", "bf16"}, {"precision", "highest"}, {"verbose", false}},
      observer("loader"));
}

TEST_F(SectionProbes, Platform) {
  Json config = base();
  config.as_object().erase("loader");
  expect_every_setting_acts(keys<PlatformSection>(), {{"backend", "tpu"}}, observer("platform", config));
}

TEST_F(SectionProbes, Sharding) {
  Json config = base();
  config["model"]["name_or_path"] = file("moe");
  config["sharding"]["axis_dims"] = Json::array({1, 2, 2, 1, 1});
  config["loader"]["verbose"] = false;
  const Json sequence = Json::object({{"axis_dims", Json::array({1, 1, 2, 1, 2})}});
  const Json renamed = Json::parse(R"({"data_parallel_axis": "a", "fully_sharded_data_parallel_axis": "b",
      "expert_parallel_axis": "c", "tensor_parallel_axis": "d", "sequence_parallel_axis": "e"})");
  expect_every_setting_acts(
      keys<ShardingSection>(),
      {{"axis_dims", Json::array({2, 1, 2, 1, 1})},
       {"axis_names", Json::array({"a", "b", "c", "d", "e"}), Json::object({{"partition_axis", renamed}})},
       {"dcn_axis_dims", Json::array({1, 2, 1, 1, 1}), Json::object({{"axis_dims", Json::array({1, 1, 2, 1, 1})}})},
       {"partition_axis", Json::object({{"batch_axis", Json::array({"dp"})}})},
       {"auto_shard_model", false},
       {"zero_stage", 1},
       {"shard_attention_computation", false},
       {"fsdp_is_ep_bound", false},
       {"sp_is_ep_bound", false, sequence}},
      [&](const Json& settings) {
        try {
          return observer("sharding", config)(settings);
        } catch (const Error& error) {
          // Names of axes that the mesh lacks; with axis_names it has them.
          if (settings.size() > 1 || !settings.contains("partition_axis")) throw;
          return Json("refused");
        }
      });
}

TEST_F(SectionProbes, Quantization) {
  Json config = base();
  config["trainer"]["lora_rank"] = 2;
  config["model"]["name_or_path"] = file("wide");
  const Json packed = Json::object({{"method", "nf4"}});
  expect_every_setting_acts(keys<QuantizationSection>(),
                            {{"method", "8bit"},
                             {"group_size", 32, packed},
                             {"linear_group_size", 32, packed},
                             {"linear_pattern", "q_proj", packed},
                             {"apply_quantization", false, packed},
                             {"kv_cache", Json::object({{"dtype", "int8"}})},
                             {"model", Json::object({{"quantization_method", "nf4"}})}},
                            observer("quantization", config));
}

TEST_F(SectionProbes, BaseConfig) {
  const Json noted = Json::object({{"flash_attn2", Json::object({{"blocksize_q", 128}})}});
  expect_every_setting_acts({"values"}, {{"values", Json::object({{"hidden_act", "gelu"}})}}, observer("base_config"));
  // The other field is noted, never read.
  Json config = base();
  config["base_config"]["operation_configs"] = noted;
  EXPECT_EQ(ELargeConfig(config).notes(),
            std::vector<std::string>{
                "[elarge] base_config.operation_configs has no effect here. It configures EasyDeL's kernels."});
  EXPECT_EQ(keys<BaseConfigSection>(), (std::vector<std::string>{"values", "operation_configs"}));
}

TEST_F(SectionProbes, Mixture) {
  const auto two = [&] {
    Json informs = base().at("mixture").at("informs");
    informs.as_array()[0]["name"] = "a";
    informs.push_back(Json::object({{"data_files", file("more.jsonl")}, {"name", "b"}, {"num_rows", 3}}));
    return Json::object({{"informs", informs}, {"trainer.max_training_steps", 5}});
  }();
  const auto and_also = [](Json beside, const char* key, Json value) {
    beside[key] = std::move(value);
    return beside;
  };
  const Json content = Json::object(
      {{"informs", Json::array({Json::object({{"data_files", file("rows.jsonl")}, {"content_field", "body"}})})}});
  const Json big = Json::object(
      {{"informs", Json::array({Json::object({{"data_files", file("big.jsonl.gz")}})})}, {"shuffle_buffer_size", 4}});
  const Json unpacked = and_also(big, "streaming", false);
  const Json with_ids = Json::object({{"informs", Json::array({Json::object({{"data_files", file("ids.jsonl")}})})}});
  const Json epochs = Json::object({{"trainer.max_training_steps", Json()}, {"trainer.num_train_epochs", 1}});
  Json epochs_of_two = two;
  for (const auto& [key, value] : epochs.as_object()) epochs_of_two[key] = value;
  expect_every_setting_acts(
      keys<MixtureSection>(),
      {{"cache_dir", file("no/such/directory"), unpacked},
       {"streaming", false, big},
       {"text_target_field", "body"},
       {"shuffle_buffer_size", Json()},
       {"seed", 7},
       {"pack_tokens", true},
       {"tokens_field_name", "ids", with_ids},
       {"pack_seq_length", 8, Json::object({{"pack_tokens", true}, {"trainer.max_length", Json()}})},
       {"prefetch_workers", 0},
       {"prefetch_buffer_size", 0},
       {"block_mixture", false, two},
       {"mixture_block_size", 4, two},
       {"stop_strategy", "first_exhausted", epochs_of_two},
       {"mixture_weights", Json::object({{"a", 0.2}, {"b", 0.8}}), two}},
      observer("mixture"));
}

TEST_F(SectionProbes, Informs) {
  const auto observe_inform = [](const Json& settings) {
    Json config = base();
    Json& inform = config["mixture"]["informs"].as_array()[0];
    for (const auto& [key, value] : settings.as_object()) inform[key] = value;
    if (settings.contains("weight"))
      config["mixture"]["informs"].push_back(Json::object({{"data_files", file("more.jsonl")}, {"weight", 0.5}}));
    if (const Json* name = settings.find("name"); name) config["mixture"]["mixture_weights"]["a"] = 1.0;
    try {
      return observe(config);
    } catch (const FormatError& error) {
      if (!settings.contains("content_field") || settings.contains("additional_fields")) throw;
      return Json("a prompt without its completion");
    }
  };
  const Json splits = Json::object({{"data_files", Json()}, {"dataset_name", file("splits")}});
  const Json text = Json::object({{"data_files", file("rows.txt")}});
  const Json half = Json::object({{"data_files", file("pairs.jsonl")}, {"content_field", "prompt"}});
  expect_every_setting_acts(keys<data::DatasetOptions>(),
                            {{"type", "txt"},
                             {"dataset_name", file("splits"), Json::object({{"data_files", file("more.jsonl")}})},
                             {"data_files", file("more.jsonl")},
                             {"name", "b"},
                             {"dataset_split_name", "test", splits},
                             {"split", "test", splits},
                             {"revision", "other", Json::object({{"data_files", file("more.jsonl")}})},
                             {"sample_by", "document", text},
                             {"content_field", "body"},
                             {"additional_fields", Json::array({"completion"}), half},
                             {"format_fields", Json::object({{"body", "text"}})},
                             {"filter_query", "kind == 'odd'"},
                             {"num_rows", 2},
                             {"weight", 3.0, Json::object({{"weight", 0.5}})}},
                            observe_inform);
}

TEST_F(SectionProbes, Tokenization) {
  const auto observe_tokenization = [](const Json& settings) {
    Json config = base();
    if (settings.contains("max_length")) config["trainer"].as_object().erase("max_length");
    config["mixture"]["tokenization"] = settings;
    return observe(config);
  };
  expect_every_setting_acts(keys<TokenizationSection>(),
                            {{"tokenizer", file("other_tokenizer")},
                             {"max_length", 8},
                             {"padding", "sideways"},
                             {"add_special_tokens", false},
                             {"text_field", "body"}},
                            observe_tokenization);
}

TEST_F(SectionProbes, Eval) {
  for (const char* name : {"tasks_a", "tasks_b"}) {
    fs::create_directories(file(name));
    std::string rows;
    for (std::size_t i = 0; i < 8; ++i)
      rows += Json::object({{"q", sentence(i + name[6], 4)}, {"a", sentence(i, 1)}}).dump() + "\n";
    write_file_atomically(file(name + std::string("/rows.jsonl")), rows);
    std::string prompts;
    for (std::size_t i = 0; i < 8; ++i) {
      prompts += Json::object({{"q", sentence(i, 4)},
                               {"instruction_id_list", Json::array({"length_constraints:number_words"})},
                               {"kwargs", Json::array({Json::object({{"num_words", 2}, {"relation", "less than"}})})}})
                     .dump() +
                 "\n";
    }
    write_file_atomically(file(name + std::string("/prompts.jsonl")), prompts);
    const std::string written =
        concat("dataset_path: json\ndataset_kwargs: {data_files: {test: ", file(name),
               "/prompts.jsonl}}\ntest_split: test\noutput_type: generate_until\ndoc_to_text: q\n"
               "doc_to_target: assert 1\ngeneration_kwargs: {until: [], max_gen_toks: 12}\n");
    write_file_atomically(file(name + std::string("/written.yaml")),
                          "task: written\n" + written + "metric_list: [{metric: prompt_level_strict_acc}]\n");
    write_file_atomically(file(name + std::string("/code.yaml")),
                          "task: code\n" + written + "metric_list: [{metric: pass_at_k, k: 1}]\n");
    write_file_atomically(file(name + std::string("/words.yaml")),
                          concat("task: words\ndataset_path: json\ndataset_kwargs: {data_files: {test: ", file(name),
                                 "/rows.jsonl}}\ntest_split: test\nfewshot_split: test\noutput_type: loglikelihood\n"
                                 "doc_to_text: q\ndoc_to_target: a\nmetric_list: [{metric: perplexity}]\n"));
  }
  const auto observe_eval = [](const Json& settings) {
    Json config = base();
    config.as_object().erase("trainer");
    config.as_object().erase("mixture");
    config["eval"] = settings;
    std::string task = "words";
    if (const Json* given = settings.find("task")) {  // of the probe, not of the section
      task = given->as_string();
      config["eval"].as_object().erase("task");
    }
    const QuietRun run;
    try {
      Json results = ELargeModel(config).eval({.tasks = {task}});
      results["progress shown"] = run.shown.find("eval") != std::string::npos;
      return results;
    } catch (const ConfigError& error) {
      if (task != "code" || settings.contains("confirm_run_unsafe_code")) throw;
      return Json(error.what());
    }
  };
  const Json here = Json::object({{"include_path", file("tasks_a")}});
  const Json shots = Json::object({{"include_path", file("tasks_a")}, {"num_fewshot", 2}});
  const Json written = Json::object({{"include_path", file("tasks_a")}, {"task", "written"}});
  const Json code = Json::object({{"include_path", file("tasks_a")}, {"task", "code"}});
  expect_every_setting_acts(keys<EvalSection>(),
                            {{"num_fewshot", 1, here},
                             {"batch_size", 1, here},
                             {"limit", 3, here},
                             {"system_instruction", "moon", here},
                             {"use_tqdm", false, here},
                             {"include_path", file("tasks_b"), here},
                             {"bootstrap_iters", 10, here},
                             {"fewshot_random_seed", 5, shots},
                             {"apply_chat_template", true, here},
                             {"chat_template_args", "none", here},
                             {"fewshot_as_multiturn", true, here},
                             {"gen_kwargs", Json::object({{"max_gen_toks", 1}}), written},
                             {"confirm_run_unsafe_code", true, code},
                             {"code_eval_timeout", 0.0, here}},
                            observe_eval);
}

// What the sections say arrives in the options of the engine and the server, which options/serve_test.cpp probes.
Json observe_server(const Json& config) {
  const serve::ServerOptions options = to_server_options(ELargeConfig(config));
  const serve::EngineOptions& engine = options.engine;
  Json seen = Json::object({{"host", options.http.host},
                            {"port", int64_t{options.http.port}},
                            {"tls", options.http.tls_cert + options.http.tls_key},
                            {"body", options.http.max_body_bytes},
                            {"connections", options.http.max_connections},
                            {"origins", options.http.cors_origins},
                            {"names", options.service.served_model_names},
                            {"keys", options.service.api_keys},
                            {"template", options.service.chat_template},
                            {"trust", options.service.trust_request_chat_template},
                            {"media", options.service.allowed_local_media_path},
                            {"domains", options.service.allowed_media_domains},
                            {"tools", options.service.tool_parser},
                            {"reasoning", options.service.reasoning_parser},
                            {"request", static_cast<int64_t>(options.service.request_timeout.count())},
                            {"shutdown", static_cast<int64_t>(options.shutdown_timeout.count())},
                            {"page", options.service.enable_page},
                            {"replicas", options.data_parallel_size},
                            {"seqs", engine.max_num_seqs},
                            {"tokens", engine.max_num_batched_tokens},
                            {"length", engine.max_model_len},
                            {"waiting", engine.max_waiting},
                            {"memory", engine.gpu_memory_utilization},
                            {"page size", engine.page_size},
                            {"pages", engine.num_pages},
                            {"dtype", engine.kv_cache_dtype},
                            {"prefix", engine.enable_prefix_caching},
                            {"chunked", engine.enable_chunked_prefill},
                            {"graphs", engine.use_graphs},
                            {"guesses", engine.num_speculative_tokens},
                            {"method", engine.speculative_method},
                            {"ahead", engine.async_scheduling},
                            {"ngrams", Json::array({engine.ngram_max.value_or(0), engine.ngram_min.value_or(0)})},
                            {"seed", static_cast<int64_t>(engine.seed)}});
  for (const auto& [name, directory] : options.adapters) seen["adapters"][name] = directory;
  return seen;
}

TEST_F(SectionProbes, Esurge) {
  const auto observe_esurge = [](const Json& settings) {
    return observe_server(Json::object({{"model", Json::object({{"name_or_path", "m"}})}, {"esurge", settings}}));
  };
  expect_every_setting_acts(keys<EsurgeSection>(),
                            {{"max_model_len", 64},
                             {"max_num_seqs", 3},
                             {"max_num_batched_tokens", 32},
                             {"page_size", 8},
                             {"hbm_utilization", 0.5},
                             {"enable_prefix_caching", false},
                             {"tool_parser", "hermes"},
                             {"reasoning_parser", "deepseek_r1"}},
                            observe_esurge);
}

TEST_F(SectionProbes, Serve) {
  write_file_atomically(file("template.jinja"), "{{ messages }}");
  const auto observe_serve = [](const Json& settings) {
    return observe_server(Json::object({{"model", Json::object({{"name_or_path", "m"}})}, {"serve", settings}}));
  };
  expect_every_setting_acts(keys<ServeSection>(),
                            {{"host", "0.0.0.0"},
                             {"port", 9000},
                             {"api_key", "secret"},
                             {"tls_cert", "cert.pem"},
                             {"tls_key", "key.pem"},
                             {"cors_origin", "*"},
                             {"served_model_name", Json::array({"a", "b"})},
                             {"chat_template", file("template.jinja")},
                             {"trust_request_chat_template", true},
                             {"allowed_local_media_path", "images"},
                             {"allowed_media_domains", "example.com"},
                             {"tool_parser", "hermes"},
                             {"reasoning_parser", "deepseek_r1"},
                             {"max_connections", 5},
                             {"max_body_mib", 2},
                             {"request_timeout", 1.5},
                             {"shutdown_timeout", 2.5},
                             {"no_page", true},
                             {"max_num_seqs", 3},
                             {"max_num_batched_tokens", 32},
                             {"max_model_len", 64},
                             {"max_waiting", 7},
                             {"gpu_memory_utilization", 0.5},
                             {"page_size", 8},
                             {"num_pages", 40},
                             {"kv_cache_dtype", "int8"},
                             {"no_prefix_caching", true},
                             {"no_chunked_prefill", true},
                             {"no_graphs", true},
                             {"async_scheduling", true},
                             {"speculative_tokens", 2},
                             {"ngram_max", 6},
                             {"ngram_min", 2},
                             {"draft_model", file("model")},
                             {"adapter", Json::object({{"mine", "directory"}})},
                             {"data_parallel_size", 2},
                             {"seed", 5}},
                            observe_serve);
}

}  // namespace
}  // namespace easydel
