#include "easydel/core/error.h"
#include "easydel/trainers/previews/previews.h"
#include "easydel/trainers/previews/text_table.h"

namespace easydel {

std::vector<std::string> preview_table(const Json& previews, int64_t step, std::size_t width) {
  const std::size_t prompt = width * 2 / 5;
  TextTable table({{"prompt", prompt}, {"completion", width - prompt - 3}});
  std::string before;
  for (const Json& each : previews.as_array()) {
    const std::string& text = each.at("prompt").as_string();
    table.add({text == before ? "" : on_one_line(text), on_one_line(each.at("completion").as_string())});
    before = text;
  }
  std::vector<std::string> lines = table.lines();
  lines.insert(lines.begin(), concat("[preview] after step ", step));
  return lines;
}

}  // namespace easydel
