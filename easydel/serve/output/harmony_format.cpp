// gpt-oss: messages with a channel and perhaps a recipient, as in
// <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary to=functions.NAME<|message|>{…}<|call|>
#include <array>

#include "easydel/serve/output/parsers.h"
#include "easydel/serve/output/text_parser.h"

namespace easydel::serve {

namespace {

constexpr std::size_t kHarmonyMaxHeader = 1024;
constexpr std::string_view kHarmonyFunctions = "functions.";

struct HarmonyHeader {
  std::string channel, recipient;
};

HarmonyHeader read_harmony_header(std::string_view text) {
  const auto word_after = [&](std::string_view mark) {
    const std::size_t found = text.find(mark);
    if (found == std::string_view::npos) return std::string();
    const std::string_view rest = text.substr(found + mark.size());
    return std::string(rest.substr(0, rest.find_first_of(" \n\t\r<")));
  };
  return {.channel = word_after("<|channel|>"), .recipient = word_after("to=")};
}

class HarmonyParser final : public TextParser {
 public:
  HarmonyParser(bool starts_in_reasoning, bool calls) : starts_in_reasoning_(starts_in_reasoning), calls_(calls) {}

 private:
  ParseTask<Unit> read() override {
    if (starts_in_reasoning_) co_await body(true);
    while (true) {
      input_.forget();
      const int c = co_await peek();
      if (c < 0) break;
      co_await message();
    }
    end_content();
    co_return Unit{};
  }

  ParseTask<Unit> message() {
    const std::size_t mark = input_.at;
    const bool good = co_await header();
    if (!good) {
      reject(mark);
      co_await body(false);
      co_return Unit{};
    }
    const HarmonyHeader header = read_harmony_header(input_.since(mark));
    if (calls_ && header.recipient.size() > kHarmonyFunctions.size() &&
        header.recipient.starts_with(kHarmonyFunctions)) {
      co_await call(mark, header.recipient.substr(kHarmonyFunctions.size()));
    } else {
      co_await body(header.channel == "analysis");
    }
    co_return Unit{};
  }

  // Up to <|message|>. False where this is no header; some of it is read all the same.
  ParseTask<bool> header() {
    static constexpr std::array<std::string_view, 2> kInside = {"<|channel|>", "<|constrain|>"};
    const std::size_t begin = input_.at;
    const bool started = co_await literal("<|start|>");
    if (!started) {
      const std::size_t mark = input_.at;
      co_await spaces();
      const bool addressed = co_await literal("to=");
      if (!addressed) {
        input_.at = mark;
        const bool has_channel = co_await literal("<|channel|>");
        if (!has_channel) co_return false;
      }
    }
    while (input_.at - begin < kHarmonyMaxHeader) {
      const int c = co_await peek();
      if (c < 0) co_return false;
      if (c == '<') {
        const bool done = co_await literal("<|message|>");
        if (done) co_return true;
        const int inside = co_await any_of(kInside);
        if (inside >= 0) continue;
        const bool ends = co_await at_end_of_message();
        if (ends) co_return false;
      }
      ++input_.at;
    }
    co_return false;
  }

  // Looks ahead.
  ParseTask<bool> at_end_of_message() {
    static constexpr std::array<std::string_view, 5> kEnds = {"<|end|>", "<|call|>", "<|return|>", "<|start|>",
                                                              "<|channel|>"};
    const std::size_t mark = input_.at;
    const int found = co_await any_of(kEnds);
    input_.at = mark;
    co_return found >= 0;
  }

  // The end of a message that was opened; the next message may begin without it.
  ParseTask<Unit> message_end() {
    static constexpr std::array<std::string_view, 3> kEnds = {"<|end|>", "<|call|>", "<|return|>"};
    co_await any_of(kEnds);
    co_return Unit{};
  }

  ParseTask<Unit> body(bool is_reasoning) {
    while (true) {
      input_.forget();
      const int c = co_await peek();
      if (c < 0) co_return Unit{};
      if (c == '<') {
        const bool ends = co_await at_end_of_message();
        if (ends) {
          co_await message_end();
          co_return Unit{};
        }
      }
      const char byte = static_cast<char>(c);
      ++input_.at;
      if (is_reasoning) {
        add_reasoning({&byte, 1});
      } else {
        add_content({&byte, 1});
      }
    }
  }

  ParseTask<Unit> call(std::size_t mark, std::string name) {
    co_await spaces();
    const int c = co_await peek();
    bool ends = false;
    if (c == '<') ends = co_await at_end_of_message();
    if (c == '{') {
      begin_call(std::move(name));
      const bool complete = co_await json_object(nullptr);
      if (complete) co_await spaces();
    } else if (ends) {
      begin_call(std::move(name));
      add_arguments("{}");
    } else {
      reject(mark);
    }
    co_await body(false);
    co_return Unit{};
  }

  bool starts_in_reasoning_, calls_;
};

}  // namespace

std::unique_ptr<MessageParser> make_harmony_parser(bool starts_in_reasoning, bool calls) {
  return std::make_unique<HarmonyParser>(starts_in_reasoning, calls);
}

}  // namespace easydel::serve
