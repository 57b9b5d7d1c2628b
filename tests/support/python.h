// Runs a script under tests/reference with the Python that has the reference packages.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "easydel/core/error.h"
#include "tests/support/temporary_directory.h"

namespace easydel {

inline std::string shell_quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// What the script printed, without the warnings of its packages on stderr. Throws Error with both when it fails.
inline std::string run_python(const std::string& script, const std::vector<std::string>& arguments) {
  const char* python = std::getenv("EASYDEL_PYTHON");
  const char* source = std::getenv("EASYDEL_SOURCE_DIR");
  require<Error>(python && source, "[run_python] EASYDEL_PYTHON and EASYDEL_SOURCE_DIR must be set, as ctest does.");
  std::string command = shell_quoted(python) + " " + shell_quoted(std::string(source) + "/tests/reference/" + script);
  for (const std::string& argument : arguments) command += " " + shell_quoted(argument);
  const TemporaryDirectory directory;
  const std::string errors = directory / "stderr";
  FILE* pipe = ::popen((command + " 2>" + shell_quoted(errors)).c_str(), "r");
  require<Error>(pipe != nullptr, "[run_python] cannot start a shell for: ", command);
  std::string output;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, got);
  const int status = ::pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return output;
  std::ifstream file(errors);
  const std::string messages{std::istreambuf_iterator<char>(file), {}};
  fail<Error>("[run_python] failed: ", command, "\n", output, messages);
}

}  // namespace easydel
