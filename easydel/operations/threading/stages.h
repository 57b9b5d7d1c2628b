// Work in stages, each of several pieces: threads go on to the next stage while others end the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace easydel::operations {

class Stages {
 public:
  using Piece = std::function<void()>;

  // Pieces that may run at once, when all stages of `after` have ended. Returns the number of the stage.
  std::size_t add(std::vector<Piece> pieces, std::vector<std::size_t> after = {});

  // By all threads, without gradient. Pieces are begun in the order in which they were added, so a stage should wait
  // for one that is a few stages before it. Throws what a piece threw, once all have ended.
  void run();

 private:
  struct Stage {
    std::vector<Piece> pieces;
    std::vector<std::size_t> after;
  };
  std::vector<Stage> stages_;
};

// f(first, count) for pieces of rows.
std::vector<Stages::Piece> row_pieces(int64_t rows, int64_t most, const std::function<void(int64_t, int64_t)>& f);

}  // namespace easydel::operations
