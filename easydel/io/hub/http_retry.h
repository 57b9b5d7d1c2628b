// When a request is sent again: how often, and after how long a wait.
#pragma once

#include <optional>
#include <string_view>

#include "easydel/io/hub/http.h"

namespace easydel {

struct RetryPolicy {
  int max_retries = 5;      // in a row; a download that gets on starts to count again
  double base_delay = 1.0;  // seconds before the first retry; doubled each time, up to max_delay
  double max_delay = 8.0;
  double max_retry_after = 300;  // what a server asks for beyond this is not waited for
};

// Counts the retries of one piece of work and waits between them.
class Backoff {
 public:
  explicit Backoff(const RetryPolicy& policy, std::stop_token stop = {}) : policy_(policy), stop_(std::move(stop)) {}

  // Waits, and says true when another try is allowed. A server's Retry-After replaces the computed delay.
  // Cancelled when stopped meanwhile.
  bool wait(std::string_view why, std::optional<double> retry_after = std::nullopt);
  void reset() { tries_ = 0; }

 private:
  RetryPolicy policy_;
  std::stop_token stop_;
  int tries_ = 0;
};

bool is_transient(int status);  // 408, 429, 500, 502, 503, 504

// Seconds that the server asks to wait: Retry-After as a number or a date, or the t= of its ratelimit header.
std::optional<double> retry_after(const HttpResponse& response);

// Sends until an answer comes that is not transient, or until the policy ends; then the last answer or HttpError.
// What is not idempotent is sent again only when the server cannot have acted on it.
HttpResponse send_with_retries(HttpClient& client, const HttpRequest& request, const RetryPolicy& policy);

}  // namespace easydel
