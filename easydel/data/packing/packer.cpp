#include "easydel/data/packing/packer.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/packing/append_part.h"

namespace easydel::data {

Packer::Packer(PackOptions pack, Documents documents) : pack_(pack), documents_(std::move(documents)) {
  require<ConfigError>(pack_.max_length > 0, "[packing] max_length must be above 0; got ", pack_.max_length, ".");
}

std::optional<Example> Packer::next() { return pack_.in_blocks() ? next_in_blocks() : next_wrapped(); }

std::optional<Example> Packer::next_wrapped() {
  Example row;
  for (int64_t room = pack_.max_length, segment = 0; room > 0; ++segment) {
    while (!document_ || document_->input_ids.empty()) {
      document_ = documents_();
      if (!document_) return row.input_ids.empty() ? std::nullopt : std::optional(std::move(row));
    }
    const auto length = static_cast<int64_t>(document_->input_ids.size());
    const int64_t count = std::min(room, length - offset_);
    append_part(*document_, offset_, count, segment, row);
    room -= count;
    offset_ += count;
    if (offset_ < length) break;
    document_.reset();
    offset_ = 0;
  }
  return row;
}

std::optional<Example> Packer::next_in_blocks() {
  while (rows_.empty()) {
    std::vector<Example> block;
    while (static_cast<int64_t>(block.size()) < pack_.documents) {
      std::optional<Example> document = documents_();
      if (!document) break;
      if (!document->input_ids.empty()) block.push_back(std::move(*document));
    }
    if (block.empty()) return std::nullopt;
    for (Example& row : pack_documents(block, pack_)) rows_.push_back(std::move(row));
  }
  Example row = std::move(rows_.front());
  rows_.pop_front();
  return row;
}

}  // namespace easydel::data
