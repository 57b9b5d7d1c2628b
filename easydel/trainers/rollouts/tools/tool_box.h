// Tools that a policy may call while it writes: programs that read a call as a line of JSON and answer with a line.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "easydel/core/json/json.h"

namespace easydel {

class LineProcess;

struct ToolCall {
  std::string name;
  Json arguments;       // an object; null: they were none
  std::string problem;  // what is wrong with the call; empty: nothing
};

struct ToolAnswer {
  std::string text;
  bool has_failed = false;
};

// From a list of {name, command, description, parameters (a JSON schema), timeout (10 seconds)}. A program reads
// {"name": …, "arguments": {…}} and answers with a text or any other JSON; an object with "error" is a failure, of
// which the policy is told.
class ToolBox {
 public:
  ToolBox() = default;
  // ConfigError names the tool and the key.
  explicit ToolBox(const Json& tools);
  ~ToolBox();
  ToolBox(ToolBox&&) noexcept;
  ToolBox& operator=(ToolBox&&) noexcept;

  bool empty() const { return tools_.empty(); }
  // As chat templates and OpenAI's API have them: [{"type": "function", "function": {…}}].
  Json schemas() const;
  // In their order. A tool that is not there, or a call that is none, is answered with its error. IoError, with its
  // name, when a program hangs, ends or writes what is no JSON.
  std::vector<ToolAnswer> call(const std::vector<ToolCall>& calls);

 private:
  struct Tool;
  std::vector<std::unique_ptr<Tool>> tools_;
};

}  // namespace easydel
