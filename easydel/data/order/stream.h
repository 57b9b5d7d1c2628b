// One row of the global batch over time: the examples at positions s, s + S, s + 2S … of the data set or, with bfd
// packing, the packed rows with these numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "easydel/data/dataset.h"
#include "easydel/data/packing/packed_blocks.h"
#include "easydel/data/rows/example.h"

namespace easydel::data {

// The position of a stream.
struct StreamState {
  int64_t documents = 0;  // number consumed; with bfd: the next block
  int64_t offset = 0;     // tokens of the next one already in rows; with bfd: the next row
  friend bool operator==(const StreamState&, const StreamState&) = default;
};

// The initial state of stream `number`.
StreamState first_state(const PackOptions& pack, int64_t number);

class Stream {
 public:
  // With bfd packing, streams may share `blocks`; null: its own.
  Stream(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& pack, int64_t number,
         int64_t streams, const StreamState& state, std::shared_ptr<PackedBlocks> blocks = nullptr);
  Stream(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& pack, int64_t number,
         int64_t streams)
      : Stream(std::move(dataset), std::move(transform), pack, number, streams, first_state(pack, number)) {}

  // A packed row has at most max_length tokens. FormatError when the transform skips everything.
  Example next();
  const StreamState& state() const { return state_; }

 private:
  void fetch();
  [[noreturn]] void fail_left_out(int64_t count) const;
  Example next_packed();
  Example next_in_blocks();

  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
  PackOptions pack_;
  int64_t number_, streams_;
  StreamState state_;
  std::optional<Example> document_;  // the one at state_.documents
  std::shared_ptr<PackedBlocks> blocks_;
};

}  // namespace easydel::data
