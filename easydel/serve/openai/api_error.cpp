#include "easydel/serve/openai/api_error.h"

#include "easydel/core/json/strict_json.h"
#include "easydel/core/text/utf8.h"
#include "easydel/serve/engine/engine.h"
#include "easydel/text/jinja/template.h"

namespace easydel::serve {
namespace {

std::string_view api_error_type(int status) {
  if (status == 401) return "authentication_error";
  if (status == 404) return "not_found_error";
  if (status == 429) return "rate_limit_error";
  if (status >= 500) return "server_error";
  return "invalid_request_error";
}

Json api_text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

// "[SamplingParams] top_p must be …": the field, when the body has it.
std::string api_param_of(std::string_view message, const Json* body) {
  if (!body || !message.starts_with('[')) return "";
  const std::size_t close = message.find("] ");
  if (close == std::string_view::npos) return "";
  std::string_view word = message.substr(close + 2);
  word = word.substr(0, word.find_first_of(" .,;:[="));
  return body->contains(word) ? std::string(word) : "";
}

}  // namespace

HttpResponse json_response(const Json& body, int status) {
  return {.status = status, .content_type = "application/json", .headers = {}, .body = dump_strict(body)};
}

Json error_body(int status, std::string_view message, std::string_view param, std::string_view code) {
  return Json::object({{"error", Json::object({{"message", utf8::lossy(message)},
                                               {"type", api_error_type(status)},
                                               {"param", api_text_or_null(param)},
                                               {"code", api_text_or_null(code)}})}});
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response =
      json_response(error_body(error.status(), error.what(), error.param(), error.code()), error.status());
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError to_api_error(const std::exception_ptr& error, const Json* body) {
  const auto refused = [&](const std::exception& e) { return ApiError(400, e.what(), api_param_of(e.what(), body)); };
  try {
    std::rethrow_exception(error);
  } catch (const ApiError& e) {
    return e;
  } catch (const QueueFullError& e) {
    return ApiError(429, e.what(), "", "queue_full");
  } catch (const ConfigError& e) {
    return refused(e);
  } catch (const FormatError& e) {
    return refused(e);
  } catch (const NotSupportedError& e) {
    return refused(e);
  } catch (const jinja::TemplateError& e) {
    return refused(e);
  } catch (const std::exception& e) {
    return ApiError(500, e.what());
  } catch (...) {
    return ApiError(500, "an unknown error");
  }
}

HttpResponse error_response(const std::exception_ptr& error, std::chrono::seconds retry_after, const Json* body) {
  const ApiError found = to_api_error(error, body);
  HttpResponse response = error_response(found);
  if (found.status() == 429) response.headers.emplace_back("Retry-After", std::to_string(retry_after.count()));
  return response;
}

}  // namespace easydel::serve
