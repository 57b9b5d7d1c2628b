#include "tests/tokenizers/parity.h"

#include <gtest/gtest.h>

#include <sstream>

#include "easydel/core/files/file.h"
#include "easydel/core/json/json.h"
#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/decode_stream.h"
#include "easydel/tokenizers/files/json_tokenizer.h"

namespace easydel {
namespace {

// Converts bytes to characters, which are the package's unit.
class CharacterOffsets {
 public:
  explicit CharacterOffsets(std::string_view text) {
    int64_t characters = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8::length_of_lead(text[at]);
      index_.insert(index_.end(), length, characters++);
      at += length;
    }
  }
  void add(Offset offset, std::vector<int64_t>& out) const {
    out.push_back(at(offset.begin));
    out.push_back(at(offset.end));
  }
  bool is_ascii() const { return index_.empty() || static_cast<std::size_t>(index_.back()) + 1 == index_.size(); }

 private:
  int64_t at(std::size_t byte) const {
    if (byte < index_.size()) return index_[byte];
    return index_.empty() ? 0 : index_.back() + 1;
  }

  std::vector<int64_t> index_;
};

template <class T>
Json to_json(const std::vector<T>& values) {
  Json::Array out;
  for (const T value : values) out.emplace_back(static_cast<int64_t>(value));
  return out;
}

class Comparison {
 public:
  Comparison(const JsonTokenizer& tokenizer, const Json& row, bool whole_stream)
      : tokenizer_(tokenizer), row_(row), whole_stream_(whole_stream) {}

  // What differs, or "".
  std::string run() {
    const std::string& text = row_.at("text").as_string();
    const Json* pair = row_.find("pair");
    const TextPair texts{text, pair ? std::optional<std::string_view>(pair->as_string()) : std::nullopt};
    if (const Json* refused = row_.find("error")) {
      EXPECT_ANY_THROW(tokenizer_.encode_pair(texts)) << refused->dump();
      return "";
    }
    const Encoding encoding = tokenizer_.encode_pair(texts);
    const CharacterOffsets first(text);
    const CharacterOffsets second(pair ? std::string_view(pair->as_string()) : "");
    compare_encoding("", encoding, row_, first, second, pair != nullptr);
    std::vector<int32_t> ids;
    for (const Json& id : row_.at("ids").as_array()) ids.push_back(static_cast<int32_t>(id.as_int()));
    compare("decoded", Json(tokenizer_.decode(ids)), row_.at("decoded"));
    const std::string whole = tokenizer_.decode(ids, false);
    compare("decoded_all", Json(whole), row_.at("decoded_all"));
    if (tokenizer_.encode_pair(texts, {.offsets = false}).ids != encoding.ids) note("ids without offsets", "others");
    if (const Json* steps = row_.find("stream")) {
      DecodeStream stream(tokenizer_, false);
      Json::Array ours;
      std::string joined;
      for (const int32_t id : ids) {
        ours.emplace_back(stream.step(id));
        joined += ours.back().as_string();
        if (invalid_utf8(ours.back().as_string()) != std::string_view::npos) note("stream", "half a character");
      }
      compare("stream", Json(ours), *steps);
      if (whole_stream_) compare("stream, joined", Json(joined + stream.finish()), Json(whole));
    }
    return found_.str();
  }

 private:
  void compare_encoding(const std::string& path, const Encoding& ours, const Json& row, const CharacterOffsets& first,
                        const CharacterOffsets& second, bool is_pair) {
    compare(path + "ids", to_json(ours.ids), row.at("ids"));
    // Offsets of a pair are each in its own text; where the package no longer says which one, both are ASCII.
    const Json* sequences = row.find("sequences");
    std::vector<int64_t> offsets;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const int64_t of = is_pair && i < sequences->size() ? sequences->at(i).as_int() : 0;
      const bool is_plain = ours.special_tokens_mask[i] == 1 || (is_pair && first.is_ascii() && second.is_ascii());
      if (is_plain) {
        offsets.insert(offsets.end(), {ours.offsets[i].begin, ours.offsets[i].end});
      } else {
        (of == 1 ? second : first).add(ours.offsets[i], offsets);
      }
    }
    compare(path + "offsets", to_json(offsets), row.at("offsets"));
    if (!row.contains("type_ids")) return;
    compare(path + "type_ids", to_json(ours.type_ids), row.at("type_ids"));
    compare(path + "words", to_json(ours.word_ids), row.at("words"));
    compare(path + "special", to_json(ours.special_tokens_mask), row.at("special"));
    compare(path + "attention", to_json(ours.attention_mask), row.at("attention"));
    const Json::Array& parts = row.at("overflowing").as_array();
    if (parts.size() != ours.overflowing.size()) {
      return note(path + "overflowing", concat(ours.overflowing.size(), " parts and not ", parts.size()));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      compare_encoding(concat(path, "overflowing[", i, "]."), ours.overflowing[i], parts[i], first, second, is_pair);
    }
  }

  void compare(const std::string& what, const Json& ours, const Json& theirs) {
    if (!(ours == theirs)) found_ << what << ": ours " << ours.dump() << "\n  theirs " << theirs.dump() << "\n";
  }
  void note(const std::string& what, const std::string& text) { found_ << what << ": " << text << "\n"; }

  const JsonTokenizer& tokenizer_;
  const Json& row_;
  bool whole_stream_;
  std::ostringstream found_;
};

}  // namespace

std::size_t expect_same_as_the_package(const std::filesystem::path& directory, const std::string& name,
                                       bool whole_stream) {
  const auto tokenizer = JsonTokenizer::from_file(directory / (name + ".json"));
  std::istringstream lines(read_file(directory / (name + ".jsonl")));
  std::size_t texts = 0;
  std::size_t wrong = 0;
  for (std::string line; std::getline(lines, line); ++texts) {
    const Json row = Json::parse(line);
    std::string found;
    try {
      found = Comparison(*tokenizer, row, whole_stream).run();
    } catch (const Error& error) {
      found = error.what();
    }
    if (found.empty()) continue;
    if (++wrong <= 3) ADD_FAILURE() << name << ", text " << texts << ": " << row.at("text").dump() << "\n" << found;
  }
  EXPECT_EQ(wrong, 0) << "of " << texts << " texts for " << name;
  return texts;
}

}  // namespace easydel
