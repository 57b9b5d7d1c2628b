// Packs several documents into one row, each a separate segment for attention.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "easydel/data/rows/example.h"

namespace easydel::data {

// How documents are packed; the names and results are those of trl's pack_dataset.
enum class PackStrategy {
  Wrapped,   // "wrapped": one after the other; a document that does not fit continues in the next row
  Bfd,       // "bfd", best-fit decreasing: documents are not split, and those longer than a row are truncated
  BfdSplit,  // "bfd_split": the same, but long documents are split into several
};
PackStrategy parse_pack_strategy(const std::string& name);  // ConfigError lists the known ones
std::string pack_strategy_name(PackStrategy strategy);

struct PackOptions {
  int64_t max_length = 0;  // tokens of a row; 0: no packing, every document is an example
  PackStrategy strategy = PackStrategy::Wrapped;
  int64_t documents = 1000;  // packed together by bfd, or sorted together
  int64_t threads = 1;       // that transform rows to documents
  // Without packing: documents are sorted by length, the longest first, so that those of a batch are alike.
  bool sorts = false;

  bool in_blocks() const { return sorts || (max_length > 0 && strategy != PackStrategy::Wrapped); }
};

// A part of a document.
struct Piece {
  int64_t document = 0, begin = 0, count = 0;
  friend bool operator==(const Piece&, const Piece&) = default;
};

// The pieces of each row of at most max_length tokens, from the lengths of the documents.
std::vector<std::vector<Piece>> pack_lengths(const std::vector<int64_t>& lengths, const PackOptions& options);

// The longest first; those of one length stay in their order. The tokens of all columns count.
void sort_by_length(std::vector<Example>& documents);

// The rows. Every piece is a segment with positions from 0 on, and its first token has no label, because no token of
// its segment precedes it. ConfigError on examples without input_ids.
std::vector<Example> pack_documents(const std::vector<Example>& documents, const PackOptions& options);

}  // namespace easydel::data
