// Rows that contain their own number, and helpers to check which of them were returned.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/data/dataset.h"
#include "easydel/data/rows/example.h"

namespace easydel::data {

// {"set": set, "n": 0}, {"set": set, "n": 1} …
inline SourcePtr numbered_rows(int64_t count, int64_t set = 0) {
  std::vector<Json> rows;
  for (int64_t i = 0; i < count; ++i) rows.push_back(Json::object({{"set", set}, {"n", i}}));
  return make_source(std::move(rows), "numbers");
}

// Row n of set s is a document of 1 + (7 n + 3 s) % 23 tokens that encode s, n and the token's number.
inline int64_t token_of(int64_t set, int64_t n, int64_t i) { return (set * 1'000'000 + n) * 100 + i; }
inline int64_t length_of(int64_t set, int64_t n) { return 1 + (7 * n + 3 * set) % 23; }

inline std::optional<Example> document_of(const Row& row) {
  const int64_t set = row.values.at("set").as_int(), n = row.values.at("n").as_int();
  Example out;
  for (int64_t i = 0; i < length_of(set, n); ++i) out.input_ids.push_back(token_of(set, n, i));
  out.labels = out.input_ids;
  return out;
}

inline std::shared_ptr<const Dataset> make_dataset(std::vector<SourcePtr> sources, const MixtureOptions& options = {}) {
  return std::make_shared<const Dataset>(std::move(sources), options);
}

}  // namespace easydel::data
