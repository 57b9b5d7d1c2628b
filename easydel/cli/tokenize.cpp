// easydel tokenize: text to token ids and back.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <memory>

#include "easydel/cli/commands.h"
#include "easydel/cli/terminal/console.h"
#include "easydel/core/error.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/tokenizers/files/json_tokenizer.h"
#include "easydel/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

namespace easydel::cli {
namespace {

constexpr std::size_t kBatch = 256;                // lines per batch for the threads
constexpr std::size_t kBatchBytes = 8 << 20;       // or fewer, once they have this many bytes
constexpr std::size_t kMaxLineBytes = 256u << 20;  // of JSON

struct TokenizeOptions {
  std::string model, revision = "main", text, jsonl;
  bool decode = false, no_special_tokens = false, offsets = false, json = false;
  int threads = 0;
  bool has_text = false, has_threads = false;  // given on the command line
};

// What is accepted acts: a flag that has nothing to do here is refused by name.
void check(const TokenizeOptions& options) {
  require<UsageError>(options.has_text != !options.jsonl.empty(), "either TEXT or --jsonl FILE is required.");
  require<UsageError>(!options.offsets || !options.decode,
                      "--offsets applies only to encoding; got --decode. Leave one of them out.");
  require<UsageError>(!options.json || options.has_text, "--json applies only to TEXT; got --jsonl ", options.jsonl,
                      ", whose output is JSON anyway. Leave --json out.");
  require<UsageError>(!options.has_threads || (!options.has_text && !options.decode), "--threads ", options.threads,
                      " applies only to encoding with --jsonl; got ", options.decode ? "--decode" : "a TEXT",
                      ". Leave --threads out.");
  require<UsageError>(options.revision == "main" || !std::filesystem::exists(options.model), "--revision ",
                      options.revision, " applies only to models on the Hub; ", options.model, " is a local path.");
}

std::shared_ptr<const Tokenizer> open_tokenizer(const TokenizeOptions& options) {
  const std::filesystem::path path(options.model);
  if (!std::filesystem::is_regular_file(path))
    return AutoTokenizer::from_pretrained(options.model, {.revision = options.revision}).shared();
  if (path.extension() == ".gguf") return AutoTokenizer::from_directory(path).shared();
  if (path.extension() == ".model") return SentencePieceTokenizer::open(path);
  return JsonTokenizer::from_file(path);
}

std::vector<Encoding> encode_all(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                                 const EncodeOptions& how, int threads) {
  if (const auto* json = dynamic_cast<const JsonTokenizer*>(&tokenizer)) return json->encode_batch(texts, how, threads);
  std::vector<Encoding> encodings;
  for (const std::string& text : texts) encodings.push_back(tokenizer.encode(text, how));
  return encodings;
}

Json to_json(const std::vector<int32_t>& ids) { return Json(ids); }

Json to_json(const std::vector<Offset>& offsets) {
  Json out = Json::array();
  for (const Offset& offset : offsets) out.push_back(Json::array({offset.begin, offset.end}));
  return out;
}

Json tokens_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Json out = Json::array();
  for (const int32_t id : ids) out.push_back(tokenizer.id_to_token(id).value_or(""));
  return out;
}

std::vector<int32_t> read_ids(const Json& value, const std::string& where) {
  require<FormatError>(value.is_array(), "[easydel tokenize] ", where, " must be an array of ids; got ",
                       value.type_name(), ".");
  std::vector<int32_t> ids;
  for (const Json& id : value.as_array()) {
    require<FormatError>(id.is_int() && id.as_int() >= 0 && id.as_int() <= INT32_MAX, "[easydel tokenize] ", where,
                         " must hold ids; got ", id.dump(), ".");
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  return ids;
}

// Lines in, lines out, in order; processed in batches by the threads.
class Lines {
 public:
  Lines(const Tokenizer& tokenizer, const TokenizeOptions& options) : tokenizer_(tokenizer), options_(options) {}

  void run(std::istream& in) {
    for (std::string line; std::getline(in, line);) {
      ++number_;
      const std::string where = concat("line ", number_);
      require<FormatError>(line.size() <= kMaxLineBytes, "[easydel tokenize] ", where, " has ", line.size(),
                           " bytes; the limit is ", kMaxLineBytes, ".");
      const Json value = Json::parse(line, {.where = where});
      if (options_.decode) {
        std::cout << Json(tokenizer_.decode(read_ids(value, where), options_.no_special_tokens)).dump() << "\n";
        continue;
      }
      require<FormatError>(value.is_string(), "[easydel tokenize] ", where, " must be a JSON string; got ",
                           value.type_name(), ".");
      texts_.push_back(value.as_string());
      bytes_ += texts_.back().size();
      if (texts_.size() >= kBatch || bytes_ >= kBatchBytes) write();
    }
    require<IoError>(!in.bad(), "[easydel tokenize] the input could not be read completely.");
    write();
  }

 private:
  void write() {
    const EncodeOptions how{.add_special_tokens = !options_.no_special_tokens, .offsets = options_.offsets};
    for (const Encoding& encoding : encode_all(tokenizer_, texts_, how, options_.threads)) {
      if (options_.offsets) {
        std::cout << Json::object({{"ids", to_json(encoding.ids)}, {"offsets", to_json(encoding.offsets)}}).dump();
      } else {
        std::string out = "[";
        for (const int32_t id : encoding.ids) {
          if (out.size() > 1) out += ", ";
          out += std::to_string(id);
        }
        std::cout << out << "]";
      }
      std::cout << "\n";
    }
    texts_.clear();
    bytes_ = 0;
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  std::vector<std::string> texts_;
  std::size_t bytes_ = 0;
  std::size_t number_ = 0;
};

void print_text(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  if (options.decode) {
    const Json ids = Json::parse(options.text, {.where = "the ids"});
    const std::string text = tokenizer.decode(read_ids(ids, "TEXT"), options.no_special_tokens);
    return options.json ? print_json(Json::object({{"text", text}})) : void(std::cout << text << "\n");
  }
  const Encoding encoding = tokenizer.encode(options.text, {.add_special_tokens = !options.no_special_tokens});
  if (options.json) {
    Json report = Json::object({{"ids", to_json(encoding.ids)}, {"tokens", tokens_of(tokenizer, encoding.ids)}});
    if (options.offsets) report["offsets"] = to_json(encoding.offsets);
    return print_json(report);
  }
  std::vector<std::vector<std::string>> rows{{"id", "token"}};
  if (options.offsets) rows[0].insert(rows[0].begin() + 1, "bytes");
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    rows.push_back({std::to_string(encoding.ids[i]), Json(tokenizer.id_to_token(encoding.ids[i]).value_or("")).dump()});
    if (options.offsets) {
      rows.back().insert(rows.back().begin() + 1, concat(encoding.offsets[i].begin, "-", encoding.offsets[i].end));
    }
  }
  print_table(rows);
  std::cout << encoding.size() << (encoding.size() == 1 ? " token\n" : " tokens\n");
}

void run(const TokenizeOptions& options) {
  check(options);
  const auto tokenizer = open_tokenizer(options);
  if (options.has_text) return print_text(*tokenizer, options);
  require<UsageError>(!options.has_threads || dynamic_cast<const JsonTokenizer*>(tokenizer.get()), "--threads ",
                      options.threads, " applies only to a tokenizer.json; ", options.model,
                      " is used with one thread. Leave --threads out.");
  Lines lines(*tokenizer, options);
  if (options.jsonl == "-") return lines.run(std::cin);
  std::ifstream file(options.jsonl, std::ios::binary);
  require<IoError>(file.good(), "[easydel tokenize] cannot open ", options.jsonl, ".");
  lines.run(file);
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("tokenize", "Convert text to token ids, or ids to text");
  auto options = std::make_shared<TokenizeOptions>();
  command
      ->add_option("MODEL", options->model,
                   "A model directory, a tokenizer.json, tokenizer.model or .gguf file, or a model on the Hub")
      ->required();
  CLI::Option* text = command->add_option("TEXT", options->text, "Text to encode; with --decode, a JSON array of ids");
  command->add_option("--jsonl", options->jsonl, "A file with one JSON string per line, or - for standard input")
      ->type_name("FILE");
  command->add_flag("--decode", options->decode,
                    "Convert ids to text: one JSON array of ids per line in, one JSON string per line out");
  command->add_flag("--no-special-tokens", options->no_special_tokens,
                    "Do not add special tokens when encoding; skip them when decoding");
  command->add_flag("--offsets", options->offsets, "Also print the byte range of each token in the text");
  command->add_flag("--json", options->json, "Print JSON");
  CLI::Option* threads = command->add_option("--threads", options->threads, "Threads for --jsonl; 0: one per core")
                             ->check(CLI::Range(0, 1024))
                             ->capture_default_str();
  command->add_option("--revision", options->revision, "Branch, tag or commit on the Hub")->capture_default_str();
  command->callback([options, text, threads] {
    options->has_text = text->count() > 0;
    options->has_threads = threads->count() > 0;
    run(*options);
  });
}

}  // namespace easydel::cli
