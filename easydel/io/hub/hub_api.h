// The parts of the hub's HTTP API that downloads and uploads need, with readable errors.
#pragma once

#include <string>
#include <vector>

#include "easydel/core/json/json.h"
#include "easydel/io/hub/http_retry.h"
#include "easydel/io/hub/hub_environment.h"
#include "easydel/io/hub/hub_repo.h"

namespace easydel {

// The hub responded with an error. The message names the repository, the file, the status and what to try.
class HubError : public IoError {
 public:
  HubError(const std::string& message, int status, std::string code)
      : IoError(message), status_(status), code_(std::move(code)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }  // the hub's X-Error-Code: "RevisionNotFound", …

 private:
  int status_;
  std::string code_;
};

// For one thread at a time; each thread creates its own from the same environment.
class HubApi {
 public:
  HubApi(HubEnvironment environment, std::stop_token stop);

  const std::string& endpoint() const { return environment_.endpoint; }
  const RetryPolicy& retry() const { return environment_.retry; }
  const std::stop_token& stop() const { return client_.options().stop; }
  HttpClient& client() { return client_; }

  std::string commit_of(const HubRepo& repo);  // the commit that the repository's revision refers to now
  // All files of a commit. FormatError when the server sends a name that escapes the directory.
  std::vector<HubFile> list_files(const HubRepo& repo, const std::string& commit);
  std::string file_url(const HubRepo& repo, const std::string& commit, const std::string& name) const;

  HttpResponse get(const std::string& url);
  // `idempotent`: it may be sent again even if the server may have acted on it.
  HttpResponse post(const std::string& path_or_url, const std::string& body, const std::string& content_type,
                    bool idempotent, std::chrono::seconds silence_limit = std::chrono::seconds(0));
  HttpResponse post_json(const std::string& path_or_url, const Json& body, bool idempotent = true);

 private:
  HubEnvironment environment_;
  HttpClient client_;
};

enum class HubAccess { Read, Write };

// Throws HubError unless the response is a 2xx. `file` is the requested one, or "".
void require_ok(const HttpResponse& response, const HubRepo& repo, const std::string& file, const std::string& endpoint,
                HubAccess access = HubAccess::Read);

// The body as JSON. FormatError names the URL.
Json parse_response(const HttpResponse& response);

// The URL that a Link header gives for `relation`; "" when it gives none.
std::string linked_url(const std::string& link_header, const std::string& relation);

}  // namespace easydel
