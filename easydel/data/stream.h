// One row of the global batch through time: the examples at positions s, s + S, s + 2S … of the data set.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "easydel/data/dataset.h"
#include "easydel/data/example.h"

namespace easydel::data {

struct PackOptions {
  int64_t max_length = 0;  // 0: no packing, every document is an example
  // A document that does not fit goes on in the next row; otherwise it begins there, cut to max_length.
  bool split_documents = true;
};

// Where a stream stands.
struct StreamState {
  int64_t documents = 0;  // how many it took
  int64_t offset = 0;     // how many tokens of the next one are in rows already
  friend bool operator==(const StreamState&, const StreamState&) = default;
};

class Stream {
 public:
  Stream(std::shared_ptr<const Dataset> dataset, Transform transform, const PackOptions& pack, int64_t number,
         int64_t streams, StreamState state = {});

  // A packed row has at most max_length tokens. Every document in it is a segment with positions from 0 on, and the
  // first token of each has no label, since nothing of its own comes before it. FormatError when a transform leaves out
  // everything.
  Example next();
  const StreamState& state() const { return state_; }

 private:
  void fetch();
  [[noreturn]] void fail_left_out(int64_t count) const;
  Example next_packed();

  std::shared_ptr<const Dataset> dataset_;
  Transform transform_;
  PackOptions pack_;
  int64_t number_, streams_;
  StreamState state_;
  std::optional<Example> document_;  // the one at state_.documents
};

}  // namespace easydel::data
