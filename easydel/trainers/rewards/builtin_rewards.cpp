#include "easydel/trainers/rewards/builtin_rewards.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <set>

#include "easydel/core/error.h"
#include "easydel/core/random.h"
#include "easydel/text/regex/regex.h"

namespace easydel {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// A reward of each completion by itself.
class SingleReward final : public Reward {
 public:
  using Function = std::function<std::optional<double>(const RewardInput&)>;
  SingleReward(std::string name, Function function) : name_(std::move(name)), function_(std::move(function)) {}
  std::string name() const override { return name_; }
  RewardScores score(const std::vector<RewardInput>& inputs) override {
    RewardScores scores;
    for (const RewardInput& input : inputs) scores.push_back(function_(input));
    return scores;
  }

 private:
  std::string name_;
  Function function_;
};

const Json& answer_of(const RewardInput& input, const std::string& reward, const std::string& field) {
  const Json* value = input.row ? input.row->find(field) : nullptr;
  require<FormatError>(value && !value->is_null(), "[rewards] ", reward, " compares with the column \"", field,
                       "\", which a row lacks. Name another with {type: ", reward, ", field: …}.");
  return *value;
}

std::string as_text(const Json& value) { return value.is_string() ? value.as_string() : value.dump(); }

SingleReward::Function exact(RewardSettings& settings) {
  return [field = settings.text("field", "answer")](const RewardInput& input) -> std::optional<double> {
    return trimmed(input.completion) == trimmed(as_text(answer_of(input, "exact", field))) ? 1 : 0;
  };
}

SingleReward::Function numeric(RewardSettings& settings) {
  return [field = settings.text("field", "answer")](const RewardInput& input) -> std::optional<double> {
    const Json& wanted = answer_of(input, "numeric", field);
    const std::optional<double> right = wanted.is_number() ? wanted.as_double() : number_in_answer(as_text(wanted));
    require<FormatError>(right.has_value(), "[rewards] numeric compares with the column \"", field,
                         "\", which must have a number; got ", wanted.dump(), ".");
    const std::optional<double> got = number_in_answer(input.completion);
    return got && std::abs(*got - *right) <= 1e-6 * std::max(1.0, std::abs(*right)) ? 1 : 0;
  };
}

SingleReward::Function matches(RewardSettings& settings, bool whole) {
  const std::string pattern =
      whole ? settings.text("pattern", R"(\s*<think>[\s\S]*</think>\s*[^\s<][\s\S]*)") : settings.text("pattern");
  const auto regex = std::make_shared<const Regex>(whole ? "\\A(?:" + pattern + ")\\z" : pattern,
                                                   "[rewards] the pattern of " + settings.type());
  return [regex](const RewardInput& input) -> std::optional<double> {
    std::vector<Offset> found;
    regex->find_all(input.completion, found);
    return found.empty() ? 0 : 1;
  };
}

SingleReward::Function json(RewardSettings& settings) {
  const std::vector<std::string> required =
      settings.has("required") ? settings.words("required") : std::vector<std::string>();
  return [required](const RewardInput& input) -> std::optional<double> {
    try {
      const Json value = Json::parse(trimmed(input.completion));
      if (required.empty()) return 1;
      if (!value.is_object()) return 0;
      for (const std::string& key : required) {
        if (!value.contains(key)) return 0;
      }
      return 1;
    } catch (const Error&) {
      return 0;
    }
  };
}

SingleReward::Function length(RewardSettings& settings) {
  const double target = settings.number("target");
  require<ConfigError>(target > 0, "[rewards] target of length must be positive; got ", target, ".");
  return [target](const RewardInput& input) -> std::optional<double> {
    return std::max(0.0, 1 - std::abs(static_cast<double>(input.tokens) - target) / target);
  };
}

SingleReward::Function repetition(RewardSettings& settings) {
  const auto size = static_cast<std::size_t>(settings.number("n", 4));
  require<ConfigError>(size > 0, "[rewards] n of repetition must be positive.");
  return [size](const RewardInput& input) -> std::optional<double> {
    std::vector<std::string> words(1);
    for (const char c : input.completion) {
      if (c != ' ' && c != '\n') {
        words.back() += c;
      } else if (!words.back().empty()) {
        words.emplace_back();
      }
    }
    if (words.back().empty()) words.pop_back();
    if (words.size() < size) return 0;
    std::set<std::vector<std::string>> seen;
    const std::size_t count = words.size() - size + 1;
    for (std::size_t i = 0; i < count; ++i)
      seen.insert(
          {words.begin() + static_cast<std::ptrdiff_t>(i), words.begin() + static_cast<std::ptrdiff_t>(i + size)});
    return static_cast<double>(seen.size()) / static_cast<double>(count) - 1;
  };
}

SingleReward::Function random(RewardSettings&) {
  return [](const RewardInput& input) -> std::optional<double> {
    const uint64_t bits = RandomKey(0).fold(input.prompt).fold(input.completion).bits();
    return static_cast<double>(bits >> 11) * 0x1p-53;
  };
}

class FunctionReward final : public Reward {
 public:
  FunctionReward(std::string name, RewardFunction function) : name_(std::move(name)), function_(std::move(function)) {}
  std::string name() const override { return name_; }
  RewardScores score(const std::vector<RewardInput>& inputs) override { return function_(inputs); }

 private:
  std::string name_;
  RewardFunction function_;
};

}  // namespace

std::optional<double> number_in_answer(const std::string& text) {
  if (const std::size_t boxed = text.rfind("\\boxed{"); boxed != std::string::npos) {
    const std::size_t begin = boxed + 7, end = text.find('}', begin);
    const std::string inside = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (inside.find("\\boxed{") == std::string::npos) {
      if (const auto found = number_in_answer(inside)) return found;
    }
  }
  std::size_t last = text.find_last_of("0123456789");
  if (last == std::string::npos) return std::nullopt;
  std::size_t first = last;
  const auto is_digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  while (first > 0 && (is_digit(first - 1) ||
                       ((text[first - 1] == '.' || text[first - 1] == ',') && first > 1 && is_digit(first - 2))))
    --first;
  if (first > 0 && text[first - 1] == '-') --first;
  std::string number;
  for (std::size_t i = first; i <= last; ++i) {
    if (text[i] != ',') number += text[i];
  }
  double value = 0;
  const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
  return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::unique_ptr<Reward> make_builtin_reward(RewardSettings& settings) {
  const std::string& type = settings.type();
  SingleReward::Function function;
  if (type == "exact") function = exact(settings);
  if (type == "numeric") function = numeric(settings);
  if (type == "regex") function = matches(settings, false);
  if (type == "format") function = matches(settings, true);
  if (type == "json") function = json(settings);
  if (type == "length") function = length(settings);
  if (type == "repetition") function = repetition(settings);
  if (type == "random") function = random(settings);
  return function ? std::make_unique<SingleReward>(type, std::move(function)) : nullptr;
}

std::unique_ptr<Reward> make_function_reward(std::string name, RewardFunction function) {
  return std::make_unique<FunctionReward>(std::move(name), std::move(function));
}

Json to_reward_request(const RewardInput& input) {
  return Json::object({{"prompt", input.prompt},
                       {"completion", input.completion},
                       {"truncated", input.is_truncated},
                       {"row", input.row ? *input.row : Json()}});
}

std::optional<double> score_of(const Json& answer, const std::string& where) {
  if (answer.is_null()) return std::nullopt;
  require<IoError>(answer.is_number() && std::isfinite(answer.as_double()), where,
                   " must return a number or null for each completion; got ", answer.dump().substr(0, 200), ".");
  return answer.as_double();
}

}  // namespace easydel
