// What stands in a text in the place of an image: a processor class of transformers, as its files describe it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/processors/image_processor.h"
#include "easydel/processors/video_processor.h"

namespace easydel {

struct ImagePrompt {
  std::vector<int64_t> tokens;     // features of each piece
  std::vector<std::string> texts;  // of each image, in the place of its placeholder
};

class ImagePrompts {
 public:
  virtual ~ImagePrompts() = default;
  // For the next image, in texts as users write them.
  virtual const std::string& placeholder() const = 0;
  // What the text of an image has for each of its features.
  virtual const std::string& feature_token() const { return placeholder(); }
  virtual ImagePrompt operator()(const ProcessedImages& images) const = 0;
  // The same of videos: no placeholder where the class has none.
  virtual const std::string& video_placeholder() const;
  virtual std::string of_video(const ProcessedVideo& video) const;
  // Whether that says when frames are shown.
  virtual bool tells_times() const { return false; }
  // Whether the model's positions count the seconds between frames (second_per_grid_ts).
  virtual bool counts_seconds() const { return false; }
  // What the class asks of its image processor, whatever the file says.
  virtual void adjust(ImageProcessor&) const {}
};

// The files of a directory: processor_config.json and tokenizer_config.json (null: none). NotSupportedError on a class
// that is not here, ConfigError on wrong values; messages begin with `where`.
std::unique_ptr<const ImagePrompts> make_image_prompts(const Json& processor, const Json& tokenizer,
                                                       const std::string& where);

}  // namespace easydel
