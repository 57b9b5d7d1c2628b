#include "easydel/io/hub/hub.h"

#include <algorithm>
#include <memory>

#include "easydel/core/log.h"
#include "easydel/core/text/bytes.h"
#include "easydel/core/text/quoted.h"
#include "easydel/io/hub/hub_api.h"
#include "easydel/io/hub/hub_cache.h"
#include "easydel/io/hub/hub_download.h"
#include "easydel/io/parallel.h"

namespace easydel {

namespace fs = std::filesystem;

namespace {

std::vector<HubFile> missing_files(const HubCache& cache, const std::string& commit,
                                   const std::vector<HubFile>& files) {
  std::vector<HubFile> missing;
  for (const HubFile& file : files) {
    if (!cache.has(commit, file)) missing.push_back(file);
  }
  return missing;
}

std::string list_names(const std::vector<HubFile>& files) {
  std::string names;
  for (std::size_t i = 0; i < files.size() && i < 3; ++i) names += concat(i == 0 ? "" : ", ", files[i].path);
  return files.size() <= 3 ? names : concat(names, " and ", files.size() - 3, " more");
}

// The snapshot in the cache if it has all requested files; IoError says what was looked for, and where.
fs::path find_in_cache(const HubRepo& repo, const HubCache& cache, const std::vector<std::string>& wanted) {
  const auto commit = cache.find_commit(repo.revision);
  const bool there = commit && fs::is_directory(cache.snapshot(*commit));
  require<IoError>(there, "[hub] ", repo.text(), " is not in the cache; looked for ",
                   (commit ? cache.snapshot(*commit) : cache.folder() / "refs" / repo.revision).string(), ".");
  for (const std::string& name : wanted) {
    require<IoError>(is_pattern(name) || !cache.is_marked_absent(*commit, name), "[hub] ", repo.text(),
                     " has no file \"", name, "\", according to the hub's last response.");
  }
  const auto tree = cache.read_tree(*commit);
  const auto files = select_files(tree ? *tree : cache.files_in_snapshot(*commit), wanted, repo);
  const auto missing = missing_files(cache, *commit, files);
  require<IoError>(missing.empty(), "[hub] ", repo.text(), " is not complete in the cache; ",
                   cache.snapshot(*commit).string(), " lacks ", missing.size(), " of ", files.size(),
                   " files: ", list_names(missing), ".");
  return cache.snapshot(*commit);
}

std::optional<fs::path> try_cache(const HubRepo& repo, const HubCache& cache, const std::vector<std::string>& wanted) {
  try {
    return find_in_cache(repo, cache, wanted);
  } catch (const IoError&) {
    return std::nullopt;
  }
}

void warn_when_disk_is_small(const fs::path& where, const std::vector<HubFile>& files) {
  int64_t needed = 0;
  for (const HubFile& file : files) needed += file.size;
  std::error_code error;
  const auto space = fs::space(where, error);
  if (!error && static_cast<int64_t>(space.available) < needed) {
    log::warning("[hub] ", format_bytes(needed), " will be downloaded to ", where.string(), ", which has ",
                 format_bytes(static_cast<int64_t>(space.available)), " free. Set HF_HUB_CACHE to move the cache.");
  }
}

// Largest first, so that no worker starts on the largest when all others are done.
void download_all(const HubEnvironment& env, const HubCache& cache, const HubRepo& repo, const std::string& commit,
                  std::vector<HubFile> files, const HubOptions& options) {
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.size > b.size; });
  for_each_in_parallel(files.size(), options.max_workers, [&](const std::stop_token& stop) {
    return [&, api = std::make_shared<HubApi>(env, stop)](std::size_t i) {
      download_file(*api, cache,
                    {.repo = repo,
                     .commit = commit,
                     .file = files[i],
                     .progress = env.progress_bars,
                     .links = env.links,
                     .lock_timeout = options.lock_timeout});
    };
  });
}

struct Listing {
  std::string commit;
  std::vector<HubFile> files;
};

Listing list_repository(const HubEnvironment& env, const HubCache& cache, const HubRepo& repo) {
  if (is_commit(repo.revision)) {  // a commit never changes: what is known about it needs no request
    if (const auto tree = cache.read_tree(repo.revision)) return {repo.revision, *tree};
  }
  HubApi api(env, {});
  const std::string commit = is_commit(repo.revision) ? repo.revision : api.commit_of(repo);
  if (const auto tree = cache.read_tree(commit)) return {commit, *tree};
  return {commit, api.list_files(repo, commit)};
}

// A read-only cache is still usable: writing what is only needed next time may fail.
void remember(const HubCache& cache, const HubRepo& repo, const Listing& listing,
              const std::vector<std::string>& wanted) {
  try {
    if (!cache.read_tree(listing.commit)) cache.write_tree(listing.commit, listing.files);
    for (const std::string& name : wanted) {
      const auto is_it = [&](const HubFile& file) { return file.path == name; };
      const bool listed = std::any_of(listing.files.begin(), listing.files.end(), is_it);
      if (!listed && !is_pattern(name) && is_safe_file_name(name)) cache.mark_absent(listing.commit, name);
    }
  } catch (const IoError& error) {
    log::debug("[hub] could not update the cache of ", repo.text(), ": ", error.what());
  }
}

std::optional<Listing> try_to_list(const HubEnvironment& env, const HubCache& cache, const HubRepo& repo,
                                   const std::optional<fs::path>& cached) {
  if (!cached) return list_repository(env, cache, repo);
  HubEnvironment hasty = env;
  hasty.retry.max_retries = 0;  // do not wait for a server that is not needed
  const auto warn = [&](const Error& error) {
    log::warning(error.what(), " Using the cached snapshot ", cached->string(), ".");
    return std::nullopt;
  };
  try {
    return list_repository(hasty, cache, repo);
  } catch (const HubError& error) {
    if (error.code() == "RevisionNotFound") throw;
    return warn(error);
  } catch (const HttpError& error) {
    return warn(error);
  } catch (const NotSupportedError&) {  // a build without libcurl
    return std::nullopt;
  }
}

fs::path resolve_online(const HubEnvironment& env, const HubCache& cache, const HubRepo& repo,
                        const HubOptions& options) {
  const auto cached = try_cache(repo, cache, options.files);
  const auto listing = try_to_list(env, cache, repo, cached);
  if (!listing) return *cached;
  remember(cache, repo, *listing, options.files);
  const std::string& commit = listing->commit;
  const auto missing = missing_files(cache, commit, select_files(listing->files, options.files, repo));
  if (!missing.empty()) {
    cache.prepare(commit);
    warn_when_disk_is_small(cache.root(), missing);
    download_all(env, cache, repo, commit, missing, options);
  }
  try {
    cache.write_ref(repo.revision, commit);  // last: until then the ref leads to an older, complete snapshot
  } catch (const IoError& error) {
    log::debug("[hub] could not update the cache of ", repo.text(), ": ", error.what());
  }
  return cache.snapshot(commit);
}

}  // namespace

fs::path resolve(const std::string& name_or_path, const HubOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(name_or_path, ignored)) return name_or_path;
  if (name_or_path.ends_with(".gguf") && fs::is_regular_file(name_or_path, ignored)) return name_or_path;
  require<ConfigError>(!fs::exists(name_or_path, ignored), "[hub] ", name_or_path,
                       " is a file; expected a directory, a .gguf file or a repository name.");
  for (const char* suffix : {".gguf", ".json", ".yaml", ".yml", ".safetensors", ".bin", ".pt", ".pth"}) {
    require<ConfigError>(!name_or_path.ends_with(suffix), "[hub] file ", quoted(name_or_path), " does not exist.");
  }
  require<ConfigError>(is_repo_id(name_or_path), "[hub] \"", name_or_path,
                       "\" is neither a directory nor a repository name such as \"org/name\".");
  const HubRepo repo = make_hub_repo(name_or_path, options.repo_type, options.revision);
  HubEnvironment env = read_hub_environment(options);
  if (!options.cache_dir.empty()) env.cache = fs::absolute(options.cache_dir);
  env.offline = env.offline || options.local_files_only;
  const HubCache cache(env.cache, repo);
  if (env.offline) {
    try {
      return find_in_cache(repo, cache, options.files);
    } catch (const IoError& error) {
      fail<IoError>(error.what(),
                    options.local_files_only
                        ? " Nothing is downloaded, because local_files_only is set."
                        : " Nothing is downloaded, because HF_HUB_OFFLINE is set. Unset it, or download on a "
                          "connected machine and copy the cache.");
    }
  }
  try {
    return resolve_online(env, cache, repo, options);
  } catch (const NotSupportedError& error) {
    fail<NotSupportedError>("[hub] ", repo.text(), " is not in ", cache.root().string(), ". ", error.what());
  } catch (const HttpError& error) {
    throw HttpError(concat("[hub] directory ", quoted(name_or_path),
                           " does not exist, and the hub does not respond: ", error.what()),
                    error.sent(), error.known_host());
  } catch (const HubError& error) {
    if (error.code() != "RepoNotFound") throw;
    throw HubError(concat(error.what(), " No local directory has that name either."), error.status(), error.code());
  }
}

}  // namespace easydel
