// Server-sent events, as they come in pieces of any size.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace easydel::serve {

class SseReader {
 public:
  // Calls on_data with the data of each event that is complete now; several data lines are joined by line breaks.
  void add(std::string_view bytes, const std::function<void(std::string_view)>& on_data);

 private:
  std::string line_, data_;
  bool has_data_ = false;
};

}  // namespace easydel::serve
