#include "easydel/io/hub/http_retry.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <random>

#include "easydel/core/log.h"
#include "easydel/io/parallel.h"

namespace easydel {

namespace {

// Jitter: many hosts that start together must not retry together.
double jitter() {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.5, 1.0)(generator);
}

void sleep_for(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
  if (stop.stop_requested()) throw Cancelled();
}

std::optional<double> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return static_cast<double>(value);
}

std::optional<double> seconds_until(const std::string& date) {  // "Wed, 21 Oct 2015 07:28:00 GMT"
  std::tm parts{};
  if (strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts) == nullptr) return std::nullopt;
  return std::max(0.0, std::difftime(timegm(&parts), std::time(nullptr)));
}

}  // namespace

bool is_transient(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

std::optional<double> retry_after(const HttpResponse& response) {
  const std::string value = response.header("Retry-After");
  if (const auto seconds = parse_number(value)) return seconds;
  if (const auto seconds = seconds_until(value)) return seconds;
  const std::string limit = response.header("ratelimit");  // "api";r=0;t=55
  if (limit.find("r=0") == limit.npos) return std::nullopt;
  const auto at = limit.find("t=");
  if (at == limit.npos) return std::nullopt;
  return parse_number(std::string_view(limit).substr(at + 2, limit.find_first_not_of("0123456789", at + 2) - at - 2));
}

bool Backoff::wait(std::string_view why, std::optional<double> retry_after) {
  if (tries_ >= policy_.max_retries || retry_after.value_or(0) > policy_.max_retry_after) return false;
  const double computed = std::min(policy_.max_delay, policy_.base_delay * std::exp2(tries_)) * jitter();
  const double delay = retry_after.value_or(computed);
  ++tries_;
  log::info("[hub] ", why, " Try ", tries_, " of ", policy_.max_retries, " follows in ", std::round(delay * 10) / 10,
            " s.");
  sleep_for(delay, stop_);
  return true;
}

HttpResponse send_with_retries(HttpClient& client, const HttpRequest& request, const RetryPolicy& policy) {
  Backoff backoff(policy, client.options().stop);
  while (true) {
    try {
      HttpResponse response = client.send(request);
      const bool not_done = response.status == 429 || response.status == 503;
      if (!(request.idempotent ? is_transient(response.status) : not_done) ||
          !backoff.wait(concat(request.method, " ", request.url, " returned status ", response.status, "."),
                        retry_after(response))) {
        return response;
      }
    } catch (const HttpError& error) {
      // A machine without a network will not get one within seconds.
      if (!error.known_host() || (!request.idempotent && error.sent()) || !backoff.wait(error.what())) throw;
    }
  }
}

}  // namespace easydel
