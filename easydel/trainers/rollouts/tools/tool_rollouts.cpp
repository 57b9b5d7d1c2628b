#include "easydel/trainers/rollouts/tools/tool_rollouts.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/infra/base_module.h"
#include "easydel/serve/output/message_parser.h"
#include "easydel/sharding/parallel.h"
#include "easydel/tokenizers/auto_tokenizer.h"
#include "easydel/trainers/rollouts/tools/tool_box.h"
#include "easydel/trainers/run/batch.h"

namespace easydel {
namespace {

using Ids = std::vector<int64_t>;

std::string decode(const AutoTokenizer& tokenizer, const Ids& ids, bool skips_special) {
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  return tokenizer->decode(narrow, skips_special);
}

serve::MessageFormat format_of(const AutoTokenizer& tokenizer) {
  const ChatTemplates& templates = tokenizer.config().chat_templates;
  const std::string* source = templates.find("tool_use");
  if (!source) source = templates.find("default");
  const serve::MessageFormat format = source ? serve::detect_message_format(*source) : serve::MessageFormat{};
  require<ConfigError>(!format.tools.empty(), "[tools] the tokenizer's chat template writes no tool calls",
                       source ? "" : ": it has no chat template", ". Use a model with tool support.");
  return format;
}

// A completion that is being written.
struct Turn {
  std::size_t prompt = 0, index = 0;
  std::vector<ToolCall> calls;
};

class ToolRollouts {
 public:
  ToolRollouts(LimitedRollouts rollouts, std::shared_ptr<ToolBox> tools, std::shared_ptr<const BaseModule> model,
               const AutoTokenizer& tokenizer, const RolloutArguments& arguments)
      : rollouts_(std::move(rollouts)),
        tools_(std::move(tools)),
        model_(std::move(model)),
        tokenizer_(tokenizer),
        arguments_(arguments),
        format_(format_of(tokenizer)) {
    const Json schemas = tools_->schemas();
    for (const Json& schema : schemas.as_array()) {
      const Json& function = schema.at("function");
      specs_.push_back({.name = function.at("name").as_string(), .parameters = function.at("parameters")});
    }
  }

  RolloutResult run(const std::vector<Ids>& prompts, int64_t group, const RandomKey& key, CompletionSink* sink) {
    RolloutResult result = rollouts_(prompts, group, key, {}, nullptr);
    std::vector<Turn> turns;
    double count = 0, calls = 0, failures = 0;
    for (std::size_t p = 0; p < prompts.size(); ++p) {
      for (std::size_t i = 0; i < result.completions[p].size(); ++i, ++count) {
        Completion& each = result.completions[p][i];
        each.own.assign(each.ids.size(), 1);
        turns.push_back({.prompt = p, .index = i, .calls = calls_of(each.ids, each.is_truncated)});
      }
    }
    const int64_t most = arguments_.max_tool_calling_iterations.value_or(INT64_MAX);
    for (int64_t round = 0; round < most; ++round) {
      std::erase_if(turns, [&](const Turn& turn) {
        if (!turn.calls.empty()) return false;
        if (sink) sink->take(turn.prompt, turn.index, result.completions[turn.prompt][turn.index]);
        return true;
      });
      if (turns.empty()) break;
      for (const Turn& turn : turns) calls += static_cast<double>(turn.calls.size());
      failures += extend(turns, prompts, result, sink);
      if (turns.empty()) break;
      go_on(turns, prompts, key.fold("tools").fold(static_cast<uint64_t>(round)), result);
    }
    result.metrics["tools/call_frequency"] = calls / std::max(count, 1.0);
    result.metrics["tools/failure_frequency"] = failures / std::max(calls, 1.0);
    return result;
  }

 private:
  // Of a part of a completion that the policy wrote. One that was cut off has none.
  std::vector<ToolCall> calls_of(const Ids& ids, bool is_truncated) const {
    if (is_truncated) return {};
    const auto parser = serve::make_message_parser({.tools = format_.tools}, specs_);
    std::vector<ToolCall> calls;
    std::vector<std::string> texts;
    const auto take = [&](const serve::MessageDelta& delta) {
      for (const serve::ToolCallDelta& each : delta.tool_calls) {
        const auto at = static_cast<std::size_t>(each.index);
        if (calls.size() <= at) {
          calls.resize(at + 1);
          texts.resize(at + 1);
        }
        calls[at].name += each.name;
        texts[at] += each.arguments;
      }
    };
    take(parser->feed(decode(tokenizer_, ids, !format_.needs_special_tokens())));
    take(parser->finish());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      try {
        calls[i].arguments = Json::parse(texts[i].empty() ? "{}" : texts[i]);
      } catch (const FormatError&) {
        calls[i].problem = "The arguments are not JSON.";
      }
      if (calls[i].problem.empty() && !calls[i].arguments.is_object())
        calls[i].problem = "The arguments must be an object.";
    }
    return calls;
  }

  // Calls the tools of all turns and puts their answers behind the completions; those that have no room for them end
  // as they are. How many calls failed.
  double extend(std::vector<Turn>& turns, const std::vector<Ids>& prompts, RolloutResult& result,
                const CompletionSink* sink) {
    std::vector<ToolCall> calls;
    for (const Turn& turn : turns) calls.insert(calls.end(), turn.calls.begin(), turn.calls.end());
    const std::vector<ToolAnswer> answers = ask(calls, sink);
    double failures = 0;
    std::size_t next = 0;
    std::vector<Turn> left;
    const int64_t context = model_->config().max_position_embeddings;
    for (Turn& turn : turns) {
      Json messages = Json::array();
      for (const ToolCall& call : turn.calls) {
        const ToolAnswer& answer = answers[next++];
        failures += answer.has_failed ? 1 : 0;
        messages.push_back(Json::object({{"role", "tool"}, {"name", call.name}, {"content", answer.text}}));
      }
      const Ids suffix = suffix_of(messages);
      Completion& completion = result.completions[turn.prompt][turn.index];
      const auto length = static_cast<int64_t>(completion.ids.size() + suffix.size());
      const auto whole = static_cast<int64_t>(prompts[turn.prompt].size()) + length;
      if (length >= arguments_.max_completion_length || (context > 0 && whole >= context)) continue;
      completion.ids.insert(completion.ids.end(), suffix.begin(), suffix.end());
      completion.own.resize(completion.ids.size(), 0);
      if (!completion.logps.empty()) completion.logps.resize(completion.ids.size(), 0);
      left.push_back(std::move(turn));
    }
    turns = std::move(left);
    return failures;
  }

  // The next part of each completion, and its calls.
  void go_on(std::vector<Turn>& turns, const std::vector<Ids>& prompts, const RandomKey& key, RolloutResult& result) {
    std::vector<Ids> contexts;
    std::vector<int64_t> limits;
    const int64_t positions = model_->config().max_position_embeddings;
    for (const Turn& turn : turns) {
      const Completion& completion = result.completions[turn.prompt][turn.index];
      Ids& ids = contexts.emplace_back(prompts[turn.prompt]);
      ids.insert(ids.end(), completion.ids.begin(), completion.ids.end());
      int64_t room = arguments_.max_completion_length - static_cast<int64_t>(completion.ids.size());
      if (positions > 0) room = std::min(room, positions - static_cast<int64_t>(ids.size()));
      limits.push_back(room);
    }
    RolloutResult more = rollouts_(contexts, 1, key, limits, nullptr);
    result.prefilled_tokens += more.prefilled_tokens;
    result.prompt_tokens += more.prompt_tokens;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const Completion& part = more.completions[i].front();
      Completion& completion = result.completions[turns[i].prompt][turns[i].index];
      const bool has_logps = completion.logps.size() == completion.ids.size();
      completion.ids.insert(completion.ids.end(), part.ids.begin(), part.ids.end());
      completion.own.resize(completion.ids.size(), 1);
      if (has_logps) completion.logps.insert(completion.logps.end(), part.logps.begin(), part.logps.end());
      completion.is_truncated = part.is_truncated;
      completion.text = decode(tokenizer_, completion.ids, true);
      turns[i].calls = calls_of(part.ids, part.is_truncated);
    }
  }

  // What the template writes behind a turn that ended with calls: the answers, and the beginning of the next turn.
  Ids suffix_of(const Json& messages) const {
    const Json call = Json::object({{"type", "function"},
                                    {"function", Json::object({{"name", messages.at(std::size_t{0}).at("name")},
                                                               {"arguments", Json::object()}})}});
    Json chat =
        Json::array({Json::object({{"role", "user"}, {"content", "x"}}),
                     Json::object({{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array({call})}})});
    const auto encode = [&](bool goes_on) {
      const std::vector<int32_t> ids = tokenizer_.encode_chat({.messages = chat, .add_generation_prompt = goes_on});
      return Ids(ids.begin(), ids.end());
    };
    Ids before = encode(false);
    for (const Json& message : messages.as_array()) chat.push_back(message);
    const Ids all = encode(true);
    // Templates may write a line break behind the token that ends a turn; the policy's turn ends with that token.
    const auto end = tokenizer_.config().special_token("eos_token");
    const auto id = end ? tokenizer_->token_to_id(*end) : std::nullopt;
    if (id) {
      const auto last = std::find(before.rbegin(), before.rend(), static_cast<int64_t>(*id));
      if (last != before.rend()) before.erase(last.base(), before.end());
    }
    require<NotSupportedError>(all.size() > before.size() && std::equal(before.begin(), before.end(), all.begin()),
                               "[tools] the chat template changes a turn when tool results follow it; their tokens "
                               "cannot be appended to what the policy generated.");
    return {all.begin() + static_cast<std::ptrdiff_t>(before.size()), all.end()};
  }

  // On the first rank; all get the answers, or the error of a tool or of a reward that has failed meanwhile.
  std::vector<ToolAnswer> ask(const std::vector<ToolCall>& calls, const CompletionSink* sink) {
    const auto call = [&] {
      if (sink) sink->check();
      return tools_->call(calls);
    };
    const Parallel* parallel = model_->parallel().get();
    if (!parallel || parallel->is_single()) return call();
    std::string text;
    if (parallel->everyone().rank() == 0) {
      try {
        Json list = Json::array();
        for (const ToolAnswer& answer : call())
          list.push_back(Json::object({{"text", answer.text}, {"failed", answer.has_failed}}));
        text = list.dump();
      } catch (const std::exception& error) {
        text = concat("!", error.what());
      }
    }
    text = broadcast_text(text, *parallel, model_->options().device);
    require<IoError>(!text.starts_with("!"), text.substr(1));
    std::vector<ToolAnswer> answers;
    const Json shared = Json::parse(text);
    for (const Json& each : shared.as_array())
      answers.push_back({.text = each.at("text").as_string(), .has_failed = each.at("failed").as_bool()});
    return answers;
  }

  LimitedRollouts rollouts_;
  std::shared_ptr<ToolBox> tools_;
  std::shared_ptr<const BaseModule> model_;
  AutoTokenizer tokenizer_;
  RolloutArguments arguments_;
  serve::MessageFormat format_;
  std::vector<serve::ToolSpec> specs_;
};

}  // namespace

RolloutFunction make_tool_rollouts(LimitedRollouts rollouts, std::shared_ptr<ToolBox> tools,
                                   std::shared_ptr<const BaseModule> model, const AutoTokenizer& tokenizer,
                                   const RolloutArguments& arguments) {
  auto loop =
      std::make_shared<ToolRollouts>(std::move(rollouts), std::move(tools), std::move(model), tokenizer, arguments);
  return [loop](const std::vector<Ids>& prompts, int64_t group, const RandomKey& key, CompletionSink* sink) {
    return loop->run(prompts, group, key, sink);
  };
}

}  // namespace easydel
