#include "easydel/data/sources/source.h"

#include <algorithm>

#include "easydel/core/error.h"

namespace easydel::data {
namespace {

class Concatenation : public Source {
 public:
  explicit Concatenation(std::vector<SourcePtr> parts) : parts_(std::move(parts)) {
    for (const SourcePtr& part : parts_) {
      begins_.push_back(size_);
      size_ += part->size();
      access_ = std::max(access_, part->access());
    }
  }
  int64_t size() const override { return size_; }
  Json row(int64_t index) const override {
    const std::size_t part = part_of(index);
    return parts_[part]->row(index - begins_[part]);
  }
  std::string place(int64_t index) const override {
    const std::size_t part = part_of(index);
    return parts_[part]->place(index - begins_[part]);
  }
  std::filesystem::path folder(int64_t index) const override {
    const std::size_t part = part_of(index);
    return parts_[part]->folder(index - begins_[part]);
  }
  Access access() const override { return access_; }
  void keep_rows(int64_t count) const override {
    for (const SourcePtr& part : parts_) part->keep_rows(count);
  }

 private:
  std::size_t part_of(int64_t index) const {  // the last that begins at or before it: empty parts come first
    return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), index) - begins_.begin()) - 1;
  }

  std::vector<SourcePtr> parts_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
  Access access_ = Access::Random;
};

class RowsInMemory : public Source {
 public:
  RowsInMemory(std::vector<Json> rows, std::string name) : rows_(std::move(rows)), name_(std::move(name)) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  Json row(int64_t index) const override { return rows_[static_cast<std::size_t>(index)]; }
  std::string place(int64_t index) const override { return concat(name_, ", row ", index + 1); }
  std::filesystem::path folder(int64_t) const override { return std::filesystem::path(name_).parent_path(); }

 private:
  std::vector<Json> rows_;
  std::string name_;
};

class Slice : public Source {
 public:
  Slice(SourcePtr source, int64_t begin, int64_t end) : source_(std::move(source)), begin_(begin), size_(end - begin) {}
  int64_t size() const override { return size_; }
  Json row(int64_t index) const override { return source_->row(begin_ + index); }
  std::string place(int64_t index) const override { return source_->place(begin_ + index); }
  std::filesystem::path folder(int64_t index) const override { return source_->folder(begin_ + index); }
  Access access() const override { return source_->access(); }
  void keep_rows(int64_t count) const override { source_->keep_rows(count); }

 private:
  SourcePtr source_;
  int64_t begin_, size_;
};

class Selection : public Source {
 public:
  Selection(SourcePtr source, std::vector<int64_t> rows) : source_(std::move(source)), rows_(std::move(rows)) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  Json row(int64_t index) const override { return source_->row(rows_[static_cast<std::size_t>(index)]); }
  std::string place(int64_t index) const override { return source_->place(rows_[static_cast<std::size_t>(index)]); }
  std::filesystem::path folder(int64_t index) const override {
    return source_->folder(rows_[static_cast<std::size_t>(index)]);
  }
  Access access() const override { return source_->access(); }
  void keep_rows(int64_t count) const override {  // the span between the first and the last of this many
    const double share = rows_.empty() ? 1 : static_cast<double>(source_->size()) / static_cast<double>(rows_.size());
    source_->keep_rows(static_cast<int64_t>(static_cast<double>(count) * share) + 1);
  }

 private:
  SourcePtr source_;
  std::vector<int64_t> rows_;
};

}  // namespace

SourcePtr concatenate(std::vector<SourcePtr> sources) {
  if (sources.size() == 1) return sources[0];
  return std::make_shared<Concatenation>(std::move(sources));
}

SourcePtr make_source(std::vector<Json> rows, std::string name) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    require<FormatError>(rows[i].is_object(), "[", name, ", row ", i + 1, "] a row must be an object; got ",
                         rows[i].type_name(), ".");
  }
  return std::make_shared<RowsInMemory>(std::move(rows), std::move(name));
}

SourcePtr select_rows(SourcePtr source, std::vector<int64_t> rows) {
  return std::make_shared<Selection>(std::move(source), std::move(rows));
}

SourcePtr slice_rows(SourcePtr source, int64_t begin, int64_t end) {
  end = std::clamp<int64_t>(end, 0, source->size());
  begin = std::clamp<int64_t>(begin, 0, end);
  if (begin == 0 && end == source->size()) return source;
  return std::make_shared<Slice>(std::move(source), begin, end);
}

std::string list_fields(const Json& row) {
  std::string names;
  for (const auto& [name, value] : row.as_object()) names += concat(names.empty() ? "" : ", ", name);
  return names.empty() ? "none" : names;
}

const Json& field_of(const Row& row, std::string_view name) {
  const Json* found = row.values.find(name);
  require<FormatError>(found != nullptr, "[", row.place(), "] the row has no field \"", name, "\"; it has ",
                       list_fields(row.values), ".");
  return *found;
}

}  // namespace easydel::data
