// The load generator's plan, reading and report; tests/cli/other_flags_test.py runs it against a server.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/serve/client/http_load.h"
#include "easydel/serve/client/load_report.h"
#include "easydel/serve/client/sse_reader.h"
#include "tests/support/temporary_directory.h"

namespace easydel::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// A request of `tokens` tokens sent at `start`: the first after `ttft`, the others `gap` apart.
LoadRecord record_of(double start, double ttft, double gap, int64_t tokens) {
  LoadRecord record;
  record.start = start;
  for (int64_t i = 0; i < tokens; ++i) record.add_piece(start + ttft + gap * static_cast<double>(i));
  record.success = true;
  record.prompt_tokens = 10;
  record.output_tokens = tokens;
  return record;
}

TEST(LoadReport, PercentilesAreNumpys) {
  const std::vector<double> values{1, 2, 4, 8};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 3);
  EXPECT_DOUBLE_EQ(percentile(values, 90), 6.8);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 8);
  EXPECT_DOUBLE_EQ(percentile({}, 50), 0);
}

TEST(LoadReport, HasVllmsDefinitions) {
  LoadRun run{.records = {record_of(0, 0.1, 0.01, 11), record_of(0.5, 0.3, 0.02, 6), record_of(0.6, 0.2, 0, 1), {}},
              .duration = 2.0};
  const LoadSummary summary = summarize(run, {.percentiles = {99}, .goodput = {{"ttft", 250}, {"tpot", 15}}});
  EXPECT_EQ(summary.completed, 3);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.total_input_tokens, 30);
  EXPECT_EQ(summary.total_output_tokens, 18);
  EXPECT_DOUBLE_EQ(summary.request_throughput, 1.5);
  EXPECT_DOUBLE_EQ(summary.output_throughput, 9);
  EXPECT_DOUBLE_EQ(summary.total_token_throughput, 24);
  EXPECT_DOUBLE_EQ(summary.request_goodput.value(), 1.0);  // the second is too slow
  EXPECT_EQ(summary.max_concurrent_requests, 2);
  EXPECT_DOUBLE_EQ(summary.peak_output_throughput, 18);
  ASSERT_EQ(summary.metrics.size(), 4u);
  EXPECT_NEAR(summary.metrics[0].mean, 200, 1e-9);  // ttft
  EXPECT_NEAR(summary.metrics[0].median, 200, 1e-9);
  EXPECT_NEAR(summary.metrics[1].mean, 15, 1e-9);          // tpot, of the two with more than one token
  EXPECT_NEAR(summary.metrics[2].mean, 200.0 / 15, 1e-9);  // itl, of all gaps
  EXPECT_NEAR(summary.metrics[3].mean, 800.0 / 3, 1e-9);   // e2el: 200, 400 and 200
  EXPECT_NEAR(summary.metrics[3].percentiles.at(0).second, 396, 1e-9);
}

TEST(LoadReport, PrintsTheTableThatVllmPrints) {
  const std::string table = load_table(summarize({.records = {record_of(0, 0.1, 0.01, 11)}, .duration = 0.5}, {}));
  EXPECT_THAT(table, HasSubstr("============ Serving Benchmark Result ============\n"
                               "Successful requests:                     1\n"));
  EXPECT_THAT(table, HasSubstr("-----Time per Output Token (excl. 1st token)------\n"
                               "Mean TPOT (ms):                          10.00\n"
                               "Median TPOT (ms):                        10.00\n"
                               "P99 TPOT (ms):                           10.00\n"));
  EXPECT_THAT(table, testing::Not(HasSubstr("goodput")));
}

TEST(LoadPlan, RandomPromptsShareThePrefixAndKeepToTheRange) {
  const RandomPrompts how{
      .count = 50, .input_len = 20, .output_len = 10, .prefix_len = 4, .range_ratio = 0.5, .vocab_size = 30, .seed = 3};
  const auto requests = random_requests(how), again = random_requests(how);
  ASSERT_EQ(requests.size(), 50u);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const LoadRequest& request = requests[i];
    EXPECT_EQ(request.ids, again[i].ids);
    EXPECT_TRUE(std::equal(request.ids.begin(), request.ids.begin() + 4, requests[0].ids.begin()));
    EXPECT_THAT(request.prompt_tokens, testing::AllOf(testing::Ge(14), testing::Le(34)));
    EXPECT_THAT(request.max_tokens, testing::AllOf(testing::Ge(5), testing::Le(15)));
    EXPECT_THAT(request.ids, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(30))));
  }
  EXPECT_NE(requests[0].ids, requests[1].ids);
}

TEST(LoadPlan, ArrivalsHaveTheRateAndTheSpread) {
  EXPECT_THAT(arrival_times(3, {}), ElementsAre(0, 0, 0));
  const auto spread = [](double burstiness) {  // the gaps' standard deviation, in units of their mean
    const auto times = arrival_times(20000, {.rate = 50, .burstiness = burstiness, .seed = 1});
    EXPECT_NEAR(times.back(), 400, 1e-6);
    double squares = 0, last = 0;
    for (const double time : times) {
      squares += (time - last - 0.02) * (time - last - 0.02);
      last = time;
    }
    return std::sqrt(squares / 20000) / 0.02;
  };
  EXPECT_NEAR(spread(1), 1, 0.05);  // a Poisson process
  EXPECT_NEAR(spread(4), 0.5, 0.05);
  EXPECT_NEAR(spread(0.25), 2, 0.2);
}

TEST(LoadPlan, AFileBeginsAgainAndItsErrorsHaveALine) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "prompts.jsonl";
  write_file_atomically(path, "{\"prompt\": \"one\"}\n\n{\"prompt\": [3, 4], \"output_tokens\": 7}\n");
  const auto requests = file_requests(path, 3, 5);
  EXPECT_EQ(requests[0].text, "one");
  EXPECT_EQ(requests[0].max_tokens, 5);
  EXPECT_THAT(requests[1].ids, ElementsAre(3, 4));
  EXPECT_EQ(requests[1].max_tokens, 7);
  EXPECT_EQ(requests[2].text, "one");
  write_file_atomically(path, "{\"prompt\": \"one\"}\n{\"prompt\": \"\"}\n");
  EXPECT_THAT([&] { file_requests(path, 3, 5); },
              ThrowsMessage<FormatError>(HasSubstr("prompts.jsonl:2: \"prompt\" must not be empty.")));
}

TEST(SseReader, ReadsEventsThatComeByteByByte) {
  const std::string bytes =
      ": a comment\r\ndata: one\r\n\r\ndata:two\ndata: lines\nid: 4\n\n\ndata: [DONE]\n\ndata: half";
  std::vector<std::string> events;
  SseReader reader;
  for (const char byte : bytes) reader.add({&byte, 1}, [&](std::string_view data) { events.emplace_back(data); });
  EXPECT_THAT(events, ElementsAre("one", "two\nlines", "[DONE]"));
}

TEST(HttpLoad, CountsThePiecesThatHaveTokens) {
  LoadRecord chat;
  EXPECT_TRUE(take_load_event(R"({"choices": [{"delta": {"role": "assistant", "content": ""}}]})", 1, chat));
  EXPECT_FALSE(chat.has_first());
  EXPECT_TRUE(take_load_event(R"({"choices": [{"delta": {"content": "a"}}]})", 2, chat));
  EXPECT_TRUE(take_load_event(R"({"choices": [{"delta": {"content": ""}}]})", 3, chat));  // half of a character
  EXPECT_TRUE(take_load_event(R"({"choices": [{"delta": {}, "finish_reason": "stop"}]})", 4, chat));
  EXPECT_TRUE(take_load_event(R"({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}})", 5, chat));
  EXPECT_FALSE(take_load_event("[DONE]", 6, chat));
  EXPECT_DOUBLE_EQ(chat.ttft, 2);
  EXPECT_DOUBLE_EQ(chat.latency, 3);
  EXPECT_THAT(chat.itl, ElementsAre(1));
  EXPECT_EQ(chat.prompt_tokens, 5);
  EXPECT_EQ(chat.output_tokens, 9);
  EXPECT_EQ(chat.text, "a");

  LoadRecord failed;
  take_load_event(R"({"error": {"message": "out of pages"}})", 1, failed);
  EXPECT_EQ(failed.error, "out of pages");
}

TEST(HttpLoad, SendsIdsOrMessages) {
  const Json ids = load_body({.ids = {1, 2}, .max_tokens = 3}, {.model = "m", .ignore_eos = true});
  EXPECT_EQ(ids.dump(),
            Json::parse(R"({"model": "m", "prompt": [1, 2], "max_tokens": 3, "temperature": 0.0, "stream": true,
                                        "stream_options": {"include_usage": true}, "ignore_eos": true})")
                .dump());
  const HttpLoadOptions chat{.endpoint = "/v1/chat/completions", .model = "m"};
  EXPECT_EQ(load_body({.text = "hi", .max_tokens = 3}, chat).at("messages").at(std::size_t{0}).at("content"),
            Json("hi"));
  EXPECT_THAT([&] { load_body({.ids = {1}, .max_tokens = 3}, chat); },
              ThrowsMessage<ConfigError>("[load_body] /v1/chat/completions takes no token ids; give texts."));
}

}  // namespace
}  // namespace easydel::serve
