#include "easydel/io/hub/hub_api.h"

#include <algorithm>

#include "easydel/core/build_info.h"
#include "easydel/io/hub/url.h"

namespace easydel {

namespace {

constexpr int kMaxPages = 10'000;

// The server's message, made safe for a terminal: one line, no control characters, limited in length.
std::string server_words(const HttpResponse& response) {
  std::string words = response.header("X-Error-Message");
  if (words.empty() && response.body.starts_with("{")) {
    try {
      const Json body = Json::parse(response.body);
      const Json* error = body.find("error");
      if (error == nullptr) error = body.find("message");
      if (error != nullptr && error->is_string()) words = error->as_string();
    } catch (const FormatError&) {
      words = "an unreadable response";
    }
  }
  std::replace_if(words.begin(), words.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  while (!words.empty() && (words.back() == ' ' || words.back() == '.')) words.pop_back();
  return words.size() > 300 ? words.substr(0, 300) + "…" : words;
}

std::string server_of(const std::string& url) { return url.substr(0, url.find('/', url.find("://") + 3)); }

HubFile listed_file(const Json& entry, const HubRepo& repo) {
  const std::string& path = entry.at("path").as_string();
  require<FormatError>(is_safe_file_name(path), "[hub] ", repo.text(), " lists a file that is not inside it: \"", path,
                       "\". Nothing was downloaded.");
  HubFile file{.path = path, .size = entry.at("size").as_int(), .blob_id = entry.at("oid").as_string()};
  if (const Json* lfs = entry.find("lfs"); lfs != nullptr && !lfs->is_null()) {
    file.lfs_sha256 = lfs->at("oid").as_string();
    file.size = lfs->at("size").as_int();
  }
  if (const Json* xet = entry.find("xetHash"); xet != nullptr && xet->is_string()) file.xet_hash = xet->as_string();
  const bool hashes = is_hex(file.blob_id, 40) && (file.lfs_sha256.empty() || is_hex(file.lfs_sha256, 64));
  require<FormatError>(hashes && file.size >= 0, "[hub] ", repo.text(), " lists \"", path,
                       "\" without a valid hash or size; got oid \"", file.etag(), "\" and size ", file.size, ".");
  return file;
}

HttpClientOptions client_options(const HubEnvironment& env, std::stop_token stop) {
  return {.user_agent = "easydel/" EASYDEL_VERSION,
          .token = env.token,
          .trusted_url = env.endpoint,
          .silence_limit = env.silence_limit,
          .stop = std::move(stop)};
}

}  // namespace

void require_ok(const HttpResponse& response, const HubRepo& repo, const std::string& file, const std::string& endpoint,
                HubAccess access) {
  if (response.ok()) return;
  const int status = response.status;
  const std::string code = response.header("X-Error-Code");
  const std::string words = server_words(response);
  const std::string what = file.empty() ? repo.text() : "\"" + file + "\" of " + repo.text();
  const std::string page = endpoint + "/" + repo.web_path();
  const std::string may = access == HubAccess::Read ? "read" : "write to";
  const auto refuse = [&](const std::string& rule, const std::string& advice) {
    throw HubError(concat("[hub] ", rule, "; got ", status, words.empty() ? "" : " (" + words + ")", " from ",
                          server_of(response.url), ". ", advice),
                   status, code);
  };
  if (code == "RevisionNotFound") {
    refuse(concat(repo_type_name(repo.type), " \"", repo.id, "\" has no revision \"", repo.revision, "\""),
           "Its branches and tags are listed at " + page + "/tree/main.");
  }
  if (code == "EntryNotFound") refuse(concat(repo.text(), " has no file \"", file, "\""), "Look at " + page + ".");
  if (code == "GatedRepo") {
    refuse(what + " is gated", "Accept its terms at " + page + " and set HF_TOKEN to a token of your account.");
  }
  if (status == 429) refuse(what + ": too many requests", "Wait, or set HF_TOKEN for a higher limit.");
  if (status >= 500) refuse(what + ": the server failed", "Try again later.");
  if (server_of(response.url) != endpoint)
    refuse(what + ": the storage server refused the request", "Try again; a firewall may block it.");
  if (status == 401) {
    refuse(what + " is private, gated or does not exist",
           concat("Set HF_TOKEN to a token that can ", may, " it, or check the name."));
  }
  if (status == 403) refuse(what + " is forbidden", concat("Set HF_TOKEN to a token that can ", may, " it."));
  if (status == 404) {
    refuse(what + " was not found", "Check the name and the repo_type; a private repository needs HF_TOKEN.");
  }
  refuse(what + ": the request was refused",
         access == HubAccess::Read ? "Check HF_ENDPOINT." : "Nothing was committed.");
}

Json parse_response(const HttpResponse& response) { return Json::parse(response.body, {.where = response.url}); }

std::string linked_url(const std::string& link_header, const std::string& relation) {
  for (std::size_t at = 0; (at = link_header.find('<', at)) != std::string::npos;) {
    const std::size_t end = link_header.find('>', at);
    if (end == std::string::npos) return "";
    const std::string rest = link_header.substr(end, link_header.find('<', end) - end);
    if (rest.find("rel=\"" + relation + "\"") != rest.npos) return link_header.substr(at + 1, end - at - 1);
    at = end;
  }
  return "";
}

HubApi::HubApi(HubEnvironment environment, std::stop_token stop)
    : environment_(std::move(environment)), client_(client_options(environment_, std::move(stop))) {}

HttpResponse HubApi::get(const std::string& url) {
  return send_with_retries(client_, {.url = url, .headers = {"Accept: application/json"}}, environment_.retry);
}

HttpResponse HubApi::post(const std::string& path_or_url, const std::string& body, const std::string& content_type,
                          bool idempotent, std::chrono::seconds silence_limit) {
  const bool is_url = path_or_url.starts_with("http:") || path_or_url.starts_with("https:");
  return send_with_retries(
      client_,
      {.method = "POST",
       .url = is_url ? path_or_url : endpoint() + "/" + path_or_url,
       .headers = {"Content-Type: " + content_type,
                   "Accept: " + (content_type.ends_with("+json") ? content_type : "application/json")},
       .body = body,
       .idempotent = idempotent,
       .silence_limit = silence_limit},
      environment_.retry);
}

HttpResponse HubApi::post_json(const std::string& path_or_url, const Json& body, bool idempotent) {
  return post(path_or_url, body.dump(), "application/json", idempotent);
}

std::string HubApi::commit_of(const HubRepo& repo) {
  const auto response = get(concat(endpoint(), "/", repo.api_path(), "/revision/", url_escape(repo.revision)));
  require_ok(response, repo, "", endpoint());
  const std::string commit = parse_response(response).at("sha").as_string();
  require<FormatError>(is_commit(commit), "[hub] ", repo.text(),
                       ": a commit must be 40 hexadecimal digits; the server sent \"", commit, "\". Is ", endpoint(),
                       " a Hugging Face hub?");
  return commit;
}

std::vector<HubFile> HubApi::list_files(const HubRepo& repo, const std::string& commit) {
  std::vector<HubFile> files;
  std::string url = concat(endpoint(), "/", repo.api_path(), "/tree/", commit, "?recursive=true&expand=false");
  const std::string origin = url_origin(url);
  for (int page = 0; !url.empty(); ++page) {
    require<FormatError>(page < kMaxPages && url_origin(url) == origin, "[hub] ", repo.text(),
                         ": the list of files does not end, or continues on another server: ", url, ".");
    const auto response = get(url);
    require_ok(response, repo, "", endpoint());
    const Json entries = parse_response(response);
    for (const Json& entry : entries.as_array()) {
      if (entry.at("type").as_string() == "file") files.push_back(listed_file(entry, repo));
    }
    const std::string next = linked_url(response.header("Link"), "next");
    url = next.empty() ? "" : url_join(url, next);
  }
  return files;
}

std::string HubApi::file_url(const HubRepo& repo, const std::string& commit, const std::string& name) const {
  return concat(endpoint(), "/", repo.web_path(), "/resolve/", commit, "/", url_escape(name, "/"));
}

}  // namespace easydel
