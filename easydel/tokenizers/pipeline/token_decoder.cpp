#include "easydel/tokenizers/pipeline/token_decoder.h"

#include <algorithm>

#include "easydel/core/text/utf8.h"
#include "easydel/tokenizers/bpe/byte_level.h"
#include "easydel/tokenizers/pipeline/aligned_text.h"
#include "easydel/tokenizers/pipeline/metaspace.h"
#include "easydel/tokenizers/pipeline/pattern.h"

namespace easydel {
namespace {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  if (from.empty()) {  // between all characters
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8::length_of_lead(text[at]);
      out += concat(to, text.substr(at, length));
      at += length;
    }
    return out += to;
  }
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, done)) {
    out += text.substr(done, at - done);
    out += to;
    done = at + from.size();
  }
  return out += text.substr(done);
}

std::size_t total_size(const std::vector<std::string>& tokens) {
  std::size_t total = 0;
  for (const std::string& token : tokens) total += token.size();
  return total;
}

// Removes spaces that English does not use.
std::string cleaned(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) {
    if (text.find(from) != std::string::npos) text = replace_all(text, from, to);
  }
  return text;
}

class SequenceDecoder final : public TokenDecoder {
 public:
  explicit SequenceDecoder(const JsonField& field) {
    const JsonField parts = field["decoders"];
    for (std::size_t i = 0; i < parts.as_array().size(); ++i) parts_.push_back(make_token_decoder(parts[i]));
  }
  void apply(std::vector<std::string>& tokens) const override {
    const std::size_t before = total_size(tokens);
    for (const auto& part : parts_) {
      part->apply(tokens);
      check_growth(total_size(tokens), before);
    }
  }

 private:
  std::vector<std::unique_ptr<TokenDecoder>> parts_;
};

class ByteLevelDecoder final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string bytes;
    for (const std::string& token : tokens) {
      const std::size_t before = bytes.size();
      for (std::size_t at = 0; at < token.size();) {
        const int byte = byte_level::byte_of(utf8::next(token, at));
        if (byte < 0) {  // a token that does not encode bytes is unchanged
          bytes.resize(before);
          bytes += token;
          break;
        }
        bytes += static_cast<char>(byte);
      }
    }
    tokens.assign(1, utf8::lossy(bytes));
  }
};

class WordPieceDecoder final : public TokenDecoder {
 public:
  explicit WordPieceDecoder(const JsonField& field)
      : prefix_(field["prefix"].as_string()), cleanup_(field["cleanup"].as_bool()) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) tokens[i] = tokens[i].starts_with(prefix_) ? tokens[i].substr(prefix_.size()) : " " + tokens[i];
      if (cleanup_) tokens[i] = cleaned(std::move(tokens[i]));
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder final : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const JsonField& field) : options_(read_metaspace(field)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const bool drops = i == 0 && options_.scheme != PrependScheme::kNever;
      tokens[i] = replace_all(tokens[i], options_.replacement, drops ? "" : " ");
    }
  }

 private:
  MetaspaceOptions options_;
};

class BpeDecoder final : public TokenDecoder {
 public:
  explicit BpeDecoder(const JsonField& field) : suffix_(field["suffix"].as_string()) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

class ByteFallback final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (invalid_utf8(bytes) == std::string_view::npos) {
        if (!bytes.empty()) out.push_back(bytes);
      } else {
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const int byte = byte_of(token); byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  }

 private:
  static int byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
    const auto digit = [](char c) -> int {
      if (c >= '0' && c <= '9') return c - '0';
      const char lower = static_cast<char>(c | 32);
      return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
    };
    const int high = token[3] == '+' ? 0 : digit(token[3]);
    const int low = digit(token[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
  }
};

class Fuse final : public TokenDecoder {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, all);
  }
};

class StripDecoder final : public TokenDecoder {
 public:
  explicit StripDecoder(const JsonField& field)
      : content_(utf8::encode(field["content"].as_char())),
        start_(field["start"].as_int(0, INT64_MAX)),
        stop_(field["stop"].as_int(0, INT64_MAX)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string_view left = token;
      for (int64_t i = 0; i < start_ && left.starts_with(content_); ++i) left.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && left.ends_with(content_); ++i) left.remove_suffix(content_.size());
      token = std::string(left);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

class ReplaceDecoder final : public TokenDecoder {
 public:
  explicit ReplaceDecoder(const JsonField& field)
      : pattern_(field["pattern"]), content_(field["content"].as_string()) {}
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<Offset> matches;
    for (std::string& token : tokens) {
      matches.clear();
      pattern_.find_all(token, matches);
      if (matches.empty()) continue;
      check_growth(token.size() + matches.size() * content_.size(), token.size());
      std::string out;
      std::size_t done = 0;
      for (const Offset match : matches) {
        out.append(token, done, match.begin - done);
        out += content_;
        done = match.end;
      }
      token = out.append(token, done);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Ctc final : public TokenDecoder {
 public:
  explicit Ctc(const JsonField& field)
      : pad_(field["pad_token"].as_string()),
        delimiter_(field["word_delimiter_token"].as_string()),
        cleanup_(field["cleanup"].as_bool()) {}
  void apply(std::vector<std::string>& tokens) const override {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      token = replace_all(token, pad_, "");
      if (cleanup_) token = replace_all(cleaned(std::move(token)), delimiter_, " ");
    }
    std::erase(tokens, "");
  }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

}  // namespace

std::unique_ptr<TokenDecoder> make_token_decoder(const JsonField& field) {
  switch (field["type"].one_of({"Sequence", "ByteLevel", "WordPiece", "Metaspace", "BPEDecoder", "ByteFallback", "Fuse",
                                "Strip", "Replace", "CTC"})) {
    case 0: return std::make_unique<SequenceDecoder>(field);
    case 1: return std::make_unique<ByteLevelDecoder>();
    case 2: return std::make_unique<WordPieceDecoder>(field);
    case 3: return std::make_unique<MetaspaceDecoder>(field);
    case 4: return std::make_unique<BpeDecoder>(field);
    case 5: return std::make_unique<ByteFallback>();
    case 6: return std::make_unique<Fuse>();
    case 7: return std::make_unique<StripDecoder>(field);
    case 8: return std::make_unique<ReplaceDecoder>(field);
    default: return std::make_unique<Ctc>(field);
  }
}

}  // namespace easydel
