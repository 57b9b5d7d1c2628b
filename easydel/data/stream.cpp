#include "easydel/data/stream.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel::data {
namespace {

constexpr int64_t kMostLeftOut = 1'000'000;

bool is_empty(const Example& example) { return example.input_ids.empty() && example.others.empty(); }

void append_part(const Example& document, int64_t from, int64_t count, int64_t segment, Example& row) {
  const auto begin = static_cast<std::ptrdiff_t>(from), end = static_cast<std::ptrdiff_t>(from + count);
  const std::size_t first = row.labels.size();
  row.input_ids.insert(row.input_ids.end(), document.input_ids.begin() + begin, document.input_ids.begin() + end);
  row.labels.insert(row.labels.end(), document.labels.begin() + begin, document.labels.begin() + end);
  row.labels[first] = kNoLoss;
  row.segment_ids.insert(row.segment_ids.end(), static_cast<std::size_t>(count), segment);
  for (int64_t i = 0; i < count; ++i) row.position_ids.push_back(i);
}

}  // namespace

Stream::Stream(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& pack, int64_t number,
               int64_t streams, StreamState state)
    : dataset_(std::move(dataset)),
      transform_(std::move(transform)),
      pack_(pack),
      number_(number),
      streams_(streams),
      state_(state) {}

void Stream::fail_left_out(int64_t count) const {
  fail<FormatError>("[data] ", count, " rows one after the other were left out, the last of them ",
                    dataset_->at(number_ + streams_ * (state_.documents - 1)).place(),
                    ": no example is left of them. Check max_length and what is filtered.");
}

void Stream::fetch() {
  const int64_t most = std::min(dataset_->epoch_size(), kMostLeftOut);
  for (int64_t left_out = 0; !document_; ++left_out) {
    if (left_out > most) fail_left_out(left_out);
    document_ = transform_(dataset_->at(number_ + streams_ * state_.documents));
    if (document_ && is_empty(*document_)) document_.reset();
    if (!document_) ++state_.documents;
  }
}

Example Stream::next() {
  if (pack_.max_length > 0) return next_packed();
  fetch();
  Example out = std::move(*document_);
  document_.reset();
  ++state_.documents;
  return out;
}

Example Stream::next_packed() {
  Example row;
  for (int64_t room = pack_.max_length, segment = 0; room > 0; ++segment) {
    fetch();
    require<ConfigError>(!document_->input_ids.empty(),
                         "[packing] only rows with input_ids can be packed; preference rows cannot.");
    const auto length = static_cast<int64_t>(document_->input_ids.size());
    const int64_t end = pack_.split_documents ? length : std::min(length, pack_.max_length);
    require<ConfigError>(state_.offset < end, "[restore] a stream stands at token ", state_.offset,
                         " of a document that has ", length, ". The data or the tokenizer changed.");
    const int64_t count = std::min(room, end - state_.offset);
    if (!pack_.split_documents && count < end) break;
    append_part(*document_, state_.offset, count, segment, row);
    room -= count;
    state_.offset += count;
    if (state_.offset < end) break;
    document_.reset();
    state_ = {.documents = state_.documents + 1};
  }
  return row;
}

}  // namespace easydel::data
