#include "easydel/generation/speech/words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "easydel/core/error.h"

namespace easydel {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD: bytes that are no character yet
constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kBefore = "\"'“¡¿([{-", kBehind = "\"'.。,，!！?？:：”)]}、";

struct Word {
  std::string text;
  std::vector<std::size_t> places;  // of its tokens
};

bool has_no_spaces(const std::string& language) {
  constexpr std::array<std::string_view, 6> kLanguages{"zh", "ja", "th", "lo", "my", "yue"};
  return std::find(kLanguages.begin(), kLanguages.end(), language) != kLanguages.end();
}

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r\x1c\x1d\x1e\x1f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? std::string_view()
                                         : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool is_in(std::string_view text, std::string_view all) { return all.find(text) != std::string_view::npos; }

// As few tokens as are whole characters together.
std::vector<Word> split_on_characters(const std::vector<int32_t>& ids, const DecodeFunction& decode) {
  const std::string whole = decode(ids);
  std::vector<Word> words;
  std::vector<int32_t> open;
  std::vector<std::size_t> places;
  std::size_t done = 0;  // bytes of the whole text that have a word
  for (std::size_t i = 0; i < ids.size(); ++i) {
    open.push_back(ids[i]);
    places.push_back(i);
    std::string text = decode(open);
    const std::size_t broken = text.find(kReplacement);
    if (broken != std::string::npos && done + broken < whole.size() &&
        !std::string_view(whole).substr(done + broken).starts_with(kReplacement))
      continue;
    done += text.size();
    words.push_back({std::move(text), std::exchange(places, {})});
    open.clear();
  }
  return words;
}

std::vector<Word> joined_at_spaces(std::vector<Word> pieces) {
  std::vector<Word> words;
  for (Word& piece : pieces) {
    if (words.empty() || piece.text.starts_with(' ') || is_in(stripped(piece.text), kPunctuation)) {
      words.push_back(std::move(piece));
      continue;
    }
    words.back().text += piece.text;
    words.back().places.insert(words.back().places.end(), piece.places.begin(), piece.places.end());
  }
  return words;
}

// The words at i and behind it, j, become one in the place of `keeps`; the other one is empty then.
void merge(std::vector<Word>& words, std::size_t i, std::size_t j, std::size_t keeps) {
  Word both{words[i].text + words[j].text, words[i].places};
  both.places.insert(both.places.end(), words[j].places.begin(), words[j].places.end());
  words[i] = words[j] = {};
  words[keeps] = std::move(both);
}

void merge_punctuation(std::vector<Word>& words) {
  for (std::size_t i = words.size(), j = words.size(); i-- > 0;) {
    if (i + 1 == words.size()) {
      j = i;
    } else if (words[i].text.starts_with(' ') && is_in(stripped(words[i].text), kBefore)) {
      merge(words, i, j, j);
    } else {
      j = i;
    }
  }
  for (std::size_t i = 0, j = 1; j < words.size(); ++j) {
    if (!words[i].text.ends_with(' ') && is_in(words[j].text, kBehind)) {
      merge(words, i, j, i);
    } else {
      i = j;
    }
  }
  std::erase_if(words, [](const Word& word) { return word.text.empty(); });
}

double rounded(double seconds) { return std::round(seconds * 100) / 100; }

}  // namespace

std::vector<SpokenWord> words_of(const Transcription& said, const DecodeFunction& decode,
                                 const GenerationConfig& config) {
  const bool splits = has_no_spaces(spoken_language(said.decoder_input_ids, config));
  std::vector<SpokenWord> result;
  double before = 0;  // when the token before this one ended
  for (const SpokenSegment& segment : said.segments) {
    require<ConfigError>(segment.token_times.size() == segment.tokens.size(),
                         "[words_of] word timestamps need token timestamps; set return_token_timestamps.");
    std::vector<int32_t> ids;
    std::vector<double> starts, ends;
    for (std::size_t i = 0; i < segment.tokens.size(); ++i) {
      const std::vector<int32_t> one = without_times({segment.tokens[i]}, config);
      if (!one.empty() && !decode(one).empty()) {
        ids.push_back(one.front());
        starts.push_back(before);
        ends.push_back(segment.token_times[i]);
      }
      before = segment.token_times[i];
    }
    std::vector<Word> words = split_on_characters(ids, decode);
    if (!splits) words = joined_at_spaces(std::move(words));
    merge_punctuation(words);
    for (Word& word : words) {
      result.push_back({rounded(starts[word.places.front()]), rounded(ends[word.places.back()]), std::move(word.text)});
    }
  }
  return result;
}

}  // namespace easydel
