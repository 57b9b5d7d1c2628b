#include "easydel/data/order/stream.h"

#include <algorithm>

#include "easydel/core/error.h"
#include "easydel/data/packing/append_part.h"

namespace easydel::data {
namespace {

constexpr int64_t kMaxLeftOut = 1'000'000;

bool is_empty(const Example& example) {
  return example.input_ids.empty() && example.others.empty() && example.tensors.empty();
}

}  // namespace

StreamState first_state(const PackOptions& pack, int64_t number) {
  return {.documents = 0, .offset = pack.in_blocks() ? number : 0};
}

Stream::Stream(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& pack, int64_t number,
               int64_t streams, const StreamState& state, std::shared_ptr<PackedBlocks> blocks)
    : dataset_(std::move(dataset)),
      transform_(std::move(transform)),
      pack_(pack),
      number_(number),
      streams_(streams),
      state_(state),
      blocks_(std::move(blocks)) {
  if (pack_.in_blocks() && !blocks_)
    blocks_ = std::make_shared<PackedBlocks>(dataset_, transform_, pack_, pack_.documents);
}

void Stream::fail_left_out(int64_t count) const {
  fail<FormatError>("[data] ", count, " consecutive rows were skipped, the last of them ",
                    dataset_->at(number_ + streams_ * (state_.documents - 1)).place(),
                    ": they yield no examples. Check max_length and the filters.");
}

void Stream::fetch() {
  const int64_t most = std::min(dataset_->epoch_size(), kMaxLeftOut);
  for (int64_t left_out = 0; !document_; ++left_out) {
    if (left_out > most) fail_left_out(left_out);
    document_ = transform_(dataset_->at(number_ + streams_ * state_.documents));
    if (document_ && is_empty(*document_)) document_.reset();
    if (!document_) ++state_.documents;
  }
}

Example Stream::next() {
  if (pack_.in_blocks()) return next_in_blocks();
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
    const auto length = static_cast<int64_t>(document_->input_ids.size());
    require<ConfigError>(length == 0 || state_.offset < length, "[restore] a stream is at token ", state_.offset,
                         " of a document that has ", length, ". The data or the tokenizer changed.");
    const int64_t count = std::min(room, length - state_.offset);
    append_part(*document_, state_.offset, count, segment, row);
    room -= count;
    state_.offset += count;
    if (state_.offset < length) break;
    document_.reset();
    state_ = {.documents = state_.documents + 1};
  }
  return row;
}

Example Stream::next_in_blocks() {
  const int64_t epoch = blocks_->blocks_of_epoch();
  for (int64_t left_out = 0, rows = 0; state_.offset >= (rows = blocks_->rows_in(state_.documents));) {
    left_out = rows > 0 ? 0 : left_out + 1;
    require<FormatError>(left_out < epoch, "[data] an epoch has no rows to pack: all ", dataset_->epoch_size(),
                         " of them were skipped. Check max_length and the filters.");
    state_.offset -= rows;
    ++state_.documents;
  }
  Example row = (*blocks_->at(state_.documents))[static_cast<std::size_t>(state_.offset)];
  state_.offset += streams_;
  return row;
}

}  // namespace easydel::data
