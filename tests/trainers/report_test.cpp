#include "easydel/trainers/logs/report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/trainers/logs/metrics_log.h"
#include "easydel/trainers/logs/run_report.h"
#include "tests/support/python.h"
#include "tests/support/temporary_directory.h"

namespace easydel {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> texts(const Json& list) {
  std::vector<std::string> found;
  for (const Json& text : list.as_array()) found.push_back(text.as_string());
  return found;
}

Json checked(const Report& report) {
  const TemporaryDirectory directory;
  write_report(directory / "out/report.html", report);
  Json page = Json::parse(run_python("report_peer.py", {(directory / "out/report.html").string()}));
  EXPECT_THAT(texts(page.at("faults")), IsEmpty());
  return page;
}

Report small_report() {
  Report report{.title = "SFT of tiny", .subtitle = "begun today"};
  for (int step = 1; step <= 20; ++step) {
    Json line =
        Json::object({{"step", step}, {"train/loss", 4.0 / step}, {"train/learning_rate", 1e-4 * step}, {"epoch", 1}});
    if (step % 10 == 0) line["eval/loss"] = 5.0 / step;
    report.metrics.add(line);
  }
  report.config =
      Json::parse(R"({"trainer": {"learning_rate": 1e-05, "optimizer": "adamw"}, "seed": 1, "list": [1, 2]})");
  report.summary = Json::parse(R"({"final loss": 0.2, "steps": 20})");
  return report;
}

TEST(Report, HasTheCurvesTheConfigAndTheNumbers) {
  const Json page = checked(small_report());
  const auto text = texts(page.at("text"));
  for (const char* expected : {"SFT of tiny", "begun today", "final loss", "0.2000", "trainer.learning_rate", "1e-05",
                               "trainer.optimizer", "adamw", "[1, 2]"}) {
    EXPECT_THAT(text, Contains(expected));
  }
  std::vector<std::string> series;
  for (const Json& s : page.at("series").as_array()) {
    series.push_back(s.at("chart").as_string() + " " + s.at("kind").as_string());
  }
  EXPECT_THAT(series, ElementsAre("loss train", "loss eval", "learning_rate train"));
  EXPECT_EQ(page.at("series").at(1).at("x").dump(), "[10, 20]");
  EXPECT_EQ(page.at("series").at(1).at("y").dump(), "[0.5, 0.25]");
}

TEST(Report, EscapesEverything) {
  const std::string attack = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\"'";
  Report report{.title = attack, .subtitle = attack};
  report.metrics = {Json::object({{"step", 1}, {attack, 1.5}, {"train/" + attack, 2}, {"\xff\xfe", 1}})};
  report.config = Json::object({{attack, attack}, {"bytes", std::string("\xc3(\0", 3)}});
  report.summary = Json::object({{attack, attack}});
  const Json page = checked(report);
  EXPECT_THAT(texts(page.at("text")), Contains(attack));
  std::vector<std::string> names;
  for (const Json& s : page.at("series").as_array()) names.push_back(s.at("name").as_string());
  EXPECT_THAT(names, Contains(attack));
  EXPECT_EQ(html_escaped(std::string("a\0\xff<", 4)), "a\xef\xbf\xbd\xef\xbf\xbd&lt;");
}

TEST(Report, WritesGapsForWhatIsNotFinite) {
  Report report;
  report.metrics = {Json::object({{"step", 1}, {"loss", std::nan("")}}), Json::object({{"step", 2}, {"loss", 1}}),
                    Json::object({{"step", 3}, {"loss", std::numeric_limits<double>::infinity()}}),
                    Json::object({{"loss", 4}}), Json::object({{"step", 5}, {"note", "text"}})};
  const Json page = checked(report);
  ASSERT_EQ(page.at("series").size(), 1);
  EXPECT_EQ(page.at("series").at(0).at("y").dump(), "[null, 1.0, null]");
}

TEST(Report, ShowsTheLastValueOfAStepThatWasDoneTwice) {
  Report report;
  for (const int step : {1, 2, 3, 2, 3, 4}) {
    report.metrics.add(Json::object({{"step", step}, {"loss", static_cast<double>(report.metrics.size())}}));
  }
  const Json page = checked(report);
  EXPECT_EQ(page.at("series").at(0).at("x").dump(), "[1, 2, 3, 4]");
  EXPECT_EQ(page.at("series").at(0).at("y").dump(), "[0.0, 3.0, 4.0, 5.0]");
}

TEST(Report, StaysSmallAndKeepsThePeaksOfALongRun) {
  Report report;
  for (int step = 0; step < 200'000; ++step) {
    double loss = 2.0 + 0.1 * std::sin(step);
    if (step == 77'777) loss = 9;
    if (step == 33'333) loss = -9;
    if (step == 55'555) loss = std::nan("");
    report.metrics.add(Json::object({{"step", step}, {"loss", loss}}));
  }
  const Json page = checked(report);
  const Json& series = page.at("series").at(0);
  EXPECT_LE(series.at("x").size(), 3000);
  EXPECT_GE(series.at("x").size(), 2000);
  EXPECT_EQ(series.at("x").at(0).as_int(), 0);
  EXPECT_EQ(series.at("x").as_array().back().as_int(), 199'999);
  EXPECT_THAT(series.at("y").dump(), testing::AllOf(HasSubstr(" 9.0,"), HasSubstr(" -9.0,"), HasSubstr("null")));
  EXPECT_LT(render_report(report).size(), 220'000);
  // What is smoothed are means, not the extremes that are shown.
  ASSERT_EQ(series.at("mean").size(), series.at("x").size());
  for (std::size_t i = 1; i + 1 < series.at("mean").size(); ++i) {
    const Json& mean = series.at("mean").at(i);
    EXPECT_TRUE(mean.is_null() || std::abs(mean.as_double() - 2.0) < 0.12) << i;
  }
}

TEST(Report, RoundsNumbersAndLeavesOutWhatIsNotSet) {
  Report report{.summary = Json::object({{"loss", 0.123456789}, {"none", Json()}, {"steps", 20}})};
  report.config = Json::parse(R"({"a": {"b": null, "c": {}}, "d": 0.123456789, "e": []})");
  const auto text = texts(checked(report).at("text"));
  EXPECT_THAT(text, Contains("0.1235"));
  EXPECT_THAT(text, testing::Not(Contains("none")));
  EXPECT_THAT(text, testing::Not(Contains("null")));
  EXPECT_THAT(text, testing::Not(Contains("{}")));
  EXPECT_THAT(text, Contains("3 settings are not set."));
  EXPECT_THAT(text, Contains("0.123456789"));  // a setting is shown as it was given
}

TEST(Report, DrawsOtherRunsInTheSameCharts) {
  Report report = small_report();
  report.name = "a";
  report.others = {{"b", {Json::object({{"step", 1}, {"train/loss", 3}, {"extra", 1}})}}};
  const Json page = checked(report);
  EXPECT_EQ(page.at("runs").dump(), "[\"a\", \"b\"]");
  std::vector<std::string> series;
  for (const Json& s : page.at("series").as_array())
    series.push_back(concat(s.at("chart").as_string(), " ", s.at("kind").as_string(), " ", s.at("run").dump()));
  EXPECT_THAT(series,
              ElementsAre("loss train 0", "loss train 1", "loss eval 0", "learning_rate train 0", "extra train 1"));
}

Json run_of(double started) {
  return Json::object({{"name", "tiny"},
                       {"trainer", "sft"},
                       {"host", "box"},
                       {"device", "cpu, 2 threads"},
                       {"dtype", "float32"},
                       {"parameters", 12345},
                       {"trained_parameters", 45},
                       {"total_steps", 4},
                       {"started", started},
                       {"config", Json::object({{"seed", 3}})}});
}

Json line(int64_t step, double time) {
  return Json::object({{"step", step},
                       {"time", time},
                       {"loss", 2.0 / static_cast<double>(step)},
                       {"num_tokens", 1000 * step},
                       {"step_tokens", 1000},
                       {"samples", 8 * step},
                       {"tokens_per_second", 500.0},
                       {"tflops", 0.25},
                       {"peak_memory_bytes", 1 << 30}});
}

TEST(RunReport, SaysWhatRanWhereWhenAndHowMuchOfIt) {
  const TemporaryDirectory directory;
  const double started = 1'763'352'209;
  write_file_atomically(directory / "run.json", run_of(started).dump());
  {
    MetricsLog log(directory / "metrics.jsonl");
    for (int64_t step = 1; step <= 3; ++step) log.write(step, line(step, started + 60.0 * static_cast<double>(step)));
    log.write(2, Json::object({{"time", started + 130}, {"num_tokens", 2000}, {"eval_loss", 1.5}}));
    log.write(3, Json::object({{"time", started + 190}, {"num_tokens", 3000}, {"eval_loss", 1.75}}));
  }
  const std::filesystem::path path = write_run_report(directory.path());
  EXPECT_EQ(path, directory / "report.html");
  const Json page = Json::parse(run_python("report_peer.py", {path.string()}));
  EXPECT_THAT(texts(page.at("faults")), IsEmpty());
  const auto text = texts(page.at("text"));
  const std::vector<std::pair<const char*, const char*>> cards = {{"status", "running, or killed"},
                                                                  {"steps", "3 of 4"},
                                                                  {"loss", "0.6667"},
                                                                  {"evaluation loss", "1.7500, best 1.5000 at step 2"},
                                                                  {"total tokens", "3,000"},
                                                                  {"samples seen", "24"},
                                                                  {"speed (median)", "500 tok/s"},
                                                                  {"TFLOP/s (median)", "0.2500"},
                                                                  {"peak memory", "1.0 GiB"},
                                                                  {"time", "3:10"},
                                                                  {"host", "box"},
                                                                  {"device", "cpu, 2 threads"},
                                                                  {"dtype", "float32"},
                                                                  {"parameters", "12,345, of which 45 train"},
                                                                  {"started", "2025-11-17 04:03:29 UTC"}};
  for (const auto& [label, value] : cards) {
    const auto at = std::find(text.begin() + 11, text.end(), label);  // behind the page's own controls
    ASSERT_TRUE(at != text.end() && at + 1 != text.end()) << label;
    EXPECT_EQ(*(at + 1), value) << label;
  }
  EXPECT_THAT(text, testing::Not(Contains("step tokens")));
  const Json& loss = page.at("series").at(0);
  EXPECT_EQ(loss.at("time").dump(), "[0.0, 60.0, 120.0]");
  EXPECT_EQ(loss.at("tokens").dump(), "[1000.0, 2000.0, 3000.0]");
  EXPECT_EQ(page.at("series").at(1).at("time").dump(), "[70.0, 130.0]");
}

TEST(RunReport, ComparesRunsAndNamesADirectoryThatIsNone) {
  const TemporaryDirectory directory;
  for (const char* name : {"a", "b"}) MetricsLog(directory / name / "metrics.jsonl").write(1, line(1, 10));
  write_run_report(directory / "a", {directory / "b"}, directory / "both.html");
  const Json page = Json::parse(run_python("report_peer.py", {(directory / "both.html").string()}));
  EXPECT_EQ(page.at("runs").dump(), "[\"a\", \"b\"]");
  EXPECT_THAT([&] { write_run_report(directory / "c"); },
              testing::ThrowsMessage<IoError>(concat("[report] ", (directory / "c").string(),
                                                     " is not the directory of a training run: it has no "
                                                     "metrics.jsonl.")));
}

TEST(Report, SaysThatThereIsNothing) {
  const Json page = checked({});
  EXPECT_EQ(page.at("series").size(), 0);
  EXPECT_THAT(texts(page.at("text")), Contains("Nothing was set."));
}

class ReportScript : public testing::Test {
 protected:
  Json run(const Report& report) {
    write_report(directory / "report.html", report);
    const std::string source = std::getenv("EASYDEL_SOURCE_DIR");
    const std::string command = "node " + shell_quoted(source + "/tests/reference/report_dom.js") + " " +
                                shell_quoted((directory / "report.html").string());
    FILE* pipe = ::popen(command.c_str(), "r");
    std::string output;
    char buffer[4096];
    for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, got);
    EXPECT_EQ(::pclose(pipe), 0);
    return Json::parse(output);
  }
  void SetUp() override {
    if (std::system("node --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs node";
  }
  const TemporaryDirectory directory;
};

TEST_F(ReportScript, DrawsCurvesShowsValuesAndSwitches) {
  const Json drawn = run(small_report());
  ASSERT_EQ(drawn.at("charts").size(), 2);
  const Json& loss = drawn.at("charts").at(0);
  EXPECT_EQ(loss.at("caption").as_string(), "losstrain/losseval/loss");
  ASSERT_EQ(loss.at("paths").size(), 3);  // train as it is and smoothed, eval
  EXPECT_EQ(loss.at("plain_paths").size(), 2);
  EXPECT_EQ(drawn.at("charts").at(1).at("paths").size(), 1);  // nobody smooths a schedule
  EXPECT_THAT(texts(drawn.at("charts").at(1).at("labels")), Contains("0.0015"));
  EXPECT_THAT(texts(loss.at("first")), ElementsAre("step 1", "train/loss: 4", "eval/loss (step 10): 0.5"));
  const auto last = texts(loss.at("last"));
  ASSERT_EQ(last.size(), 3);
  EXPECT_EQ(last[0], "step 20");
  EXPECT_THAT(last[1], testing::StartsWith("train/loss: 0.2, smoothed 0.2"));
  EXPECT_EQ(last[2], "eval/loss: 0.25");
  EXPECT_NE(loss.at("log_paths"), loss.at("paths"));
  EXPECT_THAT(texts(loss.at("log_labels")), Contains("1"));
  for (const char* paths : {"paths", "log_paths", "plain_paths"}) {
    for (const std::string& path : texts(loss.at(paths))) {
      EXPECT_THAT(path, testing::StartsWith("M"));
      EXPECT_THAT(path, testing::Not(HasSubstr("NaN")));
    }
  }
  EXPECT_THAT(texts(loss.at("time_first")), Contains("step 1"));  // these lines have no times: steps stay
  EXPECT_EQ(drawn.at("durations").dump(), "[\"0.25 s\", \"45 s\", \"3:20\", \"2:05:00\"]");
  EXPECT_EQ(drawn.at("bytes").as_string(), "3.2 GiB");
  EXPECT_EQ(drawn.at("theme").as_string(), "dark");
  EXPECT_EQ(drawn.at("ticks").dump(), "[0, 0.2, 0.4, 0.6000000000000001, 0.8]");
  EXPECT_EQ(drawn.at("smoothed").dump(), "[4, 2.6666666666666665, null, 1.7142857142857142]");
}

TEST_F(ReportScript, DrawsOverTimeAndSeveralRuns) {
  Report report{.name = "a", .metrics = {}};
  for (int64_t step = 1; step <= 5; ++step) report.metrics.add(line(step, 1000 + 60.0 * static_cast<double>(step)));
  report.others = {{"b", {line(1, 5000), line(2, 5030)}}};
  report.samples = Json::parse(R"([{"step": 4, "prompt": "2+2=", "completion": "<b>4</b>", "reward": 0.5},
                                   {"step": 2, "prompt": "2+2=", "completion": "5"}])");
  const Json drawn = run(report);
  EXPECT_EQ(drawn.at("samples").dump(), R"([["step 4", "2+2=", "<b>4</b>", "0.5"], ["step 2", "2+2=", "5", ""]])");
  const Json& loss = drawn.at("charts").at(0);
  EXPECT_EQ(loss.at("caption").as_string(), "lossa: lossb: loss");
  EXPECT_EQ(loss.at("paths").size(), 4);
  EXPECT_THAT(texts(loss.at("time_labels")), testing::IsSupersetOf({"0 s", "1:00", "2:00", "4:00"}));
  EXPECT_THAT(texts(loss.at("time_first")), Contains("step 1, 0 s"));
}

TEST_F(ReportScript, DrawsWhatIsFlatNegativeMissingOrAlone) {
  Report report;
  for (int step = 0; step < 5; ++step) {
    report.metrics.add(Json::object({{"step", step}, {"flat", 3}, {"negative", -1.0 * step}, {"none", std::nan("")}}));
  }
  report.metrics.add(Json::object({{"step", 2}, {"alone", 1e-9}}));
  const Json drawn = run(report);
  EXPECT_EQ(drawn.at("charts").size(), 4);
  for (const Json& chart : drawn.at("charts").as_array()) {
    for (const char* paths : {"paths", "log_paths"}) {
      for (const std::string& path : texts(chart.at(paths))) EXPECT_THAT(path, testing::Not(HasSubstr("NaN")));
    }
    for (const char* labels : {"labels", "log_labels"}) {
      EXPECT_THAT(texts(chart.at(labels)), testing::Not(Contains(HasSubstr("NaN"))));
    }
  }
}

}  // namespace
}  // namespace easydel
