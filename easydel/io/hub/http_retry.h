// The retry policy of requests: how often, and with what delay.
#pragma once

#include <optional>
#include <string_view>

#include "easydel/io/hub/http.h"

namespace easydel {

struct RetryPolicy {
  int max_retries = 5;      // in a row; progress of a download resets the count
  double base_delay = 1.0;  // seconds before the first retry; doubled each time, up to max_delay
  double max_delay = 8.0;
  double max_retry_after = 300;  // a longer Retry-After is not waited for
};

// Counts the retries of one operation and waits between them.
class Backoff {
 public:
  explicit Backoff(const RetryPolicy& policy, std::stop_token stop = {}) : policy_(policy), stop_(std::move(stop)) {}

  // Waits, and returns true when another attempt is allowed. A server's Retry-After replaces the computed delay.
  // Cancelled when stopped meanwhile.
  bool wait(std::string_view why, std::optional<double> retry_after = std::nullopt);
  void reset() { tries_ = 0; }

 private:
  RetryPolicy policy_;
  std::stop_token stop_;
  int tries_ = 0;
};

bool is_transient(int status);  // 408, 429, 500, 502, 503, 504

// The delay in seconds that the server requests: Retry-After as a number or a date, or t= of its ratelimit header.
std::optional<double> retry_after(const HttpResponse& response);

// Sends until a response is not transient, or the retries are used up; then returns the last response or throws
// HttpError. A request that is not idempotent is sent again only when the server cannot have acted on it.
HttpResponse send_with_retries(HttpClient& client, const HttpRequest& request, const RetryPolicy& policy);

}  // namespace easydel
