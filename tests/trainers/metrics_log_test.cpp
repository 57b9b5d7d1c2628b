#include "easydel/trainers/logs/metrics_log.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/trainers/logs/metric_columns.h"
#include "tests/support/killed_child.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

class MetricsLogs : public testing::Test {
 protected:
  void SetUp() override {
    log::set_sink([this](log::Level, const std::string& line) { logged += line + "\n"; });
  }
  void TearDown() override { log::set_sink({}); }

  std::string logged;
  const TemporaryDirectory directory{memory_directory()};
  const std::filesystem::path path = directory / "run/metrics.jsonl";
};

void append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

TEST_F(MetricsLogs, HaveALineOnDiskForEachStepAtOnce) {
  MetricsLog log(path);
  log.write(1, Json::object({{"loss", 2.5}, {"learning_rate", 1e-5}}));
  EXPECT_EQ(read_file(path), "{\"step\": 1, \"loss\": 2.5, \"learning_rate\": 1e-05}\n");
  log.write(
      2, Json::object({{"loss", std::nan("")}, {"step", 7}, {"eval/loss", std::numeric_limits<double>::infinity()}}));
  EXPECT_EQ(read_file(path),
            "{\"step\": 1, \"loss\": 2.5, \"learning_rate\": 1e-05}\n"
            "{\"step\": 2, \"loss\": NaN, \"eval/loss\": Infinity}\n");
  EXPECT_EQ(read_metrics(path).size(), 2);
}

TEST_F(MetricsLogs, BeginAnewForANewRunAndGoOnForAResumedOne) {
  for (int run = 0; run < 2; ++run) {
    MetricsLog log(path);
    for (int step = 1; step <= 6; ++step) log.write(step, Json::object({{"loss", step}}));
  }
  append(path, "{\"step\": 7, \"lo");
  {
    MetricsLog log(path, 4);
    log.write(5, Json::object({{"loss", 50}}));
  }
  EXPECT_EQ(read_file(path),
            "{\"step\": 1, \"loss\": 1}\n{\"step\": 2, \"loss\": 2}\n{\"step\": 3, \"loss\": 3}\n"
            "{\"step\": 4, \"loss\": 4}\n{\"step\": 5, \"loss\": 50}\n");
  EXPECT_EQ(logged, "[MetricsLog] " + path.string() + ": 2 lines after step 4 and 1 incomplete ones were removed.\n");
}

TEST_F(MetricsLogs, CutOffALastLineThatIsWholeButForItsNewline) {
  {
    MetricsLog log(path);
  }
  append(path, "{\"step\": 1, \"loss\": 1}\n{\"step\": 2, \"loss\": 2.3}");  // it may have gone on: 2.35
  {
    MetricsLog log(path, 9);
  }
  EXPECT_EQ(read_file(path), "{\"step\": 1, \"loss\": 1}\n");
}

TEST_F(MetricsLogs, TakeAnyBytesThatTheyFind) {
  {
    MetricsLog log(path);
  }
  constexpr char kRubbish[] = "\0\xff{}[]\n[1]\n{\"step\": \"x\"}\n\n{\"step\": 1e99}\n{\"step\": 3}\n";
  const std::string rubbish(kRubbish, sizeof kRubbish - 1);
  append(path, rubbish);
  append(path, std::string(100'000, '['));
  EXPECT_EQ(read_metrics(path).size(), 1);
  {
    MetricsLog log(path, 3);
  }
  EXPECT_EQ(read_file(path), "{\"step\": 3}\n");
}

TEST_F(MetricsLogs, ThatAreWholeAreNotWrittenAgain) {
  {
    MetricsLog log(path);
    log.write(1, Json::object());
  }
  const auto before = std::filesystem::last_write_time(path);
  {
    MetricsLog log(path, 1);
  }
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
  EXPECT_EQ(logged, "");
}

TEST_F(MetricsLogs, ForgetAnEvaluationThatIsDoneAgain) {
  const std::string kept = "{\"step\": 1, \"eval_loss\": 3}\n{\"step\": 2, \"loss\": 2}\n";
  make_directory(path.parent_path());
  append(path, kept + "{\"step\": 2, \"eval_loss\": 2}\n");
  {
    MetricsLog log(path, 2, /*is_evaluated=*/true);
  }
  EXPECT_EQ(read_file(path), kept + "{\"step\": 2, \"eval_loss\": 2}\n");
  {
    MetricsLog log(path, 2, /*is_evaluated=*/false);
  }
  EXPECT_EQ(read_file(path), kept);
}

TEST_F(MetricsLogs, AreOldOrNewWhereverCuttingIsInterrupted) {
  const std::string line = "{\"step\": 1, \"loss\": 1}\n", later = "{\"step\": 2, \"loss\": 2}\n{\"st";
  int killed = 0;
  for (int n = 0;; ++n) {
    std::filesystem::remove_all(directory / "run");
    {
      MetricsLog log(path);
    }
    append(path, line + later);
    const ChildEnd end = run_until_system_call(n, [&] { MetricsLog log(path, 1); });
    if (end == ChildEnd::NoTracing) GTEST_SKIP() << "this system does not allow tracing";
    EXPECT_THAT(read_file(path), testing::AnyOf(line, line + later)) << n;
    {
      MetricsLog log(path, 1);
    }
    ASSERT_EQ(read_file(path), line) << n;
    if (end == ChildEnd::Finished) break;
    ++killed;
  }
  EXPECT_GT(killed, 10);
}

TEST_F(MetricsLogs, SayWhatTheSystemRefuses) {
  make_directory(path);
  EXPECT_THAT([&] { MetricsLog log(path); }, testing::Throws<IoError>());
  EXPECT_THAT([&] { read_metrics(directory / "none"); },
              testing::ThrowsMessage<IoError>("[MetricsLog] " + (directory / "none").string() + " cannot be read."));
}

// Lines of numbers are read without JSON; what either way makes of a line must be the same.
TEST(MetricColumns, HaveWhatJsonReads) {
  const std::vector<std::string> lines = {
      R"({"step": 1, "loss": 2.5, "learning_rate": 1e-05})",
      R"({"step": 2, "loss": NaN, "eval/loss": -Infinity, "a": Infinity})",
      R"( {"loss":-0.25 , "step":3 ,"other": 7} )",
      R"({"loss": 1, "loss": 2, "step": 4})",
      R"({"step": 4.0, "loss": 1})",
      R"({"step": "5", "loss": 1})",
      R"({"loss": 1})",
      R"({"step": 6, "text": "a \"loss\": 3, ", "loss": 4})",
      R"({"step": 7, "generations": [{"prompt": "p", "completion": "{\"step\": 9}"}], "loss": 5})",
      R"({"step": 8, "q\"uote": 1, "nested": {"step": 3, "x": 1}, "list": [1, 2], "none": null, "true": true})",
      R"({"step": 9, "loss": 1e999, "small": 1e-400, "long": 0.1000000000000000055511151231257827})",
      R"({"step": 10, "loss": .5})",
      R"({"step": 11, "loss": nan})",
      R"({"step": 12, "loss": 1}})",
      R"({"step": 13, "loss": 1,})",
      R"({"step": 99999999999999999999, "loss": 1})",
      R"({"step": 14, "lo)",
      "",
      "[]",
      R"({"step": 15, "new": 3, "loss": 6})"};
  std::string text;
  MetricColumns by_json;
  for (const std::string& line : lines) {
    text += line + "\n";
    if (const Json json = parse_metrics(line); json.is_object()) by_json.add(json);
  }
  text.pop_back();
  MetricColumns read;
  read.add_text(text);
  ASSERT_EQ(read.size(), by_json.size());
  ASSERT_EQ(read.size(), 8U);
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read.step(i), by_json.step(i));
  ASSERT_EQ(read.columns().size(), by_json.columns().size());
  for (const MetricColumns::Column& column : read.columns()) {
    const MetricColumns::Column* other = by_json.find(column.name);
    ASSERT_TRUE(other) << column.name;
    EXPECT_EQ(column.lines, other->lines) << column.name;
    EXPECT_EQ(Json(column.values).dump(), Json(other->values).dump()) << column.name;
  }
  EXPECT_EQ(read.find("loss")->values.front(), 2.5);
  ASSERT_EQ(read.previews().size(), 1U);
  EXPECT_EQ(read.previews()[0].at("generations").at(0).at("prompt").as_string(), "p");
}

}  // namespace
}  // namespace easydel
