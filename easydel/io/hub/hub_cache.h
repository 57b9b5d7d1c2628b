// The cache of one repository on disk, laid out as Hugging Face's own library lays it out, so that both share it:
//   models--org--name/blobs/<etag>                      the content, named by its hash
//   models--org--name/snapshots/<commit>/<file>         a relative link to a blob
//   models--org--name/refs/<branch or tag>              the commit that it pointed to
//   models--org--name/trees/<commit>.json               which files the commit has
//   models--org--name/.no_exist/<commit>/<file>         known to be absent
//   .locks/models--org--name/<etag>.lock                held while a blob is written
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "easydel/io/hub/hub_repo.h"

namespace easydel {

class HubCache {
 public:
  HubCache(std::filesystem::path root, const HubRepo& repo);

  const std::filesystem::path& root() const { return root_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  std::filesystem::path incomplete_blob(const std::string& etag) const;
  std::filesystem::path lock(const std::string& etag) const;
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }

  // The commit that a revision is known to refer to: itself, or the content of its ref.
  std::optional<std::string> find_commit(const std::string& revision) const;
  void write_ref(const std::string& revision, const std::string& commit) const;  // no-op when it is up to date

  // The list of files of a commit; absent when there is none, or when it cannot be parsed.
  std::optional<std::vector<HubFile>> read_tree(const std::string& commit) const;
  void write_tree(const std::string& commit, const std::vector<HubFile>& files) const;

  // Whether the snapshot has this file with the right size.
  bool has(const std::string& commit, const HubFile& file) const;
  // The names and sizes of the snapshot's files, when there is no list to compare with.
  std::vector<HubFile> files_in_snapshot(const std::string& commit) const;

  // Creates the snapshot's entry for an existing blob: a relative link, or a copy where links are not possible.
  void link(const std::string& commit, const HubFile& file, bool allow_links) const;
  void mark_absent(const std::string& commit, const std::string& name) const;
  bool is_marked_absent(const std::string& commit, const std::string& name) const;
  // Creates the directories, and CACHEDIR.TAG, by which backup programs recognize a cache. IoError when it cannot.
  void prepare(const std::string& commit) const;

 private:
  std::filesystem::path root_;
  std::filesystem::path folder_;
  std::string lock_folder_;
};

}  // namespace easydel
