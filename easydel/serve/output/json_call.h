// Calls written as {"name": …, "arguments": {…}}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "easydel/serve/output/text_parser.h"

namespace easydel::serve {

class JsonCallParser : public TextParser {
 protected:
  // An object with a name and with arguments or parameters, in any order, and perhaps id and type. The arguments may
  // also be a string that holds an object, or null. Stands at its brace.
  ParseTask<CallEnd> call_object(bool needs_arguments);
  // Stands at the bracket: calls with commas between them. `mark` is where the text begins that is content if the first
  // of them is none.
  ParseTask<CallEnd> call_list(std::size_t mark, bool needs_arguments);
  // Objects with ; or , or nothing between them. At least one must be a call.
  ParseTask<CallEnd> call_sequence(std::size_t mark);

 private:
  struct Draft {
    std::optional<std::string> name, arguments;  // as long as the other one is missing
    bool has_arguments = false, begun = false;

    CallEnd failed() const { return begun ? CallEnd::Broken : CallEnd::Rejected; }
  };
  ParseTask<bool> entry(Draft& draft);
  ParseTask<bool> arguments(Draft& draft);
  void begin(Draft& draft);
};

}  // namespace easydel::serve
