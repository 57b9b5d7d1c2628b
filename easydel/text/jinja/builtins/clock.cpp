#include "easydel/text/jinja/builtins/clock.h"

#include "easydel/text/jinja/runtime.h"

namespace easydel::jinja {

std::string format_time(const std::string& format, const std::tm& time) {
  std::string prepared;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '\0') raise("embedded null character");
    if (format[i] != '%' || i + 1 >= format.size()) {
      prepared += format[i];
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      prepared += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      prepared += '%';
      prepared += directive;
    }
  }
  if (prepared.empty()) return "";
  // A trailing marker distinguishes an empty result from a buffer that is too small.
  const std::string marked = prepared + "x";
  const std::size_t most = 256 * marked.size();
  for (std::size_t size = 1024;; size *= 2) {
    std::string out(size, '\0');
    const std::size_t length = std::strftime(out.data(), out.size(), marked.c_str(), &time);
    if (length > 0) {
      out.resize(length - 1);
      return out;
    }
    if (size > most) raise("strftime_now: the text is too long; got the format '", format.substr(0, 80), "'");
  }
}

std::tm local_time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  ::localtime_r(&now, &out);
  return out;
}

}  // namespace easydel::jinja
