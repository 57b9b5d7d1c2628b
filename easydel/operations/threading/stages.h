// Work in stages, each of several pieces: threads start on the next stage while others finish the last one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace easydel::operations {

class Stages {
 public:
  using Piece = std::function<void()>;

  // Adds pieces that may run concurrently, once all stages of `after` have finished. Returns the index of the stage.
  std::size_t add(std::vector<Piece> pieces, std::vector<std::size_t> after = {});

  // On all threads, without gradient. Pieces are started in the order they were added, so a stage should depend on one
  // that is a few stages before it. Rethrows a piece's exception, once all have finished.
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
