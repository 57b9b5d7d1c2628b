// Rows of texts with images: where the images stand, and which tokens count.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "easydel/data/rows/example.h"
#include "easydel/data/rows/row_ids.h"

namespace easydel::data {

struct VisionOptions {
  CodecOptions codec;
  TextLimit limit;                      // a cut that takes a token of an image is refused
  std::string image_token = "<image>";  // where an image stands in a text
  std::string feature_token = "";       // what the image becomes is made of; empty: the same
  bool add_special_tokens = true;       // to a prompt and a completion that are texts
  bool completion_only_loss = true;     // of rows with prompt and completion
  bool mask_image_tokens = true;        // they have no label
};

// The values of a row's images: those of the list "images", else "image", else none.
std::vector<Json> images_of(const Row& row);

// A text with each placeholder made as long as its image. The same images for all texts of a row.
using ExpandText = std::function<std::string(const std::string& text)>;

// From rows with messages, or with prompt and completion, to input_ids and labels. Messages have contents that are
// texts with placeholders, or lists of parts {type: image} and {type: text, text: …}; images that nothing stands for
// come before the first text of the user.
class VisionRows {
 public:
  VisionRows(const AutoTokenizer& tokenizer, const VisionOptions& options);
  // FormatError with the row's location.
  Example operator()(const Row& row, std::size_t images, const ExpandText& expand) const;

 private:
  Ids encode_chat(const Json& messages, const Row& row, bool asks, const ExpandText& expand) const;
  Json placed(const Json& messages, std::size_t images) const;
  void cut_row(const Row& row, Example& example) const;

  AutoTokenizer tokenizer_;
  TextCodec codec_;
  VisionOptions options_;
  std::vector<int64_t> image_token_ids_;  // both
};

}  // namespace easydel::data
