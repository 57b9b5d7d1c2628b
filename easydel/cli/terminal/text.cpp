#include "easydel/cli/terminal/text.h"

#include <unistd.h>

#include <iostream>

#include "easydel/core/text/quoted.h"

namespace easydel::cli {

std::optional<AutoTokenizer> load_tokenizer(const ModelOptions& options) {
  const std::filesystem::path directory = resolve(options.model, {.revision = options.revision});
  if (!AutoTokenizer::is_in(directory)) return std::nullopt;
  return AutoTokenizer::from_directory(directory);
}

void Printer::add(int64_t id) {
  if (stream_) return print(stream_->step(static_cast<int32_t>(id)));
  std::cout << (std::exchange(first_, false) ? "" : " ") << id << std::flush;
}

void Printer::end() {
  if (stream_) print(stream_->finish());
  std::cout << "\n" << std::flush;
}

void Printer::print(const std::string& text) {
  if (text.empty()) return;
  text_ += text;
  // A terminal interprets control characters, even from a model.
  static const bool terminal = ::isatty(STDOUT_FILENO);
  std::cout << (terminal ? printable(text, text.size()) : text) << std::flush;
}

}  // namespace easydel::cli
