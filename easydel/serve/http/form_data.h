// Bodies of multipart/form-data: the fields and files of a form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "easydel/serve/http/http_server.h"

namespace easydel::serve {

struct FormPart {
  std::string name;
  std::optional<std::string> filename;  // of a file
  std::string_view value;               // of the request's body, which must outlive this
};

// In their order. FormatError for another content type, and for a body that does not end with its boundary, has a part
// without a name or more than 64 parts.
std::vector<FormPart> read_form_data(const HttpRequest& request);

}  // namespace easydel::serve
