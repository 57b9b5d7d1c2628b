// Errors in files and options name the file, the location and what was expected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "easydel/core/build_info.h"
#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/data/dataset.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/rows/sft.h"
#include "tests/data/toy_rows.h"
#include "tests/support/draw.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class DataErrors : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    write_file_atomically(directory_ / name, content);
    return (directory_ / name).string();
  }
  std::string path(const std::string& name) { return (directory_ / name).string(); }

  // The error of opening and reading all rows, without the directory.
  std::string message(const DatasetOptions& options, const MixtureOptions& mixture = {}) {
    MixtureOptions all = mixture;
    all.informs.insert(all.informs.begin(), options);
    try {
      const auto dataset = Dataset::open(all);
      for (int64_t i = 0; i < dataset->size(); ++i) dataset->row(i);
    } catch (const Error& error) {
      std::string text = error.what();
      const std::string root = directory_.path().string() + "/";
      for (std::size_t at; (at = text.find(root)) != std::string::npos;) text.erase(at, root.size());
      return text;
    }
    return "no error";
  }
  std::string message_of(const std::string& name, const std::string& content) {
    return message({.data_files = {write(name, content)}});
  }

  TemporaryDirectory directory_{memory_directory()};
};

TEST_F(DataErrors, OfMissingFiles) {
  EXPECT_EQ(message({.data_files = {path("none.jsonl")}}), "[data_files] file none.jsonl does not exist.");
  EXPECT_EQ(message({.data_files = {path("*.jsonl")}}), "[data_files] no file matches *.jsonl.");
  EXPECT_EQ(message({.type = "json"}), "[data_files] must list at least one file; got none.");
  EXPECT_EQ(message({.data_files = {write("data.bin", "x")}}),
            "[data_files] data.bin has no known extension. Set type to json, jsonl, csv, tsv, txt, parquet "
            "or arrow.");
  EXPECT_THAT(message({.type = "jsonlines", .data_files = {path("a.jsonl")}}),
              AllOf(StartsWith("[type] must be json, jsonl, csv"), HasSubstr("got \"jsonlines\".")));
  EXPECT_THAT(message({.data_files = {directory_.path().string()}, .split = "test"}),
              HasSubstr(" has no data file: no .json, .jsonl"));
  write("train.jsonl", "{}");
  EXPECT_THAT(message({.data_files = {directory_.path().string()}, .split = "test"}),
              HasSubstr(" has 1 data files, and none for the split \"test\"; the first is train.jsonl."));
}

TEST_F(DataErrors, OfEmptyDataSets) {
  EXPECT_EQ(message({.data_files = {write("a.jsonl", "\n \n")}, .name = "mine"}),
            "[mine] the data set is empty: it has no rows.");
  EXPECT_THAT(message_of("a.csv", "a,b\n"), HasSubstr("the data set is empty"));
  EXPECT_THAT(message_of("b.csv", ""), HasSubstr("the data set is empty"));
  EXPECT_THAT(message_of("a.json", "[]"), HasSubstr("the data set is empty"));
  EXPECT_THAT(message({}, {.informs = {}}), HasSubstr("[data_files] must list at least one file; got none."));
  EXPECT_THAT([] { Dataset::open({}); },
              testing::ThrowsMessage<ConfigError>("[mixture] informs must name at least one data set; got none."));
}

TEST_F(DataErrors, OfJson) {
  EXPECT_THAT(message_of("a.jsonl", "{\"a\": 1}\n\n{\"a\": }\n"), StartsWith("[a.jsonl, line 3] line 1, column 7: "));
  EXPECT_EQ(message_of("b.jsonl", "{\"a\": 1}\n[1]\n"), "[b.jsonl, line 2] a row must be an object; got an array.");
  EXPECT_THAT(message_of("c.json", "[{\"a\": 1},\n{]"), StartsWith("[c.json] line 2, column 2: "));
  EXPECT_THAT(message_of("d.json", "[1]"), StartsWith("[d.json, row 1] a row must be an object; got an integer."));
  EXPECT_THAT(message_of("e.json", "3"), StartsWith("[e.json] a JSON file must be an array of objects, or an object "));
}

TEST_F(DataErrors, OfInvalidUtf8) {
  const std::string rest = " is invalid. Convert the file, with iconv for example.";
  EXPECT_EQ(message_of("a.jsonl", "{\"a\": \"\xE9t\xE9\"}\n"), "[a.jsonl] is not UTF-8: byte 7" + rest);
  EXPECT_EQ(message_of("a.txt", "abc\n\xC3"), "[a.txt] is not UTF-8: byte 4" + rest);
  EXPECT_EQ(message_of("a.csv", "a\n\"\xFF\"\n"), "[a.csv] is not UTF-8: byte 3" + rest);
  EXPECT_EQ(message_of("a.json", "[\"\x80\"]"), "[a.json] is not UTF-8: byte 2" + rest);
  // A character split across chunks is valid.
  const std::string edge = std::string((std::size_t{1} << 18) - 1, 'a') + "é日本" + std::string(1 << 18, 'b');
  EXPECT_EQ(message_of("b.txt", edge), "no error");
  EXPECT_EQ(message_of("c.txt", edge + "\xFF"), concat("[c.txt] is not UTF-8: byte ", edge.size(),
                                                       " is invalid. Convert the file, with iconv for example."));
}

TEST_F(DataErrors, OfCsv) {
  EXPECT_EQ(message_of("a.csv", "a,b\n1,2\n\n1,2,3\n"), "[a.csv] line 4: the row has 3 cells; the header names 2.");
  EXPECT_EQ(message_of("b.csv", "a\n\"x\ny"), "[b.csv] line 2: a quote is never closed.");
  EXPECT_EQ(message_of("c.csv", "a,b\n\"x\"y,1\n"),
            "[c.csv] line 2: there is text after a closing quote; a quote inside a cell is written as \"\".");
  EXPECT_EQ(message_of("d.csv", "a,b,a\n1,2,3\n"), "[d.csv] the header names \"a\" twice.");
  EXPECT_EQ(message_of("e.csv", "a,b\n1\n"), "no error");  // a cell that is missing is null
}

TEST_F(DataErrors, OfCompressedFiles) {
  if (!EASYDEL_HAS_ZLIB || !EASYDEL_HAS_ZSTD) GTEST_SKIP();
  run_python("data_broken_peer.py", {directory_.path().string()});
  for (const std::string end : {"gz", "zst"}) {
    const std::string name = end == "gz" ? "gzip" : "zstd";
    EXPECT_EQ(message({.data_files = {path("cut.jsonl." + end)}}),
              concat("[cut.jsonl.", end, "] the ", name, " file is truncated."));
    EXPECT_THAT(message({.data_files = {path("damaged.jsonl." + end)}}),
                StartsWith(concat("[damaged.jsonl.", end, "] is not a valid ", name, " file")));
  }
  EXPECT_THAT(message_of("a.jsonl.gz", "not gzip"), StartsWith("[a.jsonl.gz] is not a valid gzip file"));
  EXPECT_THAT(message_of("a.jsonl.zst", "not zstd"), StartsWith("[a.jsonl.zst] is not a valid zstd file"));
  EXPECT_THAT(message_of("b.jsonl.gz", ""), HasSubstr("the gzip file is truncated"));
  if (!EASYDEL_HAS_ARROW) return;
  for (const std::string name :
       {"cut.parquet", "cut.feather", "cut_stream.arrow", "damaged.parquet", "damaged.feather"}) {
    const std::string said = message({.data_files = {path(name)}});
    EXPECT_THAT(said, AllOf(HasSubstr(name + "] cannot be read as "), HasSubstr("damaged or truncated."))) << said;
  }
  EXPECT_THAT(message_of("a.parquet", "PAR1"), StartsWith("[a.parquet] cannot be read as Parquet: "));
  EXPECT_EQ(message_of("b.parquet", ""), "[b.parquet] cannot be read as Parquet: it is empty.");
  EXPECT_THAT(message_of("a.arrow", "nothing of the kind"), StartsWith("[a.arrow] cannot be read as Arrow: "));
}

// Whatever bytes are changed, the result is an easydel::Error or rows, and never a crash.
TEST_F(DataErrors, NoBytesCrashIt) {
  run_python("data_broken_peer.py", {directory_.path().string()});
  const char* given = std::getenv("EASYDEL_DRAWS");
  testing_support::Draw draw(11);
  int refused = 0;
  for (const std::string name :
       {"small.parquet", "small.feather", "small_stream.arrow", "small.jsonl.gz", "small.jsonl.zst"}) {
    const std::string whole = read_file(directory_ / name);
    for (int i = 0; i < (given ? std::atoi(given) : 150); ++i) {
      std::string changed = whole;
      for (int64_t k = draw.between(1, 4); k > 0; --k) {
        changed[static_cast<std::size_t>(draw.between(0, static_cast<int64_t>(changed.size()) - 1))] =
            static_cast<char>(draw.one_of<int>({0, 1, 127, 128, 255, static_cast<int>(draw.between(0, 255))}));
      }
      refused += message_of("changed-" + name, changed) != "no error";
    }
  }
  EXPECT_GT(refused, 20);
}

TEST_F(DataErrors, OfMissingFields) {
  const std::string file = write("a.jsonl", "{\"q\": 1, \"a\": 2}\n\n{\"q\": 1}\n");
  EXPECT_EQ(message({.data_files = {file}, .content_field = "a"}),
            "[a.jsonl, line 3] the row has no field \"a\"; it has q.");
  EXPECT_EQ(message({.data_files = {file}, .format_fields = {{"a", "b"}}}),
            "[a.jsonl, line 3] the row has no field \"a\"; it has q.");
  EXPECT_EQ(message({.data_files = {file}, .content_field = "q", .additional_fields = {"z"}}),
            "[a.jsonl, line 1] the row has no field \"z\"; it has q, a.");
}

TEST_F(DataErrors, OfOptions) {
  const std::string file = write("a.jsonl", "{\"n\": 1}\n{\"n\": 2}\n");
  EXPECT_EQ(message({.data_files = {file}, .name = "mine", .filter_query = "n > 5"}),
            "[filter_query] n > 5 drops all 2 rows of mine.");
  EXPECT_THAT(message({.data_files = {file}, .filter_query = "n >"}),
              StartsWith("[filter_query] must be an expression of the row's fields; got n >: "));
  EXPECT_THAT(message({.data_files = {file}, .filter_query = "n + 'a'"}),
              StartsWith("[filter_query] n + 'a' fails on a.jsonl, line 1, which has n: "));
  EXPECT_EQ(message({.data_files = {file}, .num_rows = 0}), "[num_rows] must be above 0; got 0.");
  EXPECT_EQ(message({.data_files = {file}, .split = "train[1]"}),
            "[split] must be a name, or a name with a slice: train, train[:1000], train[10%:20%]; got \"train[1]\".");
  EXPECT_EQ(message({.data_files = {file}, .split = "train[5:]"}),
            concat("[split] train[5:] leaves no row of a.jsonl."));
  EXPECT_EQ(message({.data_files = {file}, .sample_by = "word"}),
            "[sample_by] must be line or document; got \"word\".");
  EXPECT_EQ(message({.data_files = {file}}, {.shuffle_buffer_size = 0}),
            "[shuffle_buffer_size] must be above 0, or none for no shuffling; got 0.");
  EXPECT_EQ(message({.data_files = {file}}, {.stop_strategy = "never"}),
            "[stop_strategy] must be restart, first_exhausted, longest or all_exhausted; got \"never\".");
  EXPECT_EQ(message({.data_files = {file}}, {.mixture_block_size = 0}), "[mixture_block_size] must be above 0; got 0.");
  EXPECT_EQ(message({.data_files = {"hub://org/data"}}),
            "[data_files] a file on the hub must be hub://user/name/path; got hub://org/data.");
}

// The error of a transform on one row.
class RowErrors : public DataErrors {
 protected:
  RowErrors() {
    run_python("data_broken_peer.py", {directory_.path().string(), "tokenizer"});
    tokenizer_ = AutoTokenizer::from_directory(directory_ / "tokenizer");
  }
  static std::string said(const Transform& transform, const std::string& row) {
    const SourcePtr source = make_source({Json::parse(row)}, "rows");
    try {
      transform({source->row(0), source.get(), 0});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  AutoTokenizer tokenizer_;
};

TEST_F(RowErrors, NameTheRowAndItsFields) {
  const Transform sft = make_sft_transform(tokenizer_);
  EXPECT_EQ(said(sft, R"({"a": 1, "b": 2})"), "[rows, row 1] the row has no field \"text\"; it has a, b.");
  EXPECT_EQ(said(sft, R"({"text": null})"), "[rows, row 1] \"text\" must be a text or a list of messages; got null.");
  EXPECT_EQ(said(sft, R"({"prompt": "a"})"), "[rows, row 1] the row has no field \"completion\"; it has prompt.");
  EXPECT_EQ(said(sft, R"({"prompt": [{"role": "user", "content": "a"}], "completion": "b"})"),
            "[rows, row 1] where \"prompt\" is a list of messages, \"completion\" must be one; got a string.");
  EXPECT_EQ(
      said(sft, R"({"messages": []})"),
      "[rows, row 1] \"messages\" must be a list of objects with a role and a content; got an array that is empty.");
  EXPECT_EQ(said(sft, R"({"input_ids": [1, "a"]})"),
            "[rows, row 1] \"input_ids\" must be a list of integers; got a string in it.");
  EXPECT_EQ(said(sft, R"({"input_ids": [1, 2], "labels": [1]})"),
            "[rows, row 1] \"labels\" has 1 values; there are 2 ids.");
  EXPECT_THAT(said(sft, R"({"messages": [{"role": "user", "content": "a"}]})"),
              StartsWith("[rows, row 1] the chat template cannot render the conversation: the tokenizer has no chat "
                         "template"));
  EXPECT_EQ(said(sft, R"({"instruction": ["a"], "output": "b"})"),
            "[rows, row 1] \"instruction\" must be a text or a list of messages; got an array.");
  EXPECT_EQ(said(sft, R"({"instruction": "a", "output": "b", "history": [["a", "b"]]})"),
            "[rows, row 1] \"history\" needs a tokenizer with a chat template.");
  const SftOptions chat{.codec = {.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"}};
  EXPECT_EQ(said(make_sft_transform(tokenizer_, chat), R"({"instruction": "a", "output": "b", "history": ["a"]})"),
            "[rows, row 1] \"history\" must be a list of pairs of texts, an instruction and its answer; got [\"a\"].");
  const Transform dpo = make_dpo_transform(tokenizer_);
  EXPECT_EQ(said(dpo, R"({"prompt": "a", "chosen": "b"})"),
            "[rows, row 1] the row has no field \"rejected\"; it has prompt, chosen.");
  EXPECT_EQ(said(dpo, R"({"prompt": "a", "chosen": [{"role": "user", "content": "a"}], "rejected": "b"})"),
            "[rows, row 1] \"rejected\" must be a list of messages, as \"chosen\" is; got a string.");
  EXPECT_EQ(said(make_reward_transform(tokenizer_), R"({"chosen": "a", "rejected": "b", "margin": "c"})"),
            "[rows, row 1] \"margin\" must be a number; got a string.");
  SftOptions masks{.codec = {.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"},
                   .assistant_only_loss = true};
  EXPECT_THAT(said(make_sft_transform(tokenizer_, masks), R"({"messages": [{"role": "user", "content": "a"}]})"),
              HasSubstr("no token of the conversation is the assistant's"));
}

// Those with a chat template are in trl_test.cpp.
TEST_F(RowErrors, InstructionsWithoutAChatTemplateAreAlpacasTexts) {
  const Transform sft = make_sft_transform(tokenizer_);
  const auto same = [&](const std::string& given, const std::string& prompt) {
    const Json texts = Json::object({{"prompt", prompt}, {"completion", "b"}});
    const SourcePtr source = make_source({Json::parse(given), texts}, "rows");
    const auto made = sft({source->row(0), source.get(), 0}), expected = sft({source->row(1), source.get(), 1});
    EXPECT_EQ(made->input_ids, expected->input_ids);
    EXPECT_EQ(made->labels, expected->labels);
    EXPECT_EQ(made->labels.front(), kNoLoss);
    EXPECT_NE(made->labels.back(), kNoLoss);
  };
  // https://huggingface.co/datasets/tatsu-lab/alpaca, column "text"
  same(R"({"instruction": "a", "input": "", "output": "b"})",
       "Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
       "### Instruction:\na\n\n### Response:\n");
  same(R"({"instruction": "a", "input": "c", "output": "b", "history": null})",
       "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
       "response that appropriately completes the request.\n\n### Instruction:\na\n\n### Input:\nc\n\n### Response:\n");
  same(R"({"instruction": "a", "system": "d", "output": "b"})", "d\n\n### Instruction:\na\n\n### Response:\n");
  // A row that has the text is that text.
  const SourcePtr source = make_source(
      {Json::parse(R"({"text": "b", "instruction": "a", "output": "b"})"), Json::parse(R"({"text": "b"})")}, "rows");
  EXPECT_EQ(sft({source->row(0), source.get(), 0})->input_ids, sft({source->row(1), source.get(), 1})->input_ids);
}

TEST_F(RowErrors, OptionsAreCheckedAtOnce) {
  EXPECT_THAT([&] { make_sft_transform(tokenizer_, {.truncation_mode = "middle"}); },
              testing::ThrowsMessage<ConfigError>("[truncation_mode] must be keep_start or keep_end; got \"middle\"."));
  EXPECT_THAT([&] { make_sft_transform(tokenizer_, {.max_length = 0}); },
              testing::ThrowsMessage<ConfigError>("[max_length] must be above 0; got 0."));
  EXPECT_THAT([&] { make_sft_transform(tokenizer_, {.codec = {.eos_token = "<none>"}}); },
              testing::ThrowsMessage<ConfigError>("[eos_token] \"<none>\" is not in the vocabulary of the tokenizer."));
}

}  // namespace
}  // namespace easydel::data
