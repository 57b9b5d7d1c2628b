#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/rows/preference.h"
#include "easydel/data/rows/preference_row.h"

namespace easydel::data {
namespace {

struct Texts {
  std::string prompt, chosen, rejected;
};

struct Answer {
  Ids prompt, ids;  // the prompt before this answer: its last token may merge with the answer's first
};

class Orpo {
 public:
  Orpo(const AutoTokenizer& tokenizer, const PreferenceOptions& options)
      : codec_(tokenizer, options.codec), max_length_(options.max_length) {}

  std::optional<Example> operator()(const Row& row) const {
    const Texts texts = texts_of(row);
    Ids prompt = codec_.encode(texts.prompt, false);
    Answer chosen = encode(prompt, texts.prompt, texts.chosen, row);
    Answer rejected = encode(prompt, texts.prompt, texts.rejected, row);
    prompt.resize(std::min(prompt.size(), std::min(chosen.prompt.size(), rejected.prompt.size())));
    check_alike(chosen.prompt, rejected.prompt, row);
    add_bos(prompt);
    Example out;
    finish(chosen, "chosen_", out);
    finish(rejected, "rejected_", out);
    out.others["prompt_attention_mask"].assign(prompt.size(), 1);
    out.others["prompt_input_ids"] = std::move(prompt);
    return out;
  }

 private:
  // The texts rendered by the chat template, split where they differ.
  Texts texts_of(const Row& row) const {
    const PreferenceRow pair = read_preference(row, true);
    if (!pair.is_conversational) return {pair.prompt.as_string(), pair.chosen.as_string(), pair.rejected.as_string()};
    require<FormatError>(pair.prompt.size() > 0, "[", row.place(),
                         "] chosen and rejected have no message in common, "
                         "and there is no prompt.");
    const Json* role = pair.prompt.as_array().back().find("role");
    const std::string name = role && role->is_string() ? role->as_string() : "";
    require<FormatError>(name == "user" || name == "tool" || name == "assistant", "[", row.place(),
                         "] the last message of a prompt must have the role user, tool or assistant; got \"", name,
                         "\".");
    const bool goes_on = name == "assistant";
    std::string prompt = codec_.render_chat(
        pair.prompt, row, {.add_generation_prompt = !goes_on, .continue_final_message = goes_on, .tools = false});
    const std::string chosen = codec_.render_chat(joined(pair.prompt, pair.chosen), row, {.tools = false});
    const std::string rejected = codec_.render_chat(joined(pair.prompt, pair.rejected), row, {.tools = false});
    prompt.resize(common_text(prompt, chosen));
    prompt.resize(common_text(prompt, rejected));
    return {prompt, chosen.substr(prompt.size()), rejected.substr(prompt.size())};
  }

  Answer encode(const Ids& prompt, const std::string& before, const std::string& answer, const Row& row) const {
    const Ids whole = codec_.encode(before + answer, false);
    require<FormatError>(whole.size() >= prompt.size(), "[", row.place(), "] the prompt alone has ", prompt.size(),
                         " tokens, and with an answer ", whole.size(), ": they cannot be separated.");
    std::size_t start = prompt.size();
    if (!std::equal(prompt.begin(), prompt.end(), whole.begin())) --start;
    const auto middle = whole.begin() + static_cast<std::ptrdiff_t>(start);
    return {.prompt = {whole.begin(), middle}, .ids = {middle, whole.end()}};
  }

  void check_alike(const Ids& a, const Ids& b, const Row& row) const {
    std::size_t different = 0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) different += a[i] != b[i];
    const std::size_t longer = std::max(a.size(), b.size()) - std::min(a.size(), b.size());
    require<FormatError>(different <= 1 && longer <= 1, "[", row.place(),
                         "] the tokens of the prompt may differ in the "
                         "last one before chosen and rejected; here ",
                         different, " differ.");
  }

  void add_bos(Ids& ids) const {
    const auto bos = codec_.bos_token_id();
    if (bos && (ids.empty() || ids[0] != *bos)) ids.insert(ids.begin(), *bos);
  }

  void finish(Answer& answer, const std::string& side, Example& out) const {
    add_bos(answer.prompt);
    const int64_t eos = codec_.eos_token_id();
    if (answer.ids.empty() || answer.ids.back() != eos) answer.ids.push_back(eos);
    if (max_length_) {
      const auto room = std::max<int64_t>(0, *max_length_ - static_cast<int64_t>(answer.prompt.size()));
      answer.ids.resize(std::min(answer.ids.size(), static_cast<std::size_t>(room)));
    }
    Ids& ids = out.others[side + "input_ids"] = answer.prompt;
    ids.insert(ids.end(), answer.ids.begin(), answer.ids.end());
    Ids& labels = out.others[side + "labels"] = Ids(answer.prompt.size(), kNoLoss);
    labels.insert(labels.end(), answer.ids.begin(), answer.ids.end());
    out.others[side + "attention_mask"].assign(ids.size(), 1);
  }

  TextCodec codec_;
  std::optional<int64_t> max_length_;
};

}  // namespace

Transform make_orpo_transform(const AutoTokenizer& tokenizer, const PreferenceOptions& options) {
  require<ConfigError>(options.max_length.value_or(1) > 0, "[max_length] must be above 0; got ",
                       options.max_length.value_or(1), ".");
  return Orpo(tokenizer, options);
}

}  // namespace easydel::data
