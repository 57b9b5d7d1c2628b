#include "easydel/data/packing/packing.h"

#include <algorithm>
#include <deque>
#include <map>

#include "easydel/core/error.h"
#include "easydel/data/packing/append_part.h"

namespace easydel::data {
namespace {

using Rows = std::vector<std::vector<Piece>>;

Rows wrap(const std::vector<int64_t>& lengths, int64_t max_length) {
  Rows rows;
  int64_t room = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (int64_t begin = 0; begin < lengths[i];) {
      if (room == 0) {
        rows.emplace_back();
        room = max_length;
      }
      const int64_t count = std::min(room, lengths[i] - begin);
      rows.back().push_back({static_cast<int64_t>(i), begin, count});
      begin += count;
      room -= count;
    }
  }
  return rows;
}

// The pieces to pack, none longer than a row.
std::vector<Piece> pieces_of(const std::vector<int64_t>& lengths, int64_t max_length, bool split) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const int64_t kept = split ? lengths[i] : std::min(lengths[i], max_length);
    for (int64_t begin = 0; begin < kept; begin += max_length)
      pieces.push_back({static_cast<int64_t>(i), begin, std::min(max_length, kept - begin)});
  }
  return pieces;
}

// From the longest piece to the shortest, each into the row with the least sufficient room; of several such rows into
// the one that has had this room for the longest time, as trl does.
Rows fit_best(std::vector<Piece> pieces, int64_t max_length) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.count > b.count; });
  Rows rows;
  std::map<int64_t, std::deque<std::size_t>> by_room;  // rows that are neither empty nor full
  for (const Piece& piece : pieces) {
    const auto found = by_room.lower_bound(piece.count);
    std::size_t row = rows.size();
    int64_t room = max_length;
    if (found == by_room.end()) {
      rows.emplace_back();
    } else {
      room = found->first;
      row = found->second.front();
      found->second.pop_front();
      if (found->second.empty()) by_room.erase(found);
    }
    rows[row].push_back(piece);
    if (room > piece.count) by_room[room - piece.count].push_back(row);
  }
  return rows;
}

}  // namespace

PackStrategy parse_pack_strategy(const std::string& name) {
  for (const PackStrategy strategy : {PackStrategy::Wrapped, PackStrategy::Bfd, PackStrategy::BfdSplit}) {
    if (pack_strategy_name(strategy) == name) return strategy;
  }
  fail<ConfigError>("[packing_strategy] must be bfd, bfd_split or wrapped; got \"", name, "\".");
}

std::string pack_strategy_name(PackStrategy strategy) {
  switch (strategy) {
    case PackStrategy::Wrapped: return "wrapped";
    case PackStrategy::Bfd: return "bfd";
    case PackStrategy::BfdSplit: return "bfd_split";
  }
  return "";
}

std::vector<std::vector<Piece>> pack_lengths(const std::vector<int64_t>& lengths, const PackOptions& options) {
  require<ConfigError>(options.max_length > 0, "[pack_lengths] max_length must be above 0; got ", options.max_length,
                       ".");
  if (options.strategy == PackStrategy::Wrapped) return wrap(lengths, options.max_length);
  return fit_best(pieces_of(lengths, options.max_length, options.strategy == PackStrategy::BfdSplit),
                  options.max_length);
}

void append_part(const Example& document, int64_t from, int64_t count, int64_t segment, Example& row) {
  require<ConfigError>(!document.input_ids.empty(),
                       "[packing] only rows with input_ids can be packed; preference rows cannot.");
  const auto begin = static_cast<std::ptrdiff_t>(from), end = static_cast<std::ptrdiff_t>(from + count);
  const std::size_t first = row.labels.size();
  row.input_ids.insert(row.input_ids.end(), document.input_ids.begin() + begin, document.input_ids.begin() + end);
  row.labels.insert(row.labels.end(), document.labels.begin() + begin, document.labels.begin() + end);
  row.labels[first] = kNoLoss;
  row.segment_ids.insert(row.segment_ids.end(), static_cast<std::size_t>(count), segment);
  for (int64_t i = 0; i < count; ++i) row.position_ids.push_back(i);
}

void sort_by_length(std::vector<Example>& documents) {
  const auto length = [](const Example& example) {
    std::size_t sum = example.input_ids.size();
    for (const auto& [name, column] : example.others) sum += column.size();
    return sum;
  };
  std::stable_sort(documents.begin(), documents.end(),
                   [&](const Example& a, const Example& b) { return length(a) > length(b); });
}

std::vector<Example> pack_documents(const std::vector<Example>& documents, const PackOptions& options) {
  std::vector<int64_t> lengths;
  for (const Example& document : documents) {
    require<ConfigError>(!document.input_ids.empty(),
                         "[packing] only rows with input_ids can be packed; preference rows cannot.");
    lengths.push_back(static_cast<int64_t>(document.input_ids.size()));
  }
  std::vector<Example> rows;
  for (const std::vector<Piece>& pieces : pack_lengths(lengths, options)) {
    Example& row = rows.emplace_back();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const Example& document = documents[static_cast<std::size_t>(pieces[i].document)];
      append_part(document, pieces[i].begin, pieces[i].count, static_cast<int64_t>(i), row);
    }
  }
  return rows;
}

}  // namespace easydel::data
