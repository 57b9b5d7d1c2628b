#include "easydel/data/rows/row_ids.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel::data {

Ids integers_of(const Row& row, const std::string& name) {
  const Json& values = field_of(row, name);
  require<FormatError>(values.is_array(), "[", row.place(), "] \"", name, "\" must be a list of integers; got ",
                       values.type_name(), ".");
  Ids out;
  for (const Json& value : values.as_array()) {
    require<FormatError>(value.is_int(), "[", row.place(), "] \"", name, "\" must be a list of integers; got ",
                         value.type_name(), " in it.");
    out.push_back(value.as_int());
  }
  require<FormatError>(!out.empty(), "[", row.place(), "] \"", name, "\" is empty.");
  return out;
}

void cut(Ids& ids, const TextLimit& limit) {
  if (!limit.tokens || static_cast<int64_t>(ids.size()) <= *limit.tokens) return;
  const auto length = static_cast<std::ptrdiff_t>(*limit.tokens);
  if (limit.keeps_end) ids.erase(ids.begin(), ids.end() - length);
  ids.resize(static_cast<std::size_t>(length));
}

Ids encode_within(const TextCodec& codec, std::string_view text, bool add_special_tokens, const TextLimit& limit) {
  Ids ids = codec.encode(text, add_special_tokens);
  if (!limit.tokens || static_cast<int64_t>(ids.size()) <= *limit.tokens) return ids;
  Ids body = add_special_tokens ? codec.encode(text, false) : ids;
  auto begin = std::search(ids.begin(), ids.end(), body.begin(), body.end());
  if (begin == ids.end()) {  // the text alone has other tokens: what stands around it is not known
    cut(ids, limit);
    return ids;
  }
  const Ids before(ids.begin(), begin), after(begin + static_cast<std::ptrdiff_t>(body.size()), ids.end());
  const auto around = static_cast<int64_t>(before.size() + after.size());
  require<ConfigError>(*limit.tokens > around, "[max_length] must be above ", around,
                       ", the number of special tokens that the tokenizer adds to a text; got ", *limit.tokens, ".");
  cut(body, {.tokens = *limit.tokens - around, .keeps_end = limit.keeps_end});
  ids = before;
  ids.insert(ids.end(), body.begin(), body.end());
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

}  // namespace easydel::data
