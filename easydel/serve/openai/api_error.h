// Errors in OpenAI's shape: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include "easydel/core/error.h"
#include "easydel/core/json/json.h"
#include "easydel/serve/http/http_server.h"

namespace easydel::serve {

// Thrown by whatever answers a request, and sent as it is.
class ApiError : public Error {
 public:
  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : Error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  int status() const { return status_; }
  const std::string& param() const { return param_; }  // the field at fault; empty: null in the answer
  const std::string& code() const { return code_; }

 private:
  int status_;
  std::string param_, code_;
};

// 400 that names the field.
template <class... Parts>
[[noreturn]] void refuse_field(std::string param, const Parts&... parts) {
  throw ApiError(400, concat(parts...), std::move(param));
}

template <class... Parts>
void require_field(bool condition, std::string_view param, const Parts&... parts) {
  if (!condition) [[unlikely]]
    refuse_field(std::string(param), parts...);
}

HttpResponse json_response(const Json& body, int status = 200);
Json error_body(int status, std::string_view message, std::string_view param = "", std::string_view code = "");
HttpResponse error_response(const ApiError& error);
// ApiError as it is; QueueFullError: 429 with Retry-After; errors about what was sent (ConfigError, FormatError,
// NotSupportedError, a template's): 400, with the field when the message begins with one of the body's; else 500.
ApiError to_api_error(const std::exception_ptr& error, const Json* body = nullptr);
HttpResponse error_response(const std::exception_ptr& error, std::chrono::seconds retry_after,
                            const Json* body = nullptr);

}  // namespace easydel::serve
