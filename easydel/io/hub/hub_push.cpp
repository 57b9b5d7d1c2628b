#include "easydel/io/hub/hub_push.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <span>

#include "easydel/core/files/file.h"
#include "easydel/core/log.h"
#include "easydel/io/hub/base64.h"
#include "easydel/io/hub/hash.h"
#include "easydel/io/hub/hub_api.h"
#include "easydel/io/hub/lfs_upload.h"
#include "easydel/io/hub/url.h"
#include "easydel/io/parallel.h"

namespace easydel {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kFilesInQuestion = 256;
constexpr std::size_t kSampleSize = 512;
constexpr std::chrono::seconds kCommitPatience{600};

struct Addition {
  std::string path;  // in the repository
  fs::path source;
  int64_t size = 0;
  bool lfs = false;
  bool ignored = false;    // by the repository's .gitignore
  std::string remote_oid;  // of the file as the hub has it
  std::string local_oid;   // SHA-256 in LFS, git's SHA-1 otherwise
};

// The first bytes, by which the hub distinguishes text from binary data.
std::string read_sample(const Addition& addition) {
  std::string sample(static_cast<std::size_t>(std::min<int64_t>(addition.size, kSampleSize)), '\0');
  std::ifstream file(addition.source, std::ios::binary);
  file.read(sample.data(), static_cast<std::streamsize>(sample.size()));
  require<IoError>(file.good(), "[hub] cannot read ", addition.source.string(), ": ", errno_text(errno), ".");
  return sample;
}

std::vector<Addition> find_files(const fs::path& folder, const PushOptions& options, const HubRepo& repo) {
  std::error_code error;
  require<IoError>(fs::is_directory(folder, error), "[hub] the source of an upload must be a directory; got ",
                   folder.string(), ".");
  std::vector<HubFile> all;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const fs::path relative = it->path().lexically_relative(folder);
    std::error_code broken;
    if (relative.filename() == ".git" || relative.filename() == ".cache") {
      it.disable_recursion_pending();
      continue;
    }
    if (!fs::is_regular_file(it->path(), broken)) continue;
    all.push_back({.path = relative.generic_string(), .size = static_cast<int64_t>(fs::file_size(it->path(), broken))});
  }
  require<IoError>(!error, "[hub] cannot list ", folder.string(), ": ", error.message(), ".");
  require<IoError>(!all.empty(), "[hub] ", folder.string(), " contains no files to upload.");
  const std::vector<std::string> everything = {"*"};
  std::vector<Addition> additions;
  for (const HubFile& file : select_files(all, options.files.empty() ? everything : options.files, repo)) {
    additions.push_back({.path = file.path, .source = folder / file.path, .size = file.size});
  }
  return additions;
}

class Push {
 public:
  Push(HubRepo repo, const PushOptions& options)
      : options_(options),
        env_(read_hub_environment(options)),
        repo_(std::move(repo)),
        api_(checked(env_, repo_), {}) {}

  CommitInfo run(const fs::path& folder) {
    std::vector<Addition> additions = find_files(folder, options_, repo_);
    create_repository();
    if (repo_.revision != "main" && !repo_.revision.starts_with("refs/")) create_branch();
    for (std::size_t begin = 0; begin < additions.size(); begin += kFilesInQuestion) {
      ask_how(std::span(additions).subspan(begin, std::min(kFilesInQuestion, additions.size() - begin)));
    }
    hash(additions);
    std::erase_if(additions, [](const Addition& a) { return a.ignored || a.local_oid == a.remote_oid; });
    if (additions.empty()) return nothing_changed();
    std::vector<LfsFile> large;
    for (const Addition& a : additions) {
      if (a.lfs) large.push_back({.path = a.path, .source = a.source, .size = a.size, .sha256 = a.local_oid});
    }
    if (!large.empty())
      upload_lfs_files({.environment = env_, .repo = repo_, .max_workers = options_.max_workers}, large);
    return commit(additions);
  }

 private:
  static HubEnvironment checked(HubEnvironment env, const HubRepo& repo) {
    require<IoError>(!env.offline, "[hub] nothing can be uploaded to ", repo.text(),
                     ", because HF_HUB_OFFLINE is set. Unset it.");
    require<ConfigError>(!env.token.empty(), "[hub] an upload to ", repo.text(),
                         " needs a token with write access. Set HF_TOKEN, or pass one.");
    return env;
  }

  void require_done(const HttpResponse& response) const {
    require_ok(response, repo_, "", api_.endpoint(), HubAccess::Write);
  }

  void create_repository() {
    const auto slash = repo_.id.find('/');
    Json body = Json::object({{"name", repo_.id.substr(slash == repo_.id.npos ? 0 : slash + 1)},
                              {"organization", slash == repo_.id.npos ? Json() : Json(repo_.id.substr(0, slash))},
                              {"type", repo_type_name(repo_.type)}});
    if (options_.private_repo) body["visibility"] = *options_.private_repo ? "private" : "public";
    const auto response = api_.post_json("api/repos/create", body);
    const bool exists = response.status == 409;
    const bool may_exist = response.status == 401 || response.status == 403;  // a token for one repository, say
    if (may_exist) {
      const auto answer = api_.get(api_.endpoint() + "/" + repo_.api_path());
      if (!answer.ok()) require_done(response);
    } else if (!exists) {
      require_done(response);
    }
    if (slash == repo_.id.npos && (response.ok() || exists)) {
      const std::string url = parse_response(response).at("url").as_string();  // it ends in the full name
      const auto last = url.rfind('/');
      const auto before = last == url.npos ? url.npos : url.rfind('/', last - 1);
      const std::string full = before == url.npos ? "" : url.substr(before + 1);
      repo_ = make_hub_repo(is_repo_id(full) ? full : repo_.id, repo_type_name(repo_.type), repo_.revision);
    }
  }

  void create_branch() {
    const auto response =
        api_.post_json(concat(repo_.api_path(), "/branch/", url_escape(repo_.revision)), Json::object());
    if (response.status != 409) require_done(response);
  }

  // The hub decides which files go into the commit itself and which to LFS.
  void ask_how(std::span<Addition> additions) {
    Json files = Json::array();
    std::map<std::string, Addition*> by_path;
    Json body = Json::object();
    for (Addition& a : additions) {
      files.push_back(Json::object({{"path", a.path}, {"sample", base64_encode(read_sample(a))}, {"size", a.size}}));
      by_path[a.path] = &a;
      if (a.path == ".gitignore") body["gitIgnore"] = read_file(a.source);
    }
    body["files"] = std::move(files);
    const auto response = api_.post_json(concat(repo_.api_path(), "/preupload/", revision_in_url()), body);
    require_done(response);
    const Json answer = parse_response(response);
    std::size_t answered = 0;
    for (const Json& file : answer.at("files").as_array()) {
      const auto found = by_path.find(file.at("path").as_string());
      if (found == by_path.end()) continue;
      Addition& a = *found->second;
      a.lfs = file.at("uploadMode").as_string() == "lfs" && a.size > 0;  // LFS cannot hold an empty file
      if (const Json* ignored = file.find("shouldIgnore")) a.ignored = ignored->is_bool() && ignored->as_bool();
      if (const Json* oid = file.find("oid"); oid != nullptr && oid->is_string()) a.remote_oid = oid->as_string();
      if (a.ignored) log::info("[hub] ", a.path, " is skipped: the repository's .gitignore excludes it.");
      ++answered;
    }
    require<FormatError>(answered == by_path.size(), "[hub] ", repo_.text(), ": the server responded for ", answered,
                         " of ", by_path.size(), " files.");
  }

  void hash(std::vector<Addition>& additions) {
    for_each_in_parallel(additions.size(), options_.max_workers, [&](const std::stop_token&) {
      return [&](std::size_t i) {
        Addition& a = additions[i];
        a.local_oid = a.lfs ? sha256_of_file(a.source) : git_blob_hash(read_file(a.source));
      };
    });
  }

  CommitInfo commit(const std::vector<Addition>& additions) {
    std::string lines = line(
        "header", Json::object({{"summary", options_.commit_message}, {"description", options_.commit_description}}));
    for (const Addition& a : additions) {
      if (a.lfs) {
        lines += line("lfsFile",
                      Json::object({{"path", a.path}, {"algo", "sha256"}, {"oid", a.local_oid}, {"size", a.size}}));
      } else {
        lines += line(
            "file",
            Json::object({{"content", base64_encode(read_file(a.source))}, {"path", a.path}, {"encoding", "base64"}}));
      }
    }
    const auto response = api_.post(concat(repo_.api_path(), "/commit/", revision_in_url()), lines,
                                    "application/x-ndjson", /*idempotent=*/false, kCommitPatience);
    require_done(response);
    const Json answer = parse_response(response);
    CommitInfo info = describe(answer.at("commitOid").as_string());
    info.commit_url = answer.at("commitUrl").as_string();
    if (options_.create_pr) info.pull_request_url = answer.at("pullRequestUrl").as_string();
    return info;
  }

  CommitInfo nothing_changed() {
    log::info("[hub] ", repo_.text(), " is up to date; nothing is committed.");
    const std::string commit = api_.commit_of(repo_);
    CommitInfo info = describe(commit);
    info.commit_url = info.repo_url + "/commit/" + commit;
    return info;
  }

  CommitInfo describe(const std::string& commit) const {
    return {.repo_id = repo_.id, .repo_url = api_.endpoint() + "/" + repo_.web_path(), .commit = commit};
  }

  std::string revision_in_url() const {
    return url_escape(repo_.revision) + (options_.create_pr ? "?create_pr=1" : "");
  }

  static std::string line(const char* key, Json value) {
    return Json::object({{"key", key}, {"value", std::move(value)}}).dump() + "\n";
  }

  const PushOptions& options_;
  HubEnvironment env_;
  HubRepo repo_;
  HubApi api_;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "easydel-push-XXXXXX").string();
    require<IoError>(::mkdtemp(pattern.data()) != nullptr, "[hub] cannot create a directory like ", pattern, ": ",
                     errno_text(errno), ". Set TMPDIR.");
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

using FileTimes = std::map<std::string, fs::file_time_type>;

FileTimes file_times(const fs::path& folder) {
  FileTimes times;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code broken;
    if (it->is_regular_file(broken)) {
      times[it->path().lexically_relative(folder).generic_string()] = it->last_write_time(broken);
    }
  }
  return times;
}

}  // namespace

CommitInfo upload_folder(const fs::path& folder, const std::string& repo_id, const PushOptions& options) {
  return Push(make_hub_repo(repo_id, options.repo_type, options.revision), options).run(folder);
}

CommitInfo push_to_hub(const std::string& repo_id, const std::function<void(const fs::path&)>& save,
                       const PushOptions& options) {
  const HubRepo repo = make_hub_repo(repo_id, options.repo_type, options.revision);
  Push push(repo, options);  // a missing token is reported before anything is written
  const fs::path named =
      options.directory.empty() ? fs::path(repo.id.substr(repo.id.rfind('/') + 1)) : options.directory;
  std::error_code error;
  if (options.use_temp_dir.value_or(!fs::is_directory(named, error))) {
    const TemporaryFolder folder;
    save(folder.path());
    return push.run(folder.path());
  }
  fs::create_directories(named, error);
  require<IoError>(!error, "[hub] cannot create ", named.string(), ": ", error.message(), ".");
  const FileTimes before = file_times(named);
  save(named);
  std::vector<HubFile> written;
  for (const auto& [name, time] : file_times(named)) {
    const auto found = before.find(name);
    if (found == before.end() || found->second != time) written.push_back({.path = name});
  }
  require<IoError>(!written.empty(), "[hub] nothing was written into ", named.string(), " to upload.");
  if (!options.files.empty()) written = select_files(written, options.files, repo);
  PushOptions changed = options;
  changed.files.clear();
  for (const HubFile& file : written) changed.files.push_back(file.path);
  return Push(repo, changed).run(named);
}

}  // namespace easydel
