// Log lines on stderr, with the rank when there are several. EASYDEL_LOG sets the level at start-up.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "easydel/core/error.h"

namespace easydel::log {

enum class Level { Debug, Info, Warning, Error, Off };

Level parse_level(std::string_view name);  // debug, info, warning, error, off; ConfigError otherwise
Level level();
void set_level(Level level);
inline bool enabled(Level at) { return at >= level() && at != Level::Off; }

// One line, written at once, above any progress bar.
void write(Level level, const std::string& message);

// Sends lines elsewhere (tests, a host program); an empty function restores stderr.
void set_sink(std::function<void(Level, const std::string&)> sink);

template <class... Parts>
void debug(const Parts&... parts) {
  if (enabled(Level::Debug)) write(Level::Debug, concat(parts...));
}
template <class... Parts>
void info(const Parts&... parts) {
  if (enabled(Level::Info)) write(Level::Info, concat(parts...));
}
template <class... Parts>
void warning(const Parts&... parts) {
  if (enabled(Level::Warning)) write(Level::Warning, concat(parts...));
}
template <class... Parts>
void error(const Parts&... parts) {
  if (enabled(Level::Error)) write(Level::Error, concat(parts...));
}

}  // namespace easydel::log
