#include "easydel/io/hub/lfs_upload.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <span>

#include "easydel/core/progress/progress.h"
#include "easydel/io/parallel.h"

namespace easydel {

namespace {

constexpr std::size_t kFilesInBatch = 256;
constexpr std::chrono::seconds kResponseTimeout{300};  // storage may take long to respond
constexpr const char* kLfsJson = "application/vnd.git-lfs+json";

class SourceFile {
 public:
  explicit SourceFile(const LfsFile& file) : fd_(::open(file.source.c_str(), O_RDONLY | O_CLOEXEC)) {
    require<IoError>(fd_ >= 0, "[hub] cannot open ", file.source.string(), ": ", errno_text(errno), ".");
  }
  ~SourceFile() { ::close(fd_); }
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

// The hub's instructions for one file.
struct Task {
  const LfsFile* file;
  Json actions;
};

class Uploader {
 public:
  Uploader(HubApi& api, const LfsUpload& upload) : api_(api), upload_(upload) {}

  void run(const Task& task) {
    const Json& action = task.actions.at("upload");
    const std::string url = on_endpoint(action.at("href").as_string());
    const Json* header = action.find("header");
    const Json* chunk = header != nullptr ? header->find("chunk_size") : nullptr;
    Progress progress(task.file->path,
                      {.total = task.file->size, .unit = "B", .enabled = upload_.environment.progress_bars});
    const SourceFile source(*task.file);
    if (chunk != nullptr) {
      send_parts(task, url, *header, chunk_size(task, *chunk), source, progress);
    } else {
      put(task, url, extra_headers(header), {source.fd(), 0, task.file->size}, progress);
    }
    if (const Json* verify = task.actions.find("verify")) {
      const Json body = Json::object({{"oid", task.file->sha256}, {"size", task.file->size}});
      const std::string href = on_endpoint(verify->at("href").as_string());
      check(task, api_.post(href, body.dump(), kLfsJson, /*idempotent=*/true, kResponseTimeout));
    }
  }

 private:
  // The hub writes its own address; a mirror in HF_ENDPOINT replaces it.
  std::string on_endpoint(const std::string& href) const {
    constexpr std::string_view kHub = "https://huggingface.co/";
    return href.starts_with(kHub) ? api_.endpoint() + "/" + href.substr(kHub.size()) : href;
  }

  void check(const Task& task, const HttpResponse& response) const {
    require_ok(response, upload_.repo, task.file->path, api_.endpoint(), HubAccess::Write);
  }

  [[noreturn]] void malformed(const Task& task, const std::string& what) const {
    fail<FormatError>("[hub] \"", task.file->path, "\" of ", upload_.repo.text(), " cannot be uploaded: ", what, ".");
  }

  int64_t chunk_size(const Task& task, const Json& value) const {  // the hub writes it as a string
    const int64_t size = value.is_string() ? std::atoll(value.as_string().c_str())
                         : value.is_int()  ? value.as_int()
                                           : 0;
    if (size <= 0) malformed(task, concat("the server requests parts of ", value.dump(), " bytes"));
    return size;
  }

  static std::vector<std::string> extra_headers(const Json* header) {
    std::vector<std::string> lines;
    if (header == nullptr || !header->is_object()) return lines;
    for (const auto& [name, value] : header->as_object()) {
      const bool clean = value.is_string() && (name + value.as_string()).find_first_of("\r\n") == std::string::npos;
      if (clean) lines.push_back(name + ": " + value.as_string());
    }
    return lines;
  }

  HttpResponse put(const Task& task, const std::string& url, std::vector<std::string> headers, HttpFileBody body,
                   Progress& progress) {
    HttpRequest request{.method = "PUT", .url = url, .headers = std::move(headers), .file = body};
    request.silence_limit = kResponseTimeout;
    request.on_sent = [&, begin = body.offset](int64_t sent) { progress.set(begin + sent); };
    HttpResponse response = send_with_retries(api_.client(), request, api_.retry());
    check(task, response);
    return response;
  }

  void send_parts(const Task& task, const std::string& url, const Json& header, int64_t part_size,
                  const SourceFile& source, Progress& progress) {
    std::map<int64_t, std::string> addresses;
    for (const auto& [key, value] : header.as_object()) {
      if (!key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == key.npos) {
        addresses[std::atoll(key.c_str())] = value.as_string();
      }
    }
    const int64_t count = (task.file->size + part_size - 1) / part_size;
    if (static_cast<int64_t>(addresses.size()) != count) {
      malformed(task, concat(task.file->size, " bytes make ", count, " parts of ", part_size,
                             "; the server has URLs for ", addresses.size()));
    }
    Json parts = Json::array();
    int64_t number = 0;
    for (const auto& [key, address] : addresses) {
      const int64_t offset = part_size * number++;
      const HttpFileBody body{source.fd(), offset, std::min(part_size, task.file->size - offset)};
      const std::string etag = put(task, on_endpoint(address), {}, body, progress).header("ETag");
      if (etag.empty()) malformed(task, concat("the server took part ", number, " without an ETag"));
      parts.push_back(Json::object({{"partNumber", number}, {"etag", etag}}));
    }
    const Json done = Json::object({{"oid", task.file->sha256}, {"parts", std::move(parts)}});
    check(task, api_.post(url, done.dump(), kLfsJson, /*idempotent=*/true, kResponseTimeout));
  }

  HubApi& api_;
  const LfsUpload& upload_;
};

std::vector<Task> ask_for_tasks(HubApi& api, const LfsUpload& upload, std::span<const LfsFile> files) {
  Json objects = Json::array();
  std::map<std::string, const LfsFile*> by_hash;
  for (const LfsFile& file : files) {
    if (!by_hash.emplace(file.sha256, &file).second) continue;  // the same content under another name
    objects.push_back(Json::object({{"oid", file.sha256}, {"size", file.size}}));
  }
  const Json body = Json::object({{"operation", "upload"},
                                  {"transfers", Json::array({"basic", "multipart"})},
                                  {"objects", std::move(objects)},
                                  {"hash_algo", "sha256"},
                                  {"ref", Json::object({{"name", upload.repo.revision}})}});
  const auto response =
      api.post(upload.repo.web_path() + ".git/info/lfs/objects/batch", body.dump(), kLfsJson, /*idempotent=*/true);
  require_ok(response, upload.repo, "", api.endpoint(), HubAccess::Write);
  const Json answer = parse_response(response);
  std::vector<Task> tasks;
  for (const Json& object : answer.at("objects").as_array()) {
    const auto found = by_hash.find(object.at("oid").as_string());
    require<FormatError>(found != by_hash.end(), "[hub] ", upload.repo.text(), ": the server responded for ",
                         object.at("oid").dump(), ", which was not asked about.");
    if (const Json* error = object.find("error")) {
      fail<IoError>("[hub] \"", found->second->path, "\" of ", upload.repo.text(), " was refused; got ",
                    error->at("code").dump(), " (", error->at("message").as_string(), ") from ", api.endpoint(), ".");
    }
    if (const Json* actions = object.find("actions"); actions != nullptr && actions->contains("upload")) {
      tasks.push_back({found->second, *actions});
    }
  }
  return tasks;
}

}  // namespace

void upload_lfs_files(const LfsUpload& upload, const std::vector<LfsFile>& files) {
  std::vector<Task> tasks;
  HubApi api(upload.environment, {});
  for (std::size_t begin = 0; begin < files.size(); begin += kFilesInBatch) {
    const auto batch = std::span(files).subspan(begin, std::min(kFilesInBatch, files.size() - begin));
    for (Task& task : ask_for_tasks(api, upload, batch)) tasks.push_back(std::move(task));
  }
  for_each_in_parallel(tasks.size(), upload.max_workers, [&](const std::stop_token& stop) {
    return [&, worker = std::make_shared<HubApi>(upload.environment, stop)](std::size_t i) {
      Uploader(*worker, upload).run(tasks[i]);
    };
  });
}

}  // namespace easydel
