// One row of the global batch through time: the examples at positions s, s + S, s + 2S … of the data set, or, where bfd
// packs, the packed rows with these numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "easydel/data/dataset.h"
#include "easydel/data/packing/packed_blocks.h"
#include "easydel/data/rows/example.h"

namespace easydel::data {

// Where a stream stands.
struct StreamState {
  int64_t documents = 0;  // how many it took; with bfd: the block that it looks into next
  int64_t offset = 0;     // how many tokens of the next one are in rows already; with bfd: the row that it looks for
  friend bool operator==(const StreamState&, const StreamState&) = default;
};

// Of stream `number`, before it took anything.
StreamState first_state(const PackOptions& pack, int64_t number);

class Stream {
 public:
  // Where bfd packs, streams may share `blocks`; null: its own.
  Stream(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& pack, int64_t number,
         int64_t streams, const StreamState& state, std::shared_ptr<PackedBlocks> blocks = nullptr);
  Stream(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& pack, int64_t number,
         int64_t streams)
      : Stream(std::move(dataset), std::move(transform), pack, number, streams, first_state(pack, number)) {}

  // A packed row has at most max_length tokens. FormatError when a transform leaves out everything.
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
